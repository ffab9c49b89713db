{# Made by millrace docs from semantic/*.yaml; do not edit. Models of this materialization are views of bi that are there already: nothing is made. #}
{% materialization published, default %}
  {% call statement('main') %}select 1{% endcall %}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}
{% macro generate_schema_name(custom_schema_name, node) %}{{ custom_schema_name or target.schema }}{% endmacro %}
