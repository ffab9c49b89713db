{# Made by millrace docs from semantic/*.yaml; do not edit. Models of this materialization are views of bi that are there already: nothing is made. #}
{% materialization published, default %}
  {% call statement('main') %}select 1{% endcall %}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}
{# Months to make anew in an incremental model with a column built_at: all of a pipeline at first, then those with a load since, a day of overlap included. #}
{% macro changed_months(pipeline) %}array(select month from bi.coverage_months where pipeline = '{{ pipeline }}'
  {%- if is_incremental() %} and last_loaded_at > (select coalesce(max(built_at), '-infinity') - interval '1 day' from {{ this }}){% endif %}){% endmacro %}
{% macro generate_schema_name(custom_schema_name, node) %}{{ custom_schema_name or target.schema }}{% endmacro %}
