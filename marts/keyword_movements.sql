-- purpose: Each keyword against an earlier month or quarter: new, lost, up, down or same, and by how many clicks.
-- grain: One row per period, starts_on, months_back, domain, country, traffic_source, web_source, branded_type and keyword. Always choose one period and one months_back.
-- question: Which keywords did example.com lose in October, or in a quarter against last year's, and what did they bring before?
-- topic: What changed in search
-- reads: keywords, keyword_months, cut_units, breaks
-- column period: month or quarter.
-- column starts_on: First day of the period.
-- column months_back: How many months earlier the other period is: for a month 1 to 36, for a quarter 3, 6 and so on; 12 is the same period last year. Unit: months.
-- column is_loaded: Whether all months of both periods are loaded for the domain and country. If not, it is not known what was won, lost or new.
-- column is_cut: Whether only the first rows of a month of one of the two periods are loaded (cut_units): other gains and losses are not known.
-- column clicks: Clicks in the period; 0 for a lost keyword (its row is in the period it is missing from); NULL where the service gave none. Unit: clicks.
-- column clicks_before: Clicks in the earlier period; NULL for a new keyword. Unit: clicks.
-- column clicks_change: clicks minus clicks_before, where a missing keyword counts as 0; NULL where is_loaded is false. Unit: clicks.
-- column method_changed: Whether the service counts by another method since the earlier period: then the two are not comparable, see breaks.
-- column best_position: Best position in the period; NULL for a lost keyword. Unit: rank in the results.
-- column best_position_before: Best position in the earlier period. Unit: rank in the results.
-- column movement: new, lost, up, down, same (by clicks); first (no earlier period); in part (months missing); not in the top 500, now or before (only these requested); not known (no clicks).
-- column is_newest: Whether it is the newest period of which a month is loaded.

-- Each loaded period reads its own keywords and those of the earlier one by the key: nothing else is read, whatever the query selects.
select m.period, m.starts_on, b.months_back, m.domain, m.country, m.traffic_source, m.web_source, m.branded_type, pair.keyword,
  loaded.is_so as is_loaded, case when pair.is_now then pair.clicks when loaded.is_so and cut.top_now is null then 0 end as clicks, pair.clicks_before,
  case when loaded.is_so and (pair.is_now or cut.top_now is null) and (pair.was_before or cut.top_before is null) then case when pair.is_now then pair.clicks else 0 end - case when pair.was_before then pair.clicks_before else 0 end end as clicks_change,
  exists (select from unnest((select array_agg(n.starts_on) from bi.breaks n where n.pipeline = 'keywords')) as k (starts_on) where k.starts_on > (m.starts_on - make_interval(months => b.months_back))::date and k.starts_on < (m.starts_on + make_interval(months => m.span))::date) as method_changed,
  pair.best_position, pair.best_position_before,
  case when earlier.months = 0 then 'first' when not loaded.is_so then 'in part' when not pair.is_now then coalesce('not in the top ' || cut.top_now, 'lost')
    when not pair.was_before then coalesce('not in the top ' || cut.top_before || ' before', 'new') when pair.clicks > pair.clicks_before then 'up' when pair.clicks < pair.clicks_before then 'down'
    when pair.clicks = pair.clicks_before then 'same' else 'not known' end as movement,
  m.starts_on = date_trunc(m.period, (select max(newest.month) from bi.keyword_months newest)::timestamp)::date as is_newest,
  cut.top_now is not null or cut.top_before is not null as is_cut
from (select p.period, p.span, p.starts_on, s.domain, s.country, s.traffic_source, s.web_source, s.branded_type, count(*) as months
  from bi.keyword_months s cross join lateral (values ('month', 1, s.month), ('quarter', 3, date_trunc('quarter', s.month::timestamp)::date)) as p (period, span, starts_on)
  group by 1, 2, 3, 4, 5, 6, 7, 8) m
cross join generate_series(1, 36) as b (months_back)
cross join lateral (
  select count(*) as months from bi.keyword_months e where e.month >= (m.starts_on - make_interval(months => b.months_back))::date
    and e.month < (m.starts_on - make_interval(months => b.months_back - m.span))::date and e.domain = m.domain and e.country = m.country
    and e.traffic_source = m.traffic_source and e.web_source = m.web_source and e.branded_type = m.branded_type
) earlier
cross join lateral (select m.months = m.span and earlier.months = m.span as is_so) loaded
-- A keyword outside the requested first rows is not known to be lost.
cross join lateral (
  select max(c.top) filter (where c.period >= m.starts_on) as top_now, max(c.top) filter (where c.period < m.starts_on) as top_before
  from bi.cut_units c where c.pipeline = 'keywords' and c.domain = m.domain and c.country = m.country
    and c.slice::jsonb <@ (c.slice::jsonb || jsonb_build_object('traffic_source', m.traffic_source, 'web_source', m.web_source, 'branded_type', m.branded_type))
    and c.period >= (m.starts_on - make_interval(months => b.months_back))::date and c.period < (m.starts_on + make_interval(months => m.span))::date
    and (c.period >= m.starts_on or c.period < (m.starts_on - make_interval(months => b.months_back - m.span))::date)
) cut
cross join lateral (
  select keyword, present.clicks, past.clicks as clicks_before, present.best_position, past.best_position as best_position_before,
    coalesce(present.there, false) as is_now, coalesce(past.there, false) as was_before
  from (
    select k.keyword, sum(k.clicks) as clicks, min(nullif(k.position, 0)) as best_position, true as there from bi.keywords k
    where k.month in (m.starts_on, (m.starts_on + make_interval(months => (m.span - 1) / 2))::date, (m.starts_on + make_interval(months => m.span - 1))::date)
      and k.domain = m.domain and k.country = m.country
      and k.traffic_source = m.traffic_source and k.web_source = m.web_source and k.branded_type = m.branded_type group by k.keyword
  ) present full join (
    select k.keyword, sum(k.clicks) as clicks, min(nullif(k.position, 0)) as best_position, true as there from bi.keywords k
    where k.month in ((m.starts_on - make_interval(months => b.months_back))::date, (m.starts_on - make_interval(months => b.months_back - (m.span - 1) / 2))::date,
      (m.starts_on - make_interval(months => b.months_back - m.span + 1))::date) and k.domain = m.domain and k.country = m.country
      and k.traffic_source = m.traffic_source and k.web_source = m.web_source and k.branded_type = m.branded_type group by k.keyword
  ) past using (keyword)
) pair
where b.months_back % m.span = 0
