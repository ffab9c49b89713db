-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_intents') }}
select * from {{ source('millrace', 'keyword_intents') }}
