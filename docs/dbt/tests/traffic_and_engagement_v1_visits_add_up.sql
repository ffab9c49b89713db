-- Made by millrace docs from pipelines/traffic_and_engagement.yaml; do not edit.
{{ config(severity='warn') }}
select window_from, slice, outcome, message from {{ source('millrace', 'test_failures') }}
where pipeline = 'traffic_and_engagement' and version = 1 and test = 'visits_add_up' and outcome <> 'released'
