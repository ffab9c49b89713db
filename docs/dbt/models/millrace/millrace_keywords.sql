-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keywords') }}
select * from {{ source('millrace', 'keywords') }}
