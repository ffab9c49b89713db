-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='quota_history') }}
select * from {{ source('millrace', 'quota_history') }}
