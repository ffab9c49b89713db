-- purpose: Landing pages and sections of a site that get clicks from search.
-- grain: One row per month, domain, country, traffic_source, web_source, branded_type and top_url.
-- question: Which section of example.com lost most clicks since last month?
-- topic: What search brings
-- reads: keywords, keyword_months
-- column path: The landing page's path: without host, query and fragment.
-- column section: First part of the path, for example /shoes; / for the start page.
-- column keywords: Distinct keywords of the page. Unit: keywords. Does not add up over pages or months: pages share keywords.
-- column clicks: Clicks from these keywords. Unit: clicks per month.
-- column best_position: Best position of these keywords. Unit: rank in the results.

-- Slice by slice, so that the first rows come without reading all months.
select m.month, m.domain, m.country, m.traffic_source, m.web_source, m.branded_type, p.top_url,
  coalesce(substring(p.top_url from '^[^/?#]*(/[^?#]*)'), '/') as path,
  coalesce(substring(p.top_url from '^[^/?#]*(/[^/?#]*)'), '/') as section,
  p.keywords, p.clicks, p.best_position
from bi.keyword_months m cross join lateral (
  select k.top_url, count(distinct k.keyword) as keywords, sum(k.clicks) as clicks, min(nullif(k.position, 0)) as best_position
  from bi.keywords k where k.month = m.month and k.domain = m.domain and k.country = m.country and k.traffic_source = m.traffic_source and k.web_source = m.web_source and k.branded_type = m.branded_type
  group by k.top_url
) p
