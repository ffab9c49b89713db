-- purpose: A domain's clicks, split by the service into searches for its name (branded) and all others. Needs branded_type under for_each.
-- grain: One row per month, domain, country, traffic_source and web_source for which Branded, NonBranded or All is loaded.
-- question: Which part of our clicks does the service itself call branded, month by month?
-- topic: What search brings
-- reads: keyword_months
-- column clicks_branded: Clicks from keywords the service calls branded; NULL where Branded is not loaded. Unit: clicks per month.
-- column clicks_non_branded: Clicks from the other keywords; NULL where NonBranded is not loaded. Unit: clicks per month.
-- column clicks_all: Clicks from all keywords, as the service counts them; NULL where All is not loaded. It includes the other two: never add it to them. Unit: clicks per month.
-- column share_branded: clicks_branded divided by both; NULL where one of them is not loaded. Unit: fraction.
select month, domain, country, traffic_source, web_source,
  sum(clicks) filter (where branded_type = 'Branded') as clicks_branded,
  sum(clicks) filter (where branded_type = 'NonBranded') as clicks_non_branded,
  sum(clicks) filter (where branded_type = 'All') as clicks_all,
  round(sum(clicks) filter (where branded_type = 'Branded')
    / nullif(sum(clicks) filter (where branded_type = 'Branded') + sum(clicks) filter (where branded_type = 'NonBranded'), 0), 6) as share_branded
from bi.keyword_months group by month, domain, country, traffic_source, web_source
