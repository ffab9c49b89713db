-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='run_history') }}
select * from {{ source('millrace', 'run_history') }}
