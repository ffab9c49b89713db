-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='tests') }}
select * from {{ source('millrace', 'tests') }}
