-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='landing_pages') }}
select * from {{ source('millrace', 'landing_pages') }}
