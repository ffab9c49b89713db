-- purpose: Clicks from people who search for a domain by one of its own brand terms (attributes/domains.csv), against all others. Always ask for one domain.
-- grain: One row a month, domain, country, traffic_source, web_source and branded_type; only of domains with brand terms.
-- question: How much of our search traffic would come without anybody knowing our name, product names included?
-- reads: keywords, domains
-- column clicks_brand: Clicks from keywords that hold a brand term of the domain. Unit: clicks a month.
-- column clicks_other: All other clicks. Unit: clicks a month.
-- column share_brand: clicks_brand divided by all clicks. Unit: fraction.
select k.month, k.domain, k.country, k.traffic_source, k.web_source, k.branded_type,
  coalesce(sum(k.clicks) filter (where k.is_brand), 0) as clicks_brand, coalesce(sum(k.clicks) filter (where not k.is_brand), 0) as clicks_other,
  round(coalesce(sum(k.clicks) filter (where k.is_brand), 0) / nullif(sum(k.clicks), 0), 6) as share_brand
from (
  select f.month, f.domain, f.country, f.traffic_source, f.web_source, f.branded_type, f.clicks,
    exists (select from unnest(d.brand_terms) as term where position(term in lower(f.keyword)) > 0) as is_brand
  from bi.keywords f join bi.domains d on d.domain = f.domain where d.brand_terms is not null
) k
group by k.month, k.domain, k.country, k.traffic_source, k.web_source, k.branded_type
