-- purpose: Units of which only the first so many rows were asked for, and there are more: what is not among them is not known.
-- grain: One row a pipeline, version, period and slice; none where all rows were asked for, or there are no more.
-- question: Of which domains do we hold the first 500 keywords alone?
-- topic: Can I trust the figures
-- reads: etl.answers, etl.units, etl.slices, etl.pipelines, etl.published_now
-- column pipeline: The pipeline.
-- column version: Its version.
-- column period: First day of the period.
-- column domain: The domain; NULL where the pipeline has none.
-- column country: The country; NULL where the pipeline has none.
-- column slice: All that the pipeline runs for, as JSON text.
-- column top: So many rows were asked for. Unit: rows.
-- column rows_of_all: So many the service said there are; NULL where it did not say. Unit: rows.
select p.pipeline, p.version, u.window_from as period, s."values"[array_position(p.dimensions, 'domain')] as domain,
  s."values"[array_position(p.dimensions, 'country')] as country, etl.slice_of(p.dimensions, s."values")::text as slice,
  a.top_rows as top, a.source_count as rows_of_all
from etl.answers a join etl.units u on u.answer_id = a.answer_id join etl.pipelines p on p.pipeline_id = u.pipeline_id
  join etl.slices s on s.slice_id = u.slice_id
where a.top_rows is not null and coalesce(a.source_count > a.top_rows, true)
  and not exists (select from etl.published_now n where n.pipeline = p.pipeline and n.version <> p.version)
