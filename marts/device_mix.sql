-- purpose: Share of the visits that comes from mobile devices.
-- grain: One row per date, granularity, domain, country and include_subdomains.
-- question: Is our audience moving to the phone faster than the market?
-- topic: Visits
-- reads: traffic_and_engagement, domains
-- column mobile_visits: Visits from mobile web. Unit: visits.
-- column desktop_visits: Visits from desktop. Unit: visits.
-- column mobile_share: mobile_visits divided by both; NULL where either is not known. Unit: fraction.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select date, granularity, t.domain, country, include_subdomains, mobile_visits, desktop_visits,
  round(mobile_visits / nullif(mobile_visits + desktop_visits, 0), 6) as mobile_share,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from bi.traffic_and_engagement t left join bi.domains g on g.domain = t.domain
