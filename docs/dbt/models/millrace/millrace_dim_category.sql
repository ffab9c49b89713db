-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='dim_category') }}
select * from {{ source('millrace', 'dim_category') }}
