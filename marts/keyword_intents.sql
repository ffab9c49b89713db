-- kind: summary of keywords
-- purpose: Keywords and clicks of a domain by search intent, refreshed with each load; keyword_intent_mix adds shares and current groups.
-- grain: One row per month, domain, country, traffic_source, web_source, branded_type and intent.
-- question: How many keywords and clicks does each intent bring, over fifty domains and two years?
-- topic: What search brings
-- key: month, domain, country, traffic_source, web_source, branded_type, intent
-- column intent: What most searchers want, for example Navigational or Informational; (none) where the service names none.
-- column keywords: Distinct keywords of this intent. Unit: keywords. Does not add up over domains or months.
-- column clicks: Clicks from these keywords. Unit: clicks per month.
select month, domain, country, traffic_source, web_source, branded_type, coalesce(primary_intent, '(none)') as intent,
  count(distinct keyword) as keywords, sum(clicks) as clicks
from {{facts}} group by month, domain, country, traffic_source, web_source, branded_type, coalesce(primary_intent, '(none)')
