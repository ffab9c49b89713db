-- purpose: Keywords that bring clicks to one followed domain and none to another.
-- grain: One row a month, country, traffic_source, web_source, branded_type, domain, other_domain and keyword. Always ask for one domain and one other_domain.
-- question: Which keywords bring clicks to a competitor and none to us?
-- reads: keywords, dim_domain
-- column domain: The domain that has no clicks from the keyword.
-- column other_domain: The domain that has some.
-- column clicks_of_other: Clicks the other domain gets. Unit: clicks a month.
-- column best_position_of_other: The other domain's best position. Unit: rank in the results.
-- column volume: Searches for the keyword. Unit: searches a month.
select k.month, k.country, k.traffic_source, k.web_source, k.branded_type, d.domain, k.domain as other_domain, k.keyword,
  sum(k.clicks) as clicks_of_other, min(k.position) as best_position_of_other, max(k.volume) as volume
from bi.dim_domain d join bi.keywords k on k.domain <> d.domain
-- Bytes are compared, which is the same where words are equal, but no index by keyword: 20,000 lookups in it take longer than reading
-- the other domain's month once.
where not exists (select 1 from bi.keywords own where own.month = k.month and own.domain = d.domain and own.country = k.country
  and own.traffic_source = k.traffic_source and own.web_source = k.web_source and own.branded_type = k.branded_type
  and own.keyword = k.keyword collate "C" and own.clicks > 0)
group by k.month, k.country, k.traffic_source, k.web_source, k.branded_type, d.domain, k.domain, k.keyword
having sum(k.clicks) > 0
