-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_month_over_month') }}
select * from {{ source('millrace', 'keyword_month_over_month') }}
