-- purpose: Landing pages and clicks by page type, from the patterns of attributes/page_types.csv. Always choose one domain and month.
-- grain: One row per month, domain, country, traffic_source, web_source, branded_type and page_type.
-- question: Do product pages or guides bring our clicks?
-- topic: What search brings
-- reads: keywords, keyword_months, attribute_versions
-- column page_type: Type of the first pattern that matches the page's address; (other) where none matches.
-- column pages: Landing pages of the type. Unit: pages.
-- column clicks: Clicks to these pages. Unit: clicks per month.

with patterns as materialized (
  -- Once, not again for each page. * matches anything; the wildcards of LIKE are escaped.
  select attributes ->> 'page_type' as page_type, (attributes ->> 'place')::integer as place,
    replace(replace(replace(replace(value, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%') as pattern
  from bi.attribute_versions where subject = 'pattern' and valid_to is null
)
select m.month, m.domain, m.country, m.traffic_source, m.web_source, m.branded_type, t.page_type, t.pages, t.clicks
from bi.keyword_months m cross join lateral (
  select coalesce(f.page_type, '(other)') as page_type, count(*) as pages, sum(p.clicks) as clicks
  from (
    select k.top_url, sum(k.clicks) as clicks from bi.keywords k
    where k.month = m.month and k.domain = m.domain and k.country = m.country and k.traffic_source = m.traffic_source and k.web_source = m.web_source and k.branded_type = m.branded_type group by k.top_url
  ) p left join lateral (select page_type from patterns where p.top_url like pattern order by place limit 1) f on true
  group by 1
) t
