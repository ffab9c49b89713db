-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='credits_forecast') }}
select * from {{ source('millrace', 'credits_forecast') }}
