-- purpose: Share of voice by group over all keywords: which part of the clicks of all followed domains goes to which group of domains.
-- grain: One row a month, country, traffic_source, web_source, branded_type, domain_group and ownership.
-- question: Which part of the clicks of all followed domains went to our own ones, month by month?
-- topic: Us and the others in search
-- reads: keyword_months, domains
-- column domain_group: Group of the domains; (none) where nobody wrote one.
-- column ownership: own, competitor, or (none) where nobody said.
-- column domains: Domains of the group that have a row in the month. Unit: domains.
-- column clicks: Clicks to the domains of the group. Unit: clicks a month.
-- column clicks_all: Clicks to all followed domains. Unit: clicks a month.
-- column domains_loaded: Followed domains of all groups that are loaded in the month: what the share is of. Unit: domains.
-- column share_of_voice: clicks divided by clicks_all. Unit: fraction. Not to be averaged: over several months divide the sums.
select m.month, m.country, m.traffic_source, m.web_source, m.branded_type, d.domain_group, d.ownership, count(*) as domains,
  sum(m.clicks) as clicks, sum(sum(m.clicks)) over followed as clicks_all, sum(count(*)) over followed as domains_loaded,
  round(sum(m.clicks) / nullif(sum(sum(m.clicks)) over followed, 0), 6) as share_of_voice
from bi.keyword_months m join bi.domains d on d.domain = m.domain
group by m.month, m.country, m.traffic_source, m.web_source, m.branded_type, d.domain_group, d.ownership
window followed as (partition by m.month, m.country, m.traffic_source, m.web_source, m.branded_type)
