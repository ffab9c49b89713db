-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_gap') }}
select * from {{ source('millrace', 'keyword_gap') }}
