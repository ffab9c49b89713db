-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_months') }}
select * from {{ source('millrace', 'keyword_months') }}
