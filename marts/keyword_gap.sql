-- purpose: Keywords that bring clicks to one followed domain and none to another.
-- grain: One row a month, country, traffic_source, web_source, branded_type, domain, other_domain and keyword. Always ask for one domain and one other_domain.
-- question: Which keywords bring clicks to a competitor and none to us?
-- reads: keywords, keyword_months, dim_domain
-- column domain: The domain that has no clicks from the keyword.
-- column other_domain: The domain that has some.
-- column clicks_of_other: Clicks the other domain gets. Unit: clicks a month.
-- column best_position_of_other: The other domain's best position. Unit: rank in the results.
-- column volume: Searches for the keyword. Unit: searches a month.
-- column is_newest: Whether it is the newest month that is loaded.
select month, country, traffic_source, web_source, branded_type, domain, other_domain, keyword,
  sum(clicks_of_other) as clicks_of_other, min(position_of_other) as best_position_of_other, max(volume_of_other) as volume,
  month = (select max(newest.month) from bi.keyword_months newest) as is_newest
from (
  -- Both domains' months are read once each and grouped: no plan for it compares one keyword with all others, whatever the statistics say.
  select k.month, k.country, k.traffic_source, k.web_source, k.branded_type, d.domain, k.domain as other_domain, k.keyword,
    k.clicks as clicks_of_other, k.position as position_of_other, k.volume as volume_of_other, null as own_clicks
  from bi.dim_domain d join bi.keywords k on k.domain <> d.domain
  union all
  select k.month, k.country, k.traffic_source, k.web_source, k.branded_type, k.domain, o.domain, k.keyword, null, null, null, k.clicks
  from bi.dim_domain o join bi.keywords k on k.domain <> o.domain
) as both_domains
group by month, country, traffic_source, web_source, branded_type, domain, other_domain, keyword
having sum(clicks_of_other) > 0 and coalesce(sum(own_clicks), 0) = 0
