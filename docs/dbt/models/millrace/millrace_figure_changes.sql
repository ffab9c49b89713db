-- Made by `millrace docs` from semantic/*.yaml; do not edit.
{{ config(alias='figure_changes') }}
select * from {{ source('millrace', 'figure_changes') }}
