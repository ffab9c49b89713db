-- purpose: Units with only their first rows loaded: no more were requested, or the answer was cut off at its limit. Nothing is known about other rows.
-- grain: One row per pipeline, version, period and slice; none where all rows were requested, or there are no more.
-- question: For which domains do we have only the first 500 keywords?
-- topic: Can I trust the figures
-- reads: etl.answers, etl.units, etl.cut_units, etl.slices, etl.pipelines, etl.published_now, etl.kept_cells
-- column pipeline: The pipeline.
-- column version: Its version.
-- column period: First day of the period.
-- column domain: The domain; NULL where the pipeline has none.
-- column country: The country; NULL where the pipeline has none.
-- column slice: One value of each dimension, as JSON text.
-- column top: Rows that were requested. Unit: rows.
-- column rows_of_all: Rows that exist, as the service states; NULL where it does not. Unit: rows.
-- column is_capped: Whether the answer reached its limit and a person released it: there may be more rows. false: no more were wanted.
-- column share_of_clicks: Share of the domain's clicks that the loaded rows bring; NULL where the service does not say it. Unit: fraction.
select p.pipeline, p.version, c.window_from as period, s."values"[array_position(p.dimensions, 'domain')] as domain,
  s."values"[array_position(p.dimensions, 'country')] as country, etl.slice_of(p.dimensions, s."values")::text as slice,
  c.top, c.rows_of_all, c.is_capped, c.share_of_clicks
from (
  select u.unit_id, u.pipeline_id, u.slice_id, u.window_from, a.top_rows as top, a.source_count as rows_of_all, false as is_capped, k.share as share_of_clicks
  from etl.answers a join etl.units u on u.answer_id = a.answer_id
    left join etl.cut_units k on k.unit_id = u.unit_id and k.answer_id = u.answer_id
  where a.top_rows is not null and coalesce(a.source_count > a.top_rows, true)
  union all
  select u.unit_id, u.pipeline_id, u.slice_id, u.window_from, k.row_limit, null, true, null
  from etl.cut_units k join etl.units u on u.unit_id = k.unit_id and u.answer_id = k.answer_id where k.row_limit is not null
) c join etl.pipelines p on p.pipeline_id = c.pipeline_id join etl.slices s on s.slice_id = c.slice_id
-- Units of a former version that the published one still lacks: bi shows their rows.
where not exists (select from etl.published_now n where n.pipeline = p.pipeline and n.version <> p.version)
  or exists (select from etl.kept_cells e where e.unit_id = c.unit_id and e.until is null)
