-- purpose: Which types of pages search sends people to, by the patterns of attributes/page_types.csv. Always ask for one domain and month.
-- grain: One row a month, domain, country, traffic_source, web_source, branded_type and page_type.
-- question: Do product pages or guides bring our clicks?
-- reads: landing_pages, attribute_versions
-- column page_type: Type of the first pattern that the page's address fits; (other) where it fits none.
-- column pages: Landing pages of the type. Unit: pages.
-- column clicks: Clicks to them. Unit: clicks a month.
select p.month, p.domain, p.country, p.traffic_source, p.web_source, p.branded_type, coalesce(t.page_type, '(other)') as page_type,
  count(*) as pages, sum(p.clicks) as clicks
from bi.landing_pages p left join lateral (
  select v.attributes ->> 'page_type' as page_type from bi.attribute_versions v
  where v.subject = 'pattern' and v.valid_to is null
    -- * stands for anything; what LIKE would take for more than a character is one.
    and p.top_url like replace(replace(replace(replace(v.value, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%')
  order by (v.attributes ->> 'place')::integer limit 1
) t on true
group by p.month, p.domain, p.country, p.traffic_source, p.web_source, p.branded_type, coalesce(t.page_type, '(other)')
