-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='traffic_and_engagement') }}
select * from {{ source('millrace', 'traffic_and_engagement') }}
