-- purpose: A domain's visits as first loaded and as loaded now, and the difference that restatements made.
-- grain: One row per date, granularity, domain, country and include_subdomains.
-- question: By how much did the service change last quarter's visits afterwards?
-- topic: Visits
-- reads: traffic_and_engagement_history, etl.loads_without_rows, etl.units, etl.pipelines, etl.published_versions, domains
-- column visits_first: Visits as they were first loaded; NULL where the first answer had none. Unit: visits.
-- column visits_now: Visits as loaded now; NULL where the row ended. Unit: visits.
-- column visits_change: visits_now minus visits_first, a missing value counted as 0, so that visits_first plus visits_change is visits_now over any rows. Unit: visits.
-- column change_share: visits_change as a part of visits_first. Unit: fraction.
-- column first_loaded_at: When the service first answered for the domain, country and date, with or without a row.
-- column restated_at: When a row was last changed, added or ended after that; NULL where it never was.
-- column times_restated: How often the row changed, appeared or ended after the first answer. Unit: times.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select date, granularity, restated.domain, country, include_subdomains, visits_first, visits_now,
  case when coalesce(visits_first, visits_now) is not null then coalesce(visits_now, 0) - coalesce(visits_first, 0) end as visits_change,
  round(coalesce(visits_now, 0) / nullif(visits_first, 0) - 1, 6) as change_share, first_loaded_at, restated_at, times_restated,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from (
  select date, granularity, domain, country, include_subdomains, first_loaded_at,
    sum(all_traffic_visits) filter (where valid_from = first_loaded_at) as visits_first, sum(all_traffic_visits) filter (where is_current) as visits_now,
    greatest(max(valid_from) filter (where is_restated), max(valid_to) filter (where ended)) as restated_at,
    count(*) filter (where is_restated) + count(*) filter (where ended) as times_restated
  from (
    -- A newly published version, or a successor, has the same value again.
    select *, valid_from > first_loaded_at and not (is_told_anew and is_same) as is_restated from (
      select h.*, least(min(h.valid_from) over unit, min(e.loaded_at) over unit) as first_loaded_at,
        h.valid_to is not null and h.valid_to is distinct from lead(h.valid_from) over (unit order by h.valid_from) as ended,
        coalesce(h._unit_id <> lag(h._unit_id) over (unit order by h.valid_from), false) as is_told_anew,
        h.all_traffic_visits is not distinct from lag(h.all_traffic_visits) over (unit order by h.valid_from) as is_same
      from bi.traffic_and_engagement_history h
      -- Only its loads show a unit whose first answer had no row: readers did not see them before its version was published.
      left join (select u.unit_id, greatest(min(l.loaded_at), min(v.published_at)) as loaded_at from etl.loads_without_rows l cross join lateral unnest(l.slices_without_rows) as x (slice_id)
        join etl.units u on u.pipeline_id = l.pipeline_id and u.window_from = l.window_from and u.slice_id = x.slice_id
        join etl.pipelines p on p.pipeline_id = u.pipeline_id left join etl.published_versions v on v.pipeline = p.pipeline and v.version = p.version
        group by 1) e on e.unit_id = h._unit_id
      window unit as (partition by h.date, h.granularity, h.domain, h.country, h.include_subdomains)
    ) told
  ) revisions
  group by date, granularity, domain, country, include_subdomains, first_loaded_at
) restated left join bi.domains g on g.domain = restated.domain
