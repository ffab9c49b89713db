-- purpose: Features on the results page of each keyword, one per row.
-- grain: One row per month, domain, country, traffic_source, web_source, branded_type, keyword and feature.
-- question: How many of our clicks come from pages that also show a video?
-- topic: What search brings
-- reads: keywords, keyword_months
-- column feature: One feature of the results page, for example news or video.
-- column clicks: Clicks from the keyword, repeated for each of its features. Unit: clicks per month. Does not add up over features.
-- column best_position: Best position over the landing pages. Unit: rank in the results.
-- column volume: Searches for the keyword. Unit: searches per month. Does not add up over features or domains.

-- Slice by slice, and only slices with features, so that the first rows come without reading all months.
select m.month, m.domain, m.country, m.traffic_source, m.web_source, m.branded_type, f.keyword, f.feature, f.clicks, f.best_position, f.volume
from bi.keyword_months m cross join lateral (
  -- A feature belongs to the keyword, even if only some of its landing pages have it.
  select distinct k.keyword, u.feature, k.clicks, k.best_position, k.volume
  from (
    select k.keyword, k.serp_features, sum(k.clicks) over own as clicks, min(nullif(k.position, 0)) over own as best_position, max(k.volume) over own as volume
    from bi.keywords k
    where k.month = m.month and k.domain = m.domain and k.country = m.country and k.traffic_source = m.traffic_source and k.web_source = m.web_source and k.branded_type = m.branded_type
    window own as (partition by k.keyword)
  ) k cross join lateral unnest(k.serp_features) as u (feature)
) f
where m.keywords_with_features > 0
