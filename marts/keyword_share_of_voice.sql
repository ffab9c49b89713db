-- purpose: Clicks of a keyword, by followed domain. Choose a fixed set of keywords with a condition on keyword, then sum clicks and clicks_all.
-- grain: One row per month, country, traffic_source, web_source, branded_type, keyword and domain.
-- question: Over these 500 keywords, which part of the clicks went to us, month by month?
-- topic: Us and the others in search
-- reads: keywords, keyword_months
-- column clicks: Clicks the domain got from the keyword. Unit: clicks per month.
-- column clicks_all: Clicks all followed domains got from the keyword. Unit: clicks per month.
-- column share_of_voice: clicks divided by clicks_all. Unit: fraction. Do not average it: over several keywords divide the sums.
-- column domains_loaded: Followed domains that are loaded in the month, with the keyword or without: the share is of them; NULL for rows of the pipeline that continues this one. Unit: domains.
select month, country, traffic_source, web_source, branded_type, keyword, domain, clicks, clicks_all, share_of_voice,
  (select nullif(count(*), 0) from bi.keyword_months l where l.month = s.month and l.country = s.country and l.traffic_source = s.traffic_source
    and l.web_source = s.web_source and l.branded_type = s.branded_type) as domains_loaded
from (
  select month, country, traffic_source, web_source, branded_type, keyword, domain, sum(clicks) as clicks,
    sum(sum(clicks)) over followed as clicks_all,
    round(sum(clicks) / nullif(sum(sum(clicks)) over followed, 0), 6) as share_of_voice
  from bi.keywords
  -- In the order of the index on keyword, so that nothing is sorted.
  group by keyword, country, month, traffic_source, web_source, branded_type, domain
  window followed as (partition by keyword, country, month, traffic_source, web_source, branded_type)
) s
