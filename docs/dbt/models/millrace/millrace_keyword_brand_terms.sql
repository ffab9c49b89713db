-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_brand_terms') }}
select * from {{ source('millrace', 'keyword_brand_terms') }}
