-- purpose: Who gets the clicks of a keyword, by group of domains. Choose a fixed set of keywords with a condition on keyword, then sum clicks and clicks_all.
-- grain: One row a month, country, traffic_source, web_source, branded_type, keyword, domain_group and ownership.
-- question: Over these 500 keywords, which part of the clicks went to our own domains, and which to each group of competitors?
-- topic: Us and the others in search
-- reads: keywords, keyword_months, domains
-- column domain_group: Group of the domains; (none) where nobody wrote one.
-- column ownership: own, competitor, or (none) where nobody said.
-- column clicks: Clicks the domains of the group got from the keyword. Unit: clicks a month.
-- column clicks_all: Clicks all followed domains got from the keyword. Unit: clicks a month.
-- column share_of_voice: clicks divided by clicks_all. Unit: fraction. Not to be averaged: over several keywords divide the sums.
-- column domains_loaded: Followed domains that are loaded in the month, whether they have the keyword or not: what the share is of. Unit: domains.
select month, country, traffic_source, web_source, branded_type, keyword, domain_group, ownership, clicks, clicks_all, share_of_voice,
  (select count(*) from bi.keyword_months l where l.month = s.month and l.country = s.country and l.traffic_source = s.traffic_source
    and l.web_source = s.web_source and l.branded_type = s.branded_type) as domains_loaded
from (
  select k.month, k.country, k.traffic_source, k.web_source, k.branded_type, k.keyword, d.domain_group, d.ownership, sum(k.clicks) as clicks,
    sum(sum(k.clicks)) over followed as clicks_all,
    round(sum(k.clicks) / nullif(sum(sum(k.clicks)) over followed, 0), 6) as share_of_voice
  from bi.keywords k join bi.domains d on d.domain = k.domain
  group by k.keyword, k.country, k.month, k.traffic_source, k.web_source, k.branded_type, d.domain_group, d.ownership
  window followed as (partition by k.keyword, k.country, k.month, k.traffic_source, k.web_source, k.branded_type)
) s
