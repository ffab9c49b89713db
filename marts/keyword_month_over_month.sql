-- purpose: What became of each keyword since the month before: new, lost, up, down or same, and by how many clicks.
-- grain: One row a month, domain, country, traffic_source, web_source, branded_type and keyword; lost keywords are in the month they are missing from.
-- question: Which keywords did example.com lose in October, and what did they bring in September?
-- topic: What changed in search
-- reads: keyword_movements, keyword_months
-- column clicks: Clicks in the month; 0 for a lost keyword; NULL where the service gave none. Unit: clicks a month.
-- column clicks_before: Clicks in the month before; NULL for a new keyword. Unit: clicks a month.
-- column clicks_change: clicks minus clicks_before, a keyword that one of the two months lacks counted as 0; NULL where the month before is not loaded. Unit: clicks a month.
-- column method_changed: Whether the service counts by another method since the earlier month: then the two are not comparable, see breaks.
-- column best_position: Best position over the landing pages; NULL for a lost keyword. Unit: rank in the results.
-- column best_position_before: Best position in the month before. Unit: rank in the results.
-- column movement: new, lost, up, down or same, by clicks; first where the month before was not loaded; not in the top 500 (before) where only so many were asked for; not known.
-- column is_loaded: Whether the month before is loaded for the domain and country. Where it is not, nothing is known to be won, lost or new.
-- column is_newest: Whether it is the newest month that is loaded.
select starts_on as month, domain, country, traffic_source, web_source, branded_type, keyword, clicks, clicks_before, clicks_change,
  best_position, best_position_before, movement, method_changed, is_loaded, starts_on = (select max(newest.month) from bi.keyword_months newest) as is_newest
from bi.keyword_movements where period = 'month' and months_back = 1
