-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_movements') }}
select * from {{ source('millrace', 'keyword_movements') }}
