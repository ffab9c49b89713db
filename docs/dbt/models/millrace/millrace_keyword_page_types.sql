-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='keyword_page_types') }}
select * from {{ source('millrace', 'keyword_page_types') }}
