-- Made by `millrace docs` from semantic/*.yaml; do not edit.
select date as date_day from {{ source('millrace', 'dim_date') }}
