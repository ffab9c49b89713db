-- purpose: Share of each followed domain in the clicks of all of them, over all their keywords.
-- grain: One row per month, domain, country, traffic_source, web_source and branded_type.
-- question: Do we gain clicks on the others, month by month?
-- topic: Us and the others in search
-- reads: keyword_months, domains
-- column clicks: Clicks from all keywords. Unit: clicks per month.
-- column clicks_followed: Clicks of all followed domains together. Unit: clicks per month. Does not add up over domains.
-- column share_of_voice: clicks divided by clicks_followed. Unit: fraction. Compare two months only if the same domains are loaded in both; bi.keyword_comparison compares the domains that both have.
-- column domains_loaded: Followed domains that are loaded in the month: the share is of them; cut_units names those with only their first rows. Unit: domains.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select month, m.domain, country, traffic_source, web_source, branded_type, clicks, sum(clicks) over followed as clicks_followed,
  round(clicks / nullif(sum(clicks) over followed, 0), 6) as share_of_voice, count(*) over followed as domains_loaded,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from bi.keyword_months m left join bi.domains g on g.domain = m.domain
window followed as (partition by month, country, traffic_source, web_source, branded_type)
