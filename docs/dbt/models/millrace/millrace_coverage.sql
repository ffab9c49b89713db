-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='coverage') }}
select * from {{ source('millrace', 'coverage') }}
