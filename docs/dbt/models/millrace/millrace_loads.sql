-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='loads') }}
select * from {{ source('millrace', 'loads') }}
