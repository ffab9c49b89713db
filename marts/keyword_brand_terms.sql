-- purpose: Clicks from searches with one of the domain's own brand terms (attributes/domains.csv), against all others. Always choose one domain.
-- grain: One row per month, domain, country, traffic_source, web_source and branded_type; only of domains with brand terms.
-- question: How much of our search traffic comes from searches without our name or product names?
-- topic: What search brings
-- reads: keywords, keyword_months, domains
-- column clicks_brand: Clicks from keywords that contain a brand term of the domain. Unit: clicks per month.
-- column clicks_other: All other clicks. Unit: clicks per month.
-- column share_brand: clicks_brand divided by all clicks. Unit: fraction.

-- Slice by slice, so that the first rows come without reading all months.
select m.month, m.domain, m.country, m.traffic_source, m.web_source, m.branded_type,
  case when m.clicks is not null then t.clicks_brand end as clicks_brand, case when m.clicks is not null then t.clicks_other end as clicks_other,
  round(t.clicks_brand / nullif(t.clicks, 0), 6) as share_brand
from bi.keyword_months m join bi.domains d on d.domain = m.domain and d.brand_terms is not null cross join lateral (
  select coalesce(sum(k.clicks) filter (where b.is_brand), 0) as clicks_brand, coalesce(sum(k.clicks) filter (where not b.is_brand), 0) as clicks_other,
    sum(k.clicks) as clicks
  from bi.keywords k cross join lateral (select exists (select from unnest(d.brand_terms) as term where position(term in lower(k.keyword)) > 0) as is_brand) b
  where k.month = m.month and k.domain = m.domain and k.country = m.country and k.traffic_source = m.traffic_source and k.web_source = m.web_source and k.branded_type = m.branded_type
) t
