-- purpose: Visits of a domain against the period before and the same period a year before.
-- grain: One row a date, granularity, domain, country and include_subdomains.
-- question: Did our visits grow over last year?
-- topic: Visits
-- reads: traffic_and_engagement, domains, breaks
-- column visits: Visits from desktop and mobile web. Unit: visits.
-- column visits_before: Visits in the month before; NULL where it is not loaded. Unit: visits.
-- column change_before: Growth over the month before. Unit: fraction.
-- column visits_year_before: Visits in the same month a year before; NULL where it is not loaded. Unit: visits.
-- column change_year_before: Growth over the year. Unit: fraction.
-- column method_changed: Whether the service counts by another method since the month before: then change_before is not comparable, see breaks.
-- column method_changed_year: The same of the month a year before and change_year_before.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) where nobody wrote one.
-- column ownership: own, competitor, or (none) where nobody said.
select now.date, now.granularity, now.domain, now.country, now.include_subdomains, now.all_traffic_visits as visits,
  before.all_traffic_visits as visits_before,
  round(now.all_traffic_visits / nullif(before.all_traffic_visits, 0) - 1, 6) as change_before,
  year.all_traffic_visits as visits_year_before,
  round(now.all_traffic_visits / nullif(year.all_traffic_visits, 0) - 1, 6) as change_year_before,
  exists (select from bi.breaks k where k.pipeline = 'traffic_and_engagement' and k.starts_on > (now.date - interval '1 month')::date and k.starts_on <= now.date) as method_changed,
  exists (select from bi.breaks k where k.pipeline = 'traffic_and_engagement' and k.starts_on > (now.date - interval '1 year')::date and k.starts_on <= now.date) as method_changed_year,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from bi.traffic_and_engagement now
left join bi.traffic_and_engagement before on before.date = (now.date - interval '1 month')::date and before.granularity = now.granularity
  and before.domain = now.domain and before.country = now.country and before.include_subdomains = now.include_subdomains
left join bi.traffic_and_engagement year on year.date = (now.date - interval '1 year')::date and year.granularity = now.granularity
  and year.domain = now.domain and year.country = now.country and year.include_subdomains = now.include_subdomains
left join bi.domains g on g.domain = now.domain
where now.granularity = 'monthly'
