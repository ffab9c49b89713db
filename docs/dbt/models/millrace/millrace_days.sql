-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='dim_date') }}
select * from {{ source('millrace', 'dim_date') }}
