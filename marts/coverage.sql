-- purpose: What is loaded of each pipeline, month by month, and how fresh it is.
-- grain: One row a pipeline, version and month.
-- question: May I report on October yet?
-- reads: etl.window_states, etl.window_loads
-- column pipeline: The pipeline.
-- column version: Its version.
-- column month: First day of the month.
-- column units: Units planned so far. Unit: units.
-- column units_loaded: Units loaded at least once. Unit: units.
-- column units_in_trouble: Units held or failed. Unit: units.
-- column is_complete: Whether every planned unit is loaded.
-- column last_loaded_at: The last load.
-- column last_checked_at: When the service was last asked whether anything changed.
select u.pipeline, u.version, u.month, u.units, u.units_loaded, u.units_in_trouble, u.units = u.units_loaded as is_complete,
  l.last_loaded_at, l.last_checked_at
from (select pipeline, version, date_trunc('month', window_from)::date as month, sum(units)::bigint as units,
    coalesce(sum(units) filter (where loaded), 0)::bigint as units_loaded,
    coalesce(sum(units) filter (where state in ('held', 'failed')), 0)::bigint as units_in_trouble
  from etl.window_states group by 1, 2, 3) u
join (select pipeline, version, date_trunc('month', window_from)::date as month, max(last_loaded_at) as last_loaded_at,
    max(last_checked_at) as last_checked_at
  from etl.window_loads group by 1, 2, 3) l using (pipeline, version, month)
