-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_positions') }}
select * from {{ source('millrace', 'keyword_positions') }}
