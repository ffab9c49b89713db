-- purpose: Units that fail a test of their definition, and what was found.
-- grain: One row per unit, answer and test.
-- question: Which domains jumped last month, and is their new answer loaded?
-- topic: Can I trust the figures
-- reads: etl.failed_tests, etl.slices, etl.pipelines
-- column pipeline: The pipeline.
-- column version: Its version.
-- column window_from: First day of the window.
-- column slice: The unit's slice: a value of each dimension, as JSON text.
-- column test: Name of the test in the definition.
-- column kind: range, accepted, not_null, sum_of, ratio or restated.
-- column outcome: held (the answer waits, the former rows stay), warned (it is loaded) or released (a person had it loaded).
-- column rows_tested: Rows that the test applies to. Unit: rows.
-- column rows_failing: Rows that fail the test; 0 for ratio and restated, which test sums. Unit: rows.
-- column found: An example of what is wrong, or the sum that was found.
-- column expected: The sum it was compared with; NULL where the test compares none.
-- column message: What was expected and what was found.
-- column tested_at: When it was tested.
-- column unit_id: The unit, for `millrace release`.
select f.pipeline, f.version, f.window_from, etl.slice_of(p.dimensions, s."values")::text as slice, f.test, f.kind, f.outcome, f.rows_tested,
  f.rows_failing, f.found, f.expected, f.message, f.tested_at, f.unit_id
from etl.failed_tests f join etl.slices s on s.slice_id = f.slice_id join etl.pipelines p on p.pipeline_id = f.pipeline_id
