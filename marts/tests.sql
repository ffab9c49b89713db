-- purpose: Tests of each pipeline's rows before they are loaded, and how many units fail now.
-- grain: One row per pipeline, version and test.
-- question: May I trust the figures that were loaded last night?
-- topic: Can I trust the figures
-- reads: etl.pipelines, etl.failed_tests
-- column pipeline: The pipeline.
-- column version: Its version.
-- column test: Name of the test in the definition.
-- column column_name: The column it is about; NULL where rows are counted.
-- column expects: What the rows must be.
-- column on_failure: warn (the rows are loaded) or hold (the answer waits for a person).
-- column units_held: Units whose new answer waits because of the test; their former rows stay. Unit: units.
-- column units_warned: Units whose loaded rows fail the test. Unit: units.
-- column units_released: Units whose answer a person released although it fails. Unit: units.
-- column last_failed_at: When a failing unit was last tested; NULL where none fails.
select p.pipeline, p.version, t.test ->> 'name' as test, t.test ->> 'column' as column_name, t.test ->> 'expects' as expects,
  t.test ->> 'on_failure' as on_failure, coalesce(f.units_held, 0) as units_held, coalesce(f.units_warned, 0) as units_warned,
  coalesce(f.units_released, 0) as units_released, f.last_failed_at
from (select distinct on (pipeline, version) pipeline, version, tests from etl.pipelines order by pipeline, version, updated_at desc) p
cross join lateral jsonb_array_elements(p.tests) as t (test)
left join (
  select pipeline, version, test, count(*) filter (where outcome = 'held') as units_held, count(*) filter (where outcome = 'warned') as units_warned,
    count(*) filter (where outcome = 'released') as units_released, max(tested_at) as last_failed_at
  from etl.failed_tests group by 1, 2, 3
) f on f.pipeline = p.pipeline and f.version = p.version and f.test = t.test ->> 'name'
