{# Made by millrace docs from semantic/*.yaml; do not edit. #}
{% test unique_rows(model, columns) %}
select {{ columns | join(', ') }} from {{ model }} group by {{ columns | join(', ') }} having count(*) > 1
{% endtest %}
