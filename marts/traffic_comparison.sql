-- purpose: Visits of a domain against those of an earlier month: the month or quarter before, the same month last year, or any other up to three years back.
-- grain: One row per month, months_back, domain, country, include_subdomains: wherever one of the two months has a row. months_back runs from 1 to 36; always choose one.
-- question: Did our visits grow, counting only domains that both months have?
-- topic: Visits
-- reads: traffic_and_engagement, dim_date, domains, breaks
-- column month: First day of the month; only months with monthly rows of their own.
-- column months_back: How many months earlier the other month is: 1 the month before, 3 the quarter before, 12 the same month last year. Unit: months.
-- column comparison: previous (1), previous quarter (3), same last year (12); NULL for the others.
-- column quarter: First day of the month's quarter.
-- column loaded_in: Which of the two months has the row: both, now or before. Compare sum(X) filter (where X_before is not null) with sum(X_before) filter (where X is not null).
-- column is_newest: Whether it is the newest month that is loaded.
-- column method_changed: Whether the service counts by another method since the earlier month: then the two are not comparable, see breaks.
-- column visits: Visits from desktop and mobile web in the month; NULL where it is not loaded. Unit: visits.
-- column visits_before: Visits from desktop and mobile web in the earlier month; NULL where it is not loaded. Unit: visits.
-- column desktop_visits: Visits from desktop in the month; NULL where it is not loaded. Unit: visits.
-- column desktop_visits_before: Visits from desktop in the earlier month; NULL where it is not loaded. Unit: visits.
-- column mobile_visits: Visits from mobile web in the month; NULL where it is not loaded. Unit: visits.
-- column mobile_visits_before: Visits from mobile web in the earlier month; NULL where it is not loaded. Unit: visits.
-- column page_views: Pages viewed in the month; NULL where it is not loaded. Unit: pages.
-- column page_views_before: Pages viewed in the earlier month; NULL where it is not loaded. Unit: pages.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.

-- Each loaded month is joined with one earlier month: nothing else is read, whatever the query selects.
select m.month, b.months_back, case b.months_back when 1 then 'previous' when 3 then 'previous quarter' when 12 then 'same last year' end as comparison,
  date_trunc('quarter', m.month::timestamp)::date as quarter, pair.domain, pair.country, pair.include_subdomains,
  pair.loaded_in, m.month = (select max(newest.date) from bi.traffic_and_engagement newest where newest.granularity = 'monthly') as is_newest,
  exists (select from unnest((
    -- Read once, over the rows that are shown: after the end of a table, those of its successor.
    with recursive parts as (
      select 'traffic_and_engagement' as pipeline, '-infinity'::date as since
      union select e.continued_by, e.starts_on from parts p join bi.breaks e on e.pipeline = p.pipeline and e.kind = 'table'
    )
    select array_agg(n.starts_on) from parts p join bi.breaks n on n.pipeline = p.pipeline left join bi.breaks e on e.pipeline = p.pipeline and e.kind = 'table'
    where n.starts_on >= p.since and (e.starts_on is null or n.starts_on <= e.starts_on))) as k (starts_on)
    where k.starts_on > (m.month - make_interval(months => b.months_back))::date and k.starts_on <= m.month) as method_changed,
  pair.visits, pair.visits_before, pair.desktop_visits, pair.desktop_visits_before, pair.mobile_visits, pair.mobile_visits_before,
  pair.page_views, pair.page_views_before,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from (select d.date as month from bi.dim_date d where d.date = d.month_start and exists (select from bi.traffic_and_engagement f where f.date = d.date and f.granularity = 'monthly')) m
cross join generate_series(1, 36) as b (months_back)
cross join lateral (
  select domain, country, include_subdomains, case when present.domain is null then 'before' when past.domain is null then 'now' else 'both' end as loaded_in, present.visits, past.visits as visits_before, present.desktop_visits, past.desktop_visits as desktop_visits_before, present.mobile_visits, past.mobile_visits as mobile_visits_before, present.page_views, past.page_views as page_views_before
  from (select domain, country, include_subdomains, all_traffic_visits as visits, desktop_visits, mobile_visits, all_page_views as page_views from bi.traffic_and_engagement where date = m.month and granularity = 'monthly') present
  full join (select domain, country, include_subdomains, all_traffic_visits as visits, desktop_visits, mobile_visits, all_page_views as page_views from bi.traffic_and_engagement where date = (m.month - make_interval(months => b.months_back))::date and granularity = 'monthly') past
    using (domain, country, include_subdomains)
) pair
left join bi.domains g on g.domain = pair.domain
