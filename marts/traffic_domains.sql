-- purpose: Visits, visitors and pages of each domain with its attributes (attributes/domains.csv): for charts filtered by group or to our own domains.
-- grain: One row per date, granularity, domain, country and include_subdomains.
-- question: How did the visits of our own domains develop?
-- topic: Visits
-- reads: traffic_and_engagement, domains
-- column all_traffic_visits: Visits from desktop and mobile web together. Unit: visits.
-- column desktop_unique_visitors: Distinct visitors on desktop. Unit: visitors. Does not add up over domains, countries or months.
-- column all_page_views: Pages viewed on desktop and mobile web together. Unit: pages.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select t.date, t.granularity, t.domain, t.country, t.include_subdomains, t.all_traffic_visits, t.desktop_unique_visitors, t.all_page_views,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from bi.traffic_and_engagement t left join bi.domains g on g.domain = t.domain
