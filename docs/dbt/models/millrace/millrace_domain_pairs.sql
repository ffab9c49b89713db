-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='domain_pairs') }}
select * from {{ source('millrace', 'domain_pairs') }}
