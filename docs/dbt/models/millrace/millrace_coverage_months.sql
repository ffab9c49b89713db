-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='coverage_months') }}
select * from {{ source('millrace', 'coverage_months') }}
