-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_serp_features') }}
select * from {{ source('millrace', 'keyword_serp_features') }}
