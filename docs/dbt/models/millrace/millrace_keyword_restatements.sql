-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_restatements') }}
select * from {{ source('millrace', 'keyword_restatements') }}
