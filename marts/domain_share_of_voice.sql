-- purpose: Which part of the clicks of all followed domains goes to each of them, over all their keywords.
-- grain: One row a month, domain, country, traffic_source, web_source and branded_type.
-- question: Do we gain clicks on the others, month by month?
-- reads: keyword_months
-- column clicks: Clicks from all keywords. Unit: clicks a month.
-- column clicks_followed: Clicks of all followed domains together. Unit: clicks a month. Does not add up over domains.
-- column share_of_voice: clicks divided by clicks_followed. Unit: fraction.
select month, domain, country, traffic_source, web_source, branded_type, clicks, sum(clicks) over followed as clicks_followed,
  round(clicks / nullif(sum(clicks) over followed, 0), 6) as share_of_voice
from bi.keyword_months
window followed as (partition by month, country, traffic_source, web_source, branded_type)
