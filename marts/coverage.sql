-- purpose: What is loaded of each pipeline, month by month, and how fresh it is.
-- grain: One row a pipeline, version and month.
-- question: May I report on October yet?
-- reads: etl.units
-- column pipeline: The pipeline.
-- column version: Its version.
-- column month: First day of the month.
-- column units: Units planned so far. Unit: units.
-- column units_loaded: Units loaded at least once. Unit: units.
-- column units_in_trouble: Units held or failed. Unit: units.
-- column is_complete: Whether every planned unit is loaded.
-- column last_loaded_at: The last load.
-- column last_checked_at: The last look whether the service changed anything.
select pipeline, version, date_trunc('month', window_from)::date as month, count(*) as units,
  count(*) filter (where loaded_at is not null) as units_loaded, count(*) filter (where state in ('held', 'failed')) as units_in_trouble,
  bool_and(loaded_at is not null) as is_complete, max(loaded_at) as last_loaded_at, max(checked_at) as last_checked_at
from etl.units group by pipeline, version, date_trunc('month', window_from)
