-- purpose: A domain's clicks as first loaded and as loaded now, and the difference that restatements made.
-- grain: One row per month, domain, country, traffic_source, web_source and branded_type.
-- question: By how many clicks did April change after we reported on it?
-- topic: What changed in search
-- reads: keywords_history, etl.loads_without_rows, etl.loads, etl.answers, etl.answer_shapes, etl.units, etl.slices, etl.pipelines, etl.published_versions
-- column clicks_first: Clicks as they were first loaded, of the rows that are requested now (top); NULL where the first answer had none. Unit: clicks per month.
-- column clicks_now: Clicks as loaded now; NULL where no row is left. Unit: clicks per month.
-- column clicks_change: clicks_now minus clicks_first, a missing value counted as 0, so that clicks_first plus clicks_change is clicks_now over any rows. Unit: clicks per month.
-- column change_share: clicks_change as a part of clicks_first. Unit: fraction.
-- column first_loaded_at: When the service first answered for the domain, country and month, with or without rows; if top was changed and cuts an answer, first since then.
-- column restated_at: When a row was last changed, added or ended after that; NULL where none was. A newly published version or successor with the same values does not count.
-- column rows_restated: Revisions after the first load, and rows of the first load that ended without a new revision. Unit: rows.
select month, domain, country, traffic_source, web_source, branded_type, clicks_first, clicks_now,
  case when coalesce(clicks_first, clicks_now) is not null then coalesce(clicks_now, 0) - coalesce(clicks_first, 0) end as clicks_change,
  round(coalesce(clicks_now, 0) / nullif(clicks_first, 0) - 1, 6) as change_share, first_loaded_at, restated_at, rows_restated
from (
  select month, domain, country, traffic_source, web_source, branded_type, first_loaded_at,
    sum(clicks) filter (where valid_from <= first_loaded_at and coalesce(valid_to > first_loaded_at, true)) as clicks_first, sum(clicks) filter (where is_current) as clicks_now,
    greatest(max(valid_from) filter (where is_restated), max(valid_to) filter (where is_ended)) as restated_at,
    count(*) filter (where is_restated or is_ended) as rows_restated
  from (
    -- A newly published version, or a successor, has the same value again.
    select *, valid_from > first_loaded_at and not (is_told_anew and is_same) as is_restated,
      is_last_and_ended and valid_to > first_loaded_at as is_ended
    from (
      select h.*, coalesce(max(t.loaded_at) over unit, least(min(h.valid_from) over unit, min(e.loaded_at) over unit)) as first_loaded_at,
        not h.is_current and lead(h.valid_from) over each is null as is_last_and_ended,
        coalesce(h._unit_id <> lag(h._unit_id) over each, false) as is_told_anew,
        h.clicks is not distinct from lag(h.clicks) over each as is_same
      from bi.keywords_history h
      -- Only its loads show a unit whose first answer had no row: readers did not see them before its version was published.
      left join (select u.unit_id, greatest(min(l.loaded_at), min(v.published_at)) as loaded_at from etl.loads_without_rows l cross join lateral unnest(l.slices_without_rows) as x (slice_id)
        join etl.units u on u.pipeline_id = l.pipeline_id and u.window_from = l.window_from and u.slice_id = x.slice_id
        join etl.pipelines p on p.pipeline_id = u.pipeline_id left join etl.published_versions v on v.pipeline = p.pipeline and v.version = p.version
        group by 1) e on e.unit_id = h._unit_id
      -- A changed top that cuts one of the two answers adds or removes rows: that is no restatement.
      left join (select unit_id, max(loaded_at) as loaded_at from (
          select u.unit_id, l.loaded_at, lag(a.answer_id) over asked is not null and a.top_rows is distinct from lag(a.top_rows) over asked
            and (cut.is_cut or lag(cut.is_cut) over asked)
            and coalesce((select v.version from etl.published_versions v where v.pipeline = p.pipeline and v.published_at <= l.loaded_at
              order by v.published_at desc limit 1), p.version) = p.version as is_other_top
          from etl.loads l join etl.answers a on a.answer_id = l.answer_id
            cross join lateral (select coalesce(a.source_count > a.top_rows, a.top_rows is not null) as is_cut) cut
            -- Another version may have requested it, with its own slice numbers.
            join etl.slices o on o.slice_id = any(a.slice_ids) join etl.slices s on s.pipeline_id = l.pipeline_id and s."values" = o."values"
            join etl.units u on u.pipeline_id = l.pipeline_id and u.window_from = l.window_from and u.slice_id = s.slice_id
            join etl.pipelines p on p.pipeline_id = u.pipeline_id
          where l.outcome = 'loaded' and exists (select from etl.answer_shapes where top_rows is not null)
          window asked as (partition by u.unit_id order by l.load_id)) answers
        where is_other_top group by 1) t on t.unit_id = h._unit_id
      window unit as (partition by h.month, h.domain, h.country, h.traffic_source, h.web_source, h.branded_type),
        each as (partition by h.month, h.domain, h.country, h.traffic_source, h.web_source, h.branded_type, h.keyword, h.top_url order by h.valid_from)
    ) told
  ) revisions
  group by month, domain, country, traffic_source, web_source, branded_type, first_loaded_at
) restated
