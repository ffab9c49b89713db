-- purpose: What is loaded and what is missing: each expected cell (a domain, a country, a period), with rows or the reason why it has none.
-- grain: One row per pipeline, version, period and slice: what the lists want now, in every period that begins in the months from the oldest to the newest one; after a table's end those requested.
-- question: Which domain has no October, and is that our fault or the service's?
-- topic: Can I trust the figures
-- reads: etl.expected_windows, etl.missing_cells, etl.slices, etl.pipelines, etl.published_now, domains, cut_units
-- column pipeline: The pipeline.
-- column version: Its published version.
-- column period: First day of the period.
-- column month: First day of the period's month.
-- column domain: The domain; NULL where the pipeline has none.
-- column country: The country; NULL where the pipeline has none.
-- column category_id: The product category, as text; NULL where the pipeline has none.
-- column slice: One value of each dimension, as JSON text.
-- column has_data: Whether there is at least one row.
-- column reason: Why there is none: service had none (it answered without a row), held (a person must decide), failed, under way, not asked. NULL where there is one.
-- column error_code: Why it is held or failed, as a code of docs/operations.md.
-- column rows_loaded: all; top 500 of 41,230 where only the first rows were requested; capped at 100 where the answer was cut at its limit. NULL where there are none. Unit: rows.
-- column share_of_clicks: Share of the domain's clicks that these first rows bring; NULL where all are loaded, or the service does not say it. Unit: fraction.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select w.pipeline, w.version, w.window_from as period, date_trunc('month', w.window_from::timestamp)::date as month,
  s."values"[array_position(p.dimensions, 'domain')] as domain, s."values"[array_position(p.dimensions, 'country')] as country,
  s."values"[array_position(p.dimensions, 'category_id')] as category_id, etl.slice_of(p.dimensions, s."values")::text as slice,
  m.reason is null as has_data, m.reason, m.error_code,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership,
  case when m.reason is null then coalesce(case when c.is_capped then 'capped at ' else 'top ' end || to_char(c.top, 'FM999,999,999') || coalesce(' of ' || to_char(c.rows_of_all, 'FM999,999,999,999'), ''), 'all') end as rows_loaded, c.share_of_clicks
from etl.expected_windows w join etl.pipelines p on p.pipeline_id = w.pipeline_id
  join (select pipeline_id, (definition #>> '{window,publication,until}')::date as until from etl.pipelines offset 0) e on e.pipeline_id = w.pipeline_id
  join etl.slices s on s.pipeline_id = w.pipeline_id and s.wanted_until is null
  left join etl.missing_cells m on m.pipeline_id = w.pipeline_id and m.window_from = w.window_from and m.slice_id = s.slice_id
  left join bi.domains g on g.domain = s."values"[array_position(p.dimensions, 'domain')]
  left join bi.cut_units c on c.pipeline = w.pipeline and c.version = w.version and c.period = w.window_from
    and c.slice = etl.slice_of(p.dimensions, s."values")::text
where not exists (select from etl.published_now n where n.pipeline = w.pipeline and n.version <> w.version)
  and (m.reason is distinct from 'not asked' or m.unit_id is not null or coalesce(w.window_from < e.until, true))
