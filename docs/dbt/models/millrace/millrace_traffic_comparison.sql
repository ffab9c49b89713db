-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='traffic_comparison') }}
select * from {{ source('millrace', 'traffic_comparison') }}
