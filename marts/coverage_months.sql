-- purpose: What is loaded of each pipeline, month by month: expected cells (a domain, a country, a period) with rows, and those without, by reason.
-- grain: One row per pipeline, version and month, from the oldest to the newest one.
-- question: May I report on October yet?
-- topic: Can I trust the figures
-- reads: etl.expected_windows, etl.missing_cells, etl.slices, etl.pipelines, etl.published_now, etl.window_loads, breaks
-- column pipeline: The pipeline.
-- column version: Its published version.
-- column month: First day of the month.
-- column cells: Expected cells: what the lists want now, in every period that begins in the month, also before window.from or not published yet; after a table's end those requested. Unit: cells.
-- column cells_with_rows: Cells with at least one row. Unit: cells.
-- column cells_service_had_none: Cells for which the service answered without a row. Unit: cells.
-- column cells_held: Cells that wait for a person's decision. Unit: cells.
-- column cells_failed: Cells that failed and are tried again by the next run. Unit: cells.
-- column cells_under_way: Cells that are requested now. Unit: cells.
-- column cells_not_asked: Cells that were not requested yet. Unit: cells.
-- column domains: Domains expected; NULL where the pipeline has none. Unit: domains.
-- column domains_with_all_rows: Domains without a missing cell. Unit: domains.
-- column completeness: For people, for example 5 of 6 domains.
-- column is_answered: Whether the service answered for every cell.
-- column is_complete: Whether every cell has rows.
-- column ends: Last month of a table that ends; NULL: it has no end.
-- column method: Number of the method that the month follows: 1, and one more from each break on (breaks). Months of different numbers are not comparable.
-- column last_loaded_at: The last load.
-- column last_checked_at: When the service was last asked whether anything changed.
select c.pipeline, c.version, c.month, c.cells, c.cells - coalesce(m.cells, 0) as cells_with_rows, coalesce(m.had_none, 0) as cells_service_had_none,
  coalesce(m.held, 0) as cells_held, coalesce(m.failed, 0) as cells_failed, coalesce(m.under_way, 0) as cells_under_way,
  coalesce(m.not_asked, 0) as cells_not_asked, c.domains, c.domains - coalesce(m.domains, 0) as domains_with_all_rows,
  case when c.domains is null then c.cells - coalesce(m.cells, 0) || ' of ' || c.cells || ' cells'
    else c.domains - coalesce(m.domains, 0) || ' of ' || c.domains || ' domains' end as completeness,
  coalesce(m.cells, 0) = coalesce(m.had_none, 0) as is_answered, coalesce(m.cells, 0) = 0 as is_complete,
  ends.at as ends, 1 + (select count(*) from bi.breaks k where k.pipeline = c.pipeline and k.month <= c.month) as method, l.last_loaded_at, l.last_checked_at
from (select w.pipeline, w.version, date_trunc('month', w.window_from::timestamp)::date as month, sum(s.slices)::bigint as cells, max(s.domains) as domains
    from etl.expected_windows w join (select o.pipeline_id, count(*) as slices, nullif(count(distinct o."values"[array_position(p.dimensions, 'domain')]), 0) as domains
      from etl.slices o join etl.pipelines p on p.pipeline_id = o.pipeline_id where o.wanted_until is null group by 1) a on a.pipeline_id = w.pipeline_id
      join (select pipeline_id, dimensions, (definition #>> '{window,publication,until}')::date as until from etl.pipelines offset 0) e on e.pipeline_id = w.pipeline_id
      cross join lateral (select a.slices, a.domains where coalesce(w.window_from < e.until, true)
        union all select count(*), nullif(count(distinct o."values"[array_position(e.dimensions, 'domain')]), 0)
        from etl.units u join etl.slices o on o.slice_id = u.slice_id and o.wanted_until is null
        where u.pipeline_id = w.pipeline_id and u.window_from = w.window_from and w.window_from >= e.until having count(*) > 0) s
    where not exists (select from etl.published_now n where n.pipeline = w.pipeline and n.version <> w.version)
    group by 1, 2, 3) c
left join (select p.pipeline, p.version, date_trunc('month', x.window_from::timestamp)::date as month, count(*) as cells,
    count(*) filter (where x.reason = 'service had none') as had_none, count(*) filter (where x.reason = 'held') as held,
    count(*) filter (where x.reason = 'failed') as failed, count(*) filter (where x.reason = 'under way') as under_way,
    count(*) filter (where x.reason = 'not asked') as not_asked, count(distinct s."values"[array_position(p.dimensions, 'domain')]) as domains
    from etl.missing_cells x join etl.pipelines p on p.pipeline_id = x.pipeline_id join etl.slices s on s.slice_id = x.slice_id
      join (select pipeline_id, (definition #>> '{window,publication,until}')::date as until from etl.pipelines offset 0) e on e.pipeline_id = x.pipeline_id
    where x.reason <> 'not asked' or x.unit_id is not null or coalesce(x.window_from < e.until, true) group by 1, 2, 3) m using (pipeline, version, month)
left join (select o.pipeline, o.version, date_trunc('month', o.window_from::timestamp)::date as month, max(o.last_loaded_at) as last_loaded_at,
    max(o.last_checked_at) as last_checked_at
  from etl.window_loads o group by 1, 2, 3) l using (pipeline, version, month)
left join (select p.pipeline, p.version,
    date_trunc('month', (max((p.definition #>> '{window,publication,until}')::date - 1))::timestamp)::date as at
  from etl.pipelines p group by 1, 2) ends using (pipeline, version)
