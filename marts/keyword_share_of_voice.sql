-- purpose: Who gets the clicks of a keyword, among the domains that are followed. Choose a fixed set of keywords with a condition on keyword, then sum clicks and clicks_all.
-- grain: One row a month, country, traffic_source, web_source, branded_type, keyword and domain.
-- question: Over these 500 keywords, which part of the clicks went to us, month by month?
-- reads: keywords, keyword_months
-- column clicks: Clicks the domain got from the keyword. Unit: clicks a month.
-- column clicks_all: Clicks all followed domains got from the keyword. Unit: clicks a month.
-- column share_of_voice: clicks divided by clicks_all. Unit: fraction. Not to be averaged: over several keywords divide the sums.

-- Domain by domain through keyword_months, so that a condition on keyword is looked up by the key instead of read from the whole month.
select m.month, m.country, m.traffic_source, m.web_source, m.branded_type, own.keyword, m.domain, own.clicks,
  (sum(own.clicks) over followed)::bigint as clicks_all,
  round(own.clicks / nullif(sum(own.clicks) over followed, 0), 6) as share_of_voice
from bi.keyword_months m
cross join lateral (
  select k.keyword, sum(k.clicks)::bigint as clicks from bi.keywords k
  where k.month = m.month and k.domain = m.domain and k.country = m.country and k.traffic_source = m.traffic_source
    and k.web_source = m.web_source and k.branded_type = m.branded_type group by k.keyword
) own
window followed as (partition by m.month, m.country, m.traffic_source, m.web_source, m.branded_type, own.keyword)
