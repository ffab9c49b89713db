-- purpose: What became of each keyword since the month before: new, lost, up, down or same, and by how many clicks.
-- grain: One row a month, domain, country, traffic_source, web_source, branded_type and keyword; lost keywords are in the month they are missing from.
-- question: Which keywords did example.com lose in October, and what did they bring in September?
-- reads: keywords, keyword_months
-- column clicks: Clicks in the month; 0 for a lost keyword. Unit: clicks a month.
-- column clicks_before: Clicks in the month before; NULL for a new keyword. Unit: clicks a month.
-- column clicks_change: clicks minus clicks_before, a missing one counted as 0. Unit: clicks a month.
-- column best_position: Best position over the landing pages; NULL for a lost keyword. Unit: rank in the results.
-- column best_position_before: Best position in the month before. Unit: rank in the results.
-- column movement: new, lost, up, down or same, by clicks; first where the month before was not loaded.
-- column is_newest: Whether it is the newest month that is loaded.

-- Each month that is loaded looks up its own keywords and those of the month before by the key: nothing else is read, whatever is asked for.
select m.month, m.domain, m.country, m.traffic_source, m.web_source, m.branded_type, pair.keyword, coalesce(pair.clicks, 0) as clicks,
  pair.clicks_before, coalesce(pair.clicks, 0) - coalesce(pair.clicks_before, 0) as clicks_change,
  pair.best_position, pair.best_position_before,
  case when not pair.is_now then 'lost'
    when pair.was_before and coalesce(pair.clicks, 0) > coalesce(pair.clicks_before, 0) then 'up'
    when pair.was_before and coalesce(pair.clicks, 0) < coalesce(pair.clicks_before, 0) then 'down'
    when pair.was_before then 'same'
    when before_loaded.is_so then 'new' else 'first' end as movement,
  m.month = (select max(newest.month) from bi.keyword_months newest) as is_newest
from bi.keyword_months m
cross join lateral (
  select exists (select 1 from bi.keyword_months b where b.month = (m.month - interval '1 month')::date and b.domain = m.domain
    and b.country = m.country and b.traffic_source = m.traffic_source and b.web_source = m.web_source
    and b.branded_type = m.branded_type) as is_so
) before_loaded
cross join lateral (
  select keyword, present.clicks, past.clicks as clicks_before, present.best_position, past.best_position as best_position_before,
    coalesce(present.there, false) as is_now, coalesce(past.there, false) as was_before
  from (
    select k.keyword, sum(k.clicks) as clicks, min(k.position) as best_position, true as there from bi.keywords k
    where k.month = m.month and k.domain = m.domain and k.country = m.country and k.traffic_source = m.traffic_source
      and k.web_source = m.web_source and k.branded_type = m.branded_type group by k.keyword
  ) present full join (
    select k.keyword, sum(k.clicks) as clicks, min(k.position) as best_position, true as there from bi.keywords k
    where k.month = (m.month - interval '1 month')::date and k.domain = m.domain and k.country = m.country
      and k.traffic_source = m.traffic_source and k.web_source = m.web_source and k.branded_type = m.branded_type group by k.keyword
  ) past using (keyword)
) pair
