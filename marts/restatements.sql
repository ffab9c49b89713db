-- purpose: Loaded values that changed later: by how much, why, and when.
-- grain: One row per window and answer that changed or ended rows of an earlier one.
-- question: How much of September was restated after we reported on it?
-- topic: Can I trust the figures
-- reads: etl.loads, etl.answers, etl.pipelines, etl.slices, etl.breaks, etl.published_versions, etl.runs
-- column pipeline: The pipeline.
-- column window_from: First day of the window that was restated.
-- column slice: The slice of the answer: a value or a list of values for each dimension, as JSON text.
-- column seen_at: When the change was loaded.
-- column rows_changed: Rows with another value than before. Unit: rows.
-- column rows_ended: Rows that vanished. Unit: rows.
-- column rows_new: Rows that appeared. Unit: rows.
-- column share_changed: Rows changed or ended, as a part of the rows before. Unit: fraction.
-- column cause: definition: `replay` by another definition; dialect: another version of the API; top: another number of rows; method or version: a break the run noticed; else service.
-- column run_id: The run that saw it.
select p.pipeline, l.window_from, box.slice, l.loaded_at as seen_at, l.rows_updated as rows_changed,
  l.rows_ended, l.rows_inserted as rows_new,
  round((l.rows_updated + l.rows_ended)::numeric / nullif(l.rows_updated + l.rows_unchanged + l.rows_ended, 0), 6) as share_changed, case
  -- Units that were held until then get the answer for the first time.
  when r.command in ('replay', 'quarantine retry') and l.units <= (select sum(e.units) from etl.loads e where e.answer_id = l.answer_id
    and e.pipeline_id = l.pipeline_id and e.window_from = l.window_from and e.load_id < l.load_id and e.outcome = 'loaded') then 'definition'
  when former.dialect <> a.dialect then 'dialect' when former.is_other_top then 'top' else coalesce((select k.kind from etl.breaks k where k.pipeline_id = l.pipeline_id and k.run_id = l.run_id), 'service') end as cause, l.run_id
from etl.loads l join etl.answers a on a.answer_id = l.answer_id join etl.pipelines p on p.pipeline_id = l.pipeline_id
left join etl.runs r on r.run_id = l.run_id
-- As etl.box_slice, but with the view owner's rights on etl.slices: the function would need the reader's.
cross join lateral (
  select coalesce(jsonb_object_agg(d.name, case when cardinality(d.listed) = 1 then to_jsonb(d.listed[1]) else to_jsonb(d.listed) end), '{}')::text as slice
  from (select n.name, array_agg(distinct s."values"[n.place] order by s."values"[n.place]) as listed
    from unnest(p.dimensions) with ordinality as n (name, place) join etl.slices s on s.slice_id = any(a.slice_ids) group by n.name) d
) box
left join lateral (
  select b.dialect, b.top_rows is distinct from a.top_rows and (coalesce(b.source_count > b.top_rows, b.top_rows is not null)
    or coalesce(a.source_count > a.top_rows, a.top_rows is not null)) as is_other_top
  from etl.loads e join etl.answers b on b.answer_id = e.answer_id
  where e.pipeline_id = l.pipeline_id and e.window_from = l.window_from and e.load_id < l.load_id and e.outcome = 'loaded'
    and (b.slice_ids && a.slice_ids
    -- Another version may have requested it, with its own slice numbers.
    or b.pipeline_id <> a.pipeline_id and exists (select from etl.slices o join etl.slices s on s."values" = o."values"
      where o.slice_id = any(b.slice_ids) and s.slice_id = any(a.slice_ids)))
  order by e.load_id desc limit 1
) former on true
where l.rows_updated + l.rows_ended > 0
  -- Only what readers of bi saw: not a version that was not published then.
  and coalesce((select v.version from etl.published_versions v where v.pipeline = p.pipeline and v.published_at <= l.loaded_at
    order by v.published_at desc limit 1), p.version) = p.version
