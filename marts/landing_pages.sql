-- purpose: Which pages and which sections of a site search sends people to.
-- grain: One row a month, domain, country, traffic_source, web_source, branded_type and top_url.
-- question: Which section of example.com lost most clicks since last month?
-- reads: keywords
-- column path: The landing page's path: without host, query and fragment.
-- column section: First part of the path, for example /shoes; / for the start page.
-- column keywords: Distinct keywords of the page. Unit: keywords. Does not add up over pages or months: pages share keywords.
-- column clicks: Clicks from them. Unit: clicks a month.
-- column best_position: Best position of any of them. Unit: rank in the results.
select month, domain, country, traffic_source, web_source, branded_type, top_url,
  coalesce(substring(top_url from '^[^/?#]*(/[^?#]*)'), '/') as path,
  coalesce(substring(top_url from '^[^/?#]*(/[^/?#]*)'), '/') as section,
  count(distinct keyword) as keywords, sum(clicks) as clicks, min(position) as best_position
from bi.keywords group by month, domain, country, traffic_source, web_source, branded_type, top_url
