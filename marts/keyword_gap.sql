-- purpose: Keywords that bring clicks to one followed domain and none to another.
-- grain: One row per month, country, traffic_source, web_source, branded_type, domain, other_domain and keyword; one without a keyword if a domain is not loaded. Always choose both domains.
-- question: Which keywords bring clicks to a competitor and none to us?
-- topic: Us and the others in search
-- reads: keywords, keyword_months, dim_domain, cut_units
-- column domain: The domain without clicks from the keyword.
-- column other_domain: The domain with clicks.
-- column keyword: The search term; NULL where is_loaded is false.
-- column is_loaded: Whether both domains are loaded in the month. If one is not, its missing keywords are not known, and none is listed.
-- column clicks_of_other: Clicks the other domain gets. Unit: clicks per month.
-- column best_position_of_other: The other domain's best position. Unit: rank in the results.
-- column volume: Searches for the keyword. Unit: searches per month.
-- column top_of_domain: If set, only this many keywords of the domain were requested: it may have this keyword too. NULL: all were requested. Unit: rows.
-- column is_newest: Whether it is the newest month that is loaded.

-- Pair by pair, so that the first rows come without reading all months.
select d.month, d.country, d.traffic_source, d.web_source, d.branded_type, d.domain, o.domain as other_domain, g.keyword,
  g.clicks_of_other, g.best_position_of_other, g.volume, d.month = (select max(newest.month) from bi.keyword_months newest) as is_newest, true as is_loaded,
  (select max(c.top) from bi.cut_units c where c.pipeline = 'keywords' and c.period = d.month and c.domain = d.domain and c.country = d.country
    and c.slice::jsonb <@ (c.slice::jsonb || jsonb_build_object('traffic_source', d.traffic_source, 'web_source', d.web_source, 'branded_type', d.branded_type))) as top_of_domain
from bi.keyword_months d join bi.keyword_months o on o.month = d.month and o.country = d.country and o.traffic_source = d.traffic_source and o.web_source = d.web_source and o.branded_type = d.branded_type and o.domain <> d.domain
cross join lateral (
  -- Each domain's rows are read once and grouped: whatever the statistics are, no query plan compares one keyword with all others.
  select keyword, sum(clicks_of_other) as clicks_of_other, min(position_of_other) as best_position_of_other, max(volume_of_other) as volume
  from (
    select k.keyword, k.clicks as clicks_of_other, nullif(k.position, 0) as position_of_other, k.volume as volume_of_other, null as own_lacks
    from bi.keywords k where k.month = o.month and k.domain = o.domain and k.country = o.country and k.traffic_source = o.traffic_source and k.web_source = o.web_source and k.branded_type = o.branded_type
    union all
    select k.keyword, null, null, null, k.clicks is not distinct from 0
    from bi.keywords k where k.month = d.month and k.domain = d.domain and k.country = d.country and k.traffic_source = d.traffic_source and k.web_source = d.web_source and k.branded_type = d.branded_type
  ) as both_domains
  group by keyword having sum(clicks_of_other) > 0 and coalesce(bool_and(own_lacks), true)
) g
union all
select p.month, p.country, p.traffic_source, p.web_source, p.branded_type, d.domain, o.domain, null, null, null, null,
  p.month = (select max(newest.month) from bi.keyword_months newest), false, null
from (select distinct month, country, traffic_source, web_source, branded_type from bi.keyword_months) p
cross join bi.dim_domain d join bi.dim_domain o on o.domain <> d.domain
left join bi.keyword_months l on l.month = p.month and l.country = p.country and l.traffic_source = p.traffic_source
  and l.web_source = p.web_source and l.branded_type = p.branded_type and l.domain in (d.domain, o.domain)
group by p.month, p.country, p.traffic_source, p.web_source, p.branded_type, d.domain, o.domain
having count(l.domain) < 2
