-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='traffic_trend') }}
select * from {{ source('millrace', 'traffic_trend') }}
