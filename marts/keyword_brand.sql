-- purpose: Clicks from people who already search for the domain by name, against all others.
-- grain: One row a month, domain, country, traffic_source, web_source and branded_type.
-- question: How much of our search traffic would come without anybody knowing our name?
-- topic: What search brings
-- reads: keyword_months
-- column clicks_brand: Clicks from keywords that hold the domain's name (a rule of thumb; the service's own split is branded_type). Unit: clicks a month.
-- column clicks_other: All other clicks. Unit: clicks a month.
-- column share_brand: clicks_brand divided by all clicks. Unit: fraction.
select month, domain, country, traffic_source, web_source, branded_type, clicks_brand, clicks - clicks_brand as clicks_other,
  round(clicks_brand::numeric / nullif(clicks, 0), 6) as share_brand
from bi.keyword_months
