-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='restatements') }}
select * from {{ source('millrace', 'restatements') }}
