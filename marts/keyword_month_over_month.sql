-- purpose: What became of each keyword since the month before: new, lost, up, down or same, and by how many clicks.
-- grain: One row a month, domain, country, traffic_source, web_source, branded_type and keyword; lost keywords stand in the month they are missing from.
-- question: Which keywords did example.com lose in October, and what did they bring in September?
-- reads: keywords, keyword_months
-- column clicks: Clicks in the month; 0 for a lost keyword. Unit: clicks a month.
-- column clicks_before: Clicks in the month before; NULL for a new keyword. Unit: clicks a month.
-- column clicks_change: clicks minus clicks_before, a missing one counted as 0. Unit: clicks a month.
-- column best_position: Best position over the landing pages; NULL for a lost keyword. Unit: rank in the results.
-- column best_position_before: Best position in the month before. Unit: rank in the results.
-- column movement: new, lost, up, down or same, by clicks; first where the month before was not loaded.
with keyword as (
  select month, domain, country, traffic_source, web_source, branded_type, keyword,
    sum(clicks)::bigint as clicks, min(position) as best_position
  from bi.keywords group by month, domain, country, traffic_source, web_source, branded_type, keyword
), seen as (
  select keyword.*,
    lag(month) over step as month_before, lag(clicks) over step as clicks_seen, lag(best_position) over step as position_seen,
    lead(month) over step as month_after
  from keyword
  window step as (partition by domain, country, traffic_source, web_source, branded_type, keyword order by month)
)
select month, domain, country, traffic_source, web_source, branded_type, keyword, coalesce(clicks, 0) as clicks,
  case when is_next then clicks_seen end as clicks_before,
  coalesce(clicks, 0) - case when is_next then coalesce(clicks_seen, 0) else 0 end as clicks_change,
  best_position, case when is_next then position_seen end as best_position_before,
  case when is_next and coalesce(clicks, 0) > coalesce(clicks_seen, 0) then 'up'
    when is_next and coalesce(clicks, 0) < coalesce(clicks_seen, 0) then 'down'
    when is_next then 'same'
    when was_loaded then 'new' else 'first' end as movement
from (
  select seen.*, coalesce(month_before = (month - interval '1 month')::date, false) as is_next,
    exists (select 1 from bi.keyword_months m where m.month = (seen.month - interval '1 month')::date and m.domain = seen.domain
      and m.country = seen.country and m.traffic_source = seen.traffic_source and m.web_source = seen.web_source
      and m.branded_type = seen.branded_type) as was_loaded
  from seen
) present
union all
select (seen.month + interval '1 month')::date, domain, country, traffic_source, web_source, branded_type, keyword, 0,
  clicks, -coalesce(clicks, 0), null, best_position, 'lost'
from seen
where (month_after is null or month_after > (month + interval '1 month')::date)
  and exists (select 1 from bi.keyword_months m where m.month = (seen.month + interval '1 month')::date and m.domain = seen.domain
    and m.country = seen.country and m.traffic_source = seen.traffic_source and m.web_source = seen.web_source
    and m.branded_type = seen.branded_type)
