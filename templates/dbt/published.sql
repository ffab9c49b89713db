{# Made by millrace docs from semantic/*.yaml; do not edit. Models of this materialization are views of bi that are there already: nothing is made. #}
{% materialization published, default %}
  {% call statement('main') %}select 1{% endcall %}
  {{ return({'relations': [this]}) }}
{% endmaterialization %}
{# Of an incremental model with columns month and built_at: all rows at first, then those of months that changed since it was made, a day of overlap included. #}
{% macro in_changed_months(pipeline, column='month') %}
  {%- if is_incremental() %}{{ column }} = any(array(select month from bi.figure_changes where pipeline = '{{ pipeline }}'
    and changed_at > (select coalesce(max(built_at), '-infinity') - interval '1 day' from {{ this }}))){% else %}true{% endif %}
{%- endmacro %}
{# As a post_hook: months that the source has no row of any more. #}
{% macro delete_ended_months(source, column='month') %}delete from {{ this }} where month in (select made from (select distinct month as made from {{ this }}) m
  where (select true from {{ source }} where {{ column }} = made limit 1) is null){% endmacro %}
{% macro generate_schema_name(custom_schema_name, node) %}{{ custom_schema_name or target.schema }}{% endmacro %}
