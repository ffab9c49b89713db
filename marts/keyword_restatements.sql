-- purpose: What restatements did to a domain's clicks: as first loaded, as believed now, and the difference.
-- grain: One row a month, domain, country, traffic_source, web_source and branded_type.
-- question: By how many clicks did April change after we reported on it?
-- reads: keywords_history
-- column clicks_first: Clicks as they were first loaded. Unit: clicks a month.
-- column clicks_now: Clicks as believed now. Unit: clicks a month.
-- column clicks_change: clicks_now minus clicks_first. Unit: clicks a month.
-- column change_share: clicks_change as a part of clicks_first. Unit: fraction.
-- column first_loaded_at: When the first rows were loaded.
-- column restated_at: When a row was last changed, added or ended after that; NULL where none was.
-- column rows_restated: Revisions that were not among the first rows, and first rows that ended without one. Unit: rows.
select month, domain, country, traffic_source, web_source, branded_type,
  coalesce(sum(clicks) filter (where valid_from = first_loaded_at), 0) as clicks_first,
  coalesce(sum(clicks) filter (where is_current), 0) as clicks_now,
  coalesce(sum(clicks) filter (where is_current), 0) - coalesce(sum(clicks) filter (where valid_from = first_loaded_at), 0) as clicks_change,
  round(coalesce(sum(clicks) filter (where is_current), 0) / nullif(sum(clicks) filter (where valid_from = first_loaded_at), 0) - 1, 6) as change_share,
  first_loaded_at, nullif(greatest(max(valid_from), max(valid_to)), first_loaded_at) as restated_at,
  count(*) filter (where valid_from > first_loaded_at or is_last_and_ended) as rows_restated
from (
  select h.*, min(h.valid_from) over (partition by h.month, h.domain, h.country, h.traffic_source, h.web_source, h.branded_type) as first_loaded_at,
    not h.is_current and h._revision = max(h._revision) over (partition by h.month, h.domain, h.country, h.traffic_source, h.web_source, h.branded_type,
      h.keyword, h.top_url) as is_last_and_ended
  from bi.keywords_history h
) revisions
group by month, domain, country, traffic_source, web_source, branded_type, first_loaded_at
