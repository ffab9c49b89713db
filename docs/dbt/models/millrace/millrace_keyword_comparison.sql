-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_comparison') }}
select * from {{ source('millrace', 'keyword_comparison') }}
