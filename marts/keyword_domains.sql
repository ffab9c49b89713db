-- purpose: keyword_months with each domain's attributes (attributes/domains.csv): for charts by domain, filtered by group or to our own domains.
-- grain: One row per month, domain, country, traffic_source, web_source and branded_type.
-- question: How did the clicks of our own domains develop, and at which average position?
-- topic: What search brings
-- reads: keyword_months, domains
-- column keywords: Distinct keywords that brought clicks. Unit: keywords. Does not add up over domains or months.
-- column clicks: Clicks from all keywords. Unit: clicks per month.
-- column clicks_brand: Clicks from keywords that contain the domain's name without its ending, ignoring blanks (approximate). Unit: clicks per month.
-- column position_weighted: Average position weighted by clicks, over landing pages whose position is known; NULL where none of them was clicked. Unit: rank in the results.
-- column clicks_ranked: Clicks to landing pages whose position is known: the weight of the average position. Unit: clicks per month.
-- column clicks_times_position: Sum of clicks times position: divided by clicks_ranked it is the average position of any set of rows. Unit: clicks times rank.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select m.month, m.domain, m.country, m.traffic_source, m.web_source, m.branded_type, m.keywords, m.clicks, m.clicks_brand, m.position_weighted, m.clicks_ranked, m.clicks_times_position,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from bi.keyword_months m left join bi.domains g on g.domain = m.domain
