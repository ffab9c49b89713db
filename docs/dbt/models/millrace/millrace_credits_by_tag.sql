-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='credits_by_tag') }}
select * from {{ source('millrace', 'credits_by_tag') }}
