-- purpose: Why a month's figures changed or are incomplete: values restated, units that came or went, units not loaded, another version, or another version of the API.
-- grain: One row per pipeline, month, changed_at, why and slice.
-- question: Why does September show another figure than last week?
-- topic: Can I trust the figures
-- reads: restatements, coverage, etl.loads, etl.loads_without_rows, etl.answers, etl.pipelines, etl.slices, etl.published_versions, etl.window_list, etl.hand_overs
-- column pipeline: The pipeline.
-- column month: First day of the month whose figures it is about.
-- column changed_at: When it happened; NULL where something is not loaded.
-- column why: restated, definition (another), dialect (another API version), top (another number of rows), method (counted otherwise), came (new), went (no rows now), not loaded, version, table (another).
-- column slice: The slice: a value or a list of values for each dimension, as JSON text; NULL: all of them.
-- column rows_changed: Rows with another value than before. Unit: rows.
-- column rows_new: Rows that appeared. Unit: rows.
-- column rows_ended: Rows that vanished. Unit: rows.
-- column detail: The version; or why it is not loaded; or, for rows of the pipeline that continues this one, the name of that pipeline.
with recursive ends as (
  select h.pipeline, h.successor as next, h.starts_on as ends_on, h.since
  from etl.hand_overs h where h.successor is not null and not exists (select from etl.hand_overs l where l.pipeline = h.pipeline and l.since > h.since)
), series as (
  select pipeline, next, ends_on from ends
  union select s.pipeline, e.next, greatest(s.ends_on, e.ends_on) from series s join ends e on e.pipeline = s.next
), changes as not materialized (
select r.pipeline, date_trunc('month', r.window_from::timestamp)::date as month, r.seen_at as changed_at,
  case r.cause when 'service' then 'restated' else r.cause end as why, r.slice, r.rows_changed, r.rows_new, r.rows_ended, null as detail
from bi.restatements r
union all
select p.pipeline, date_trunc('month', l.window_from::timestamp)::date, l.loaded_at, case when former.is_other_top then 'top' else 'came' end, box.slice, l.rows_updated, l.rows_inserted, l.rows_ended, null
from etl.loads l join etl.answers a on a.answer_id = l.answer_id join etl.pipelines p on p.pipeline_id = l.pipeline_id
cross join lateral (
  select coalesce(jsonb_object_agg(d.name, case when cardinality(d.listed) = 1 then to_jsonb(d.listed[1]) else to_jsonb(d.listed) end), '{}')::text as slice
  from (select n.name, array_agg(distinct s."values"[n.place] order by s."values"[n.place]) as listed
    from unnest(p.dimensions) with ordinality as n (name, place) join etl.slices s on s.slice_id = any(a.slice_ids) group by n.name) d
) box
-- More rows than before in a unit that was loaded before, as in restatements.
left join lateral (
  select b.top_rows is distinct from a.top_rows and (coalesce(b.source_count > b.top_rows, b.top_rows is not null)
    or coalesce(a.source_count > a.top_rows, a.top_rows is not null)) as is_other_top
  from etl.loads e join etl.answers b on b.answer_id = e.answer_id
  where l.rows_unchanged > 0 and e.pipeline_id = l.pipeline_id and e.window_from = l.window_from and e.load_id < l.load_id and e.outcome = 'loaded'
    and (b.slice_ids && a.slice_ids
    -- Another version may have requested it, with its own slice numbers.
    or b.pipeline_id <> a.pipeline_id and exists (select from etl.slices o join etl.slices s on s."values" = o."values"
      where o.slice_id = any(b.slice_ids) and s.slice_id = any(a.slice_ids)))
  order by e.load_id desc limit 1
) former on true
where l.rows_inserted > 0 and l.rows_updated + l.rows_ended = 0
  -- Only of a version that was published then, as in restatements.
  and coalesce((select v.version from etl.published_versions v where v.pipeline = p.pipeline and v.published_at <= l.loaded_at
    order by v.published_at desc limit 1), p.version) = p.version
union all
-- Where there were rows before: an answer without rows for the slice, after one with rows.
select p.pipeline, date_trunc('month', l.window_from::timestamp)::date, l.loaded_at, 'went', etl.slice_of(p.dimensions, s."values")::text, 0, 0, null, null
from etl.loads_without_rows l cross join lateral unnest(l.slices_without_rows) as x (slice_id) join etl.pipelines p on p.pipeline_id = l.pipeline_id
  join etl.slices s on s.slice_id = x.slice_id
where exists (select from etl.loads e join etl.answers b on b.answer_id = e.answer_id
  where e.pipeline_id = l.pipeline_id and e.window_from = l.window_from and e.load_id < l.load_id and e.outcome = 'loaded'
    and (x.slice_id = any(b.slice_ids) or b.pipeline_id <> e.pipeline_id
      and exists (select from etl.slices o where o.slice_id = any(b.slice_ids) and o."values" = s."values")) and not x.slice_id = any(e.slices_without_rows))
  and coalesce((select v.version from etl.published_versions v where v.pipeline = p.pipeline and v.published_at <= l.loaded_at
    order by v.published_at desc limit 1), p.version) = p.version
union all
select c.pipeline, c.month, null, 'not loaded', c.slice, null, null, null, coalesce(c.reason || ': ' || c.error_code, c.reason)
from bi.coverage c where not c.has_data
union all
select v.pipeline, w.month, v.published_at, 'version', null, null, null, null, 'version ' || v.version
from etl.published_versions v join (select distinct pipeline, version, date_trunc('month', window_from::timestamp)::date as month from etl.window_list) w
  on w.pipeline = v.pipeline and w.version = v.version
where isfinite(v.published_at)
), told as (
select pipeline, month, changed_at, why, slice, rows_changed, rows_new, rows_ended, detail from changes
union all
-- After its end, a pipeline shows the rows of the one that continues it.
select s.pipeline, c.month, c.changed_at, c.why, c.slice, c.rows_changed, c.rows_new, c.rows_ended, concat_ws(': ', c.pipeline, c.detail)
from series s join changes c on c.pipeline = s.next and c.month >= date_trunc('month', s.ends_on::timestamp)
union all
select s.pipeline, w.month, e.since, 'table', null, null, null, null, s.next
from series s join ends e on e.next = s.next join (select distinct pipeline, date_trunc('month', window_from::timestamp)::date as month from etl.window_list) w
  on w.pipeline in (s.pipeline, s.next) and w.month >= date_trunc('month', s.ends_on::timestamp)
where isfinite(e.since)
)
-- One row for all days or weeks of a month: the question is about the month.
select pipeline, month, changed_at, why, slice, sum(rows_changed)::bigint as rows_changed, sum(rows_new)::bigint as rows_new,
  sum(rows_ended)::bigint as rows_ended, string_agg(distinct detail, '; ' order by detail) as detail
from told group by pipeline, month, changed_at, why, slice
