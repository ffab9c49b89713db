-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_share_of_voice') }}
select * from {{ source('millrace', 'keyword_share_of_voice') }}
