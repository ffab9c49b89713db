-- purpose: A domain's clicks by search intent: keyword_intents with shares, and with groups to filter charts by.
-- grain: One row per month, domain, country, traffic_source, web_source, branded_type and intent.
-- question: Do we live from people who want to know or from people who want to buy?
-- topic: What search brings
-- reads: keyword_intents, domains
-- column intent: What most searchers want; (none) where the service names none.
-- column keywords: Distinct keywords of this intent. Unit: keywords. Does not add up over domains or months.
-- column clicks: Clicks from keywords of this intent. Unit: clicks per month.
-- column share_of_clicks: Part of the domain's clicks. Unit: fraction.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select month, i.domain, country, traffic_source, web_source, branded_type, intent, keywords, clicks,
  round(clicks / nullif(sum(clicks) over (partition by month, i.domain, country, traffic_source, web_source, branded_type), 0), 6) as share_of_clicks,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from bi.keyword_intents i left join bi.domains g on g.domain = i.domain
