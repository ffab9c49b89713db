-- purpose: What restatements did to a domain's visits: as first loaded, as believed now, and the difference.
-- grain: One row a date, granularity, domain, country and include_subdomains.
-- question: By how much did the service change last quarter's visits afterwards?
-- reads: traffic_and_engagement_history, domains
-- column visits_first: Visits as they were first loaded. Unit: visits.
-- column visits_now: Visits as believed now; NULL where the row ended. Unit: visits.
-- column visits_change: visits_now minus visits_first. Unit: visits.
-- column change_share: visits_change as a part of visits_first. Unit: fraction.
-- column first_loaded_at: When the first value was loaded.
-- column restated_at: When the value now believed was loaded, or the row ended; NULL where it never changed.
-- column times_restated: How often the row got another value or ended. Unit: times.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) where nobody wrote one.
-- column ownership: own, competitor, or (none) where nobody said.
select date, granularity, revisions.domain, country, include_subdomains, visits_first, visits_now, visits_now - visits_first as visits_change,
  round(visits_now / nullif(visits_first, 0) - 1, 6) as change_share, first_loaded_at, restated_at, times_restated,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from (
  select date, granularity, domain, country, include_subdomains,
    (array_agg(all_traffic_visits order by valid_from))[1] as visits_first,
    (array_agg(all_traffic_visits order by valid_from) filter (where is_current))[1] as visits_now,
    min(valid_from) as first_loaded_at, nullif(greatest(max(valid_from), max(valid_to)), min(valid_from)) as restated_at,
    count(*) - 1 + (not bool_or(is_current))::integer as times_restated
  from bi.traffic_and_engagement_history group by date, granularity, domain, country, include_subdomains
) revisions left join bi.domains g on g.domain = revisions.domain
