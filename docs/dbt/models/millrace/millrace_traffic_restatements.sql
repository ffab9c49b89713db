-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='traffic_restatements') }}
select * from {{ source('millrace', 'traffic_restatements') }}
