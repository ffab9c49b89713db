-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='shopper_category_performance') }}
select * from {{ source('millrace', 'shopper_category_performance') }}
