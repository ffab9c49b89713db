-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='domain_share_of_voice') }}
select * from {{ source('millrace', 'domain_share_of_voice') }}
