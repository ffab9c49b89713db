-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='domains') }}
select * from {{ source('millrace', 'domains') }}
