-- purpose: What the service changed after the fact, by how much, and when it was seen.
-- grain: One row a load that changed or ended rows of an earlier one.
-- question: How much of September was restated after we reported on it?
-- reads: etl.loads, etl.units
-- column pipeline: The pipeline.
-- column window_from: First day of the window that was restated.
-- column slice: What the unit was asked for.
-- column seen_at: When the change was loaded.
-- column rows_changed: Rows with another value than before. Unit: rows.
-- column rows_ended: Rows that vanished. Unit: rows.
-- column rows_new: Rows that appeared. Unit: rows.
-- column share_changed: Rows changed or ended, as a part of the rows before. Unit: fraction.
-- column run_id: The run that saw it.
select u.pipeline, u.window_from, u.slice::text as slice, l.loaded_at as seen_at, l.rows_updated as rows_changed, l.rows_ended,
  l.rows_inserted as rows_new,
  round((l.rows_updated + l.rows_ended)::numeric / nullif(l.rows_updated + l.rows_unchanged + l.rows_ended, 0), 6) as share_changed, l.run_id
from etl.loads l join etl.units u on u.unit_id = l.unit_id
where l.rows_updated + l.rows_ended > 0
