-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='shopper_comparison') }}
select * from {{ source('millrace', 'shopper_comparison') }}
