-- purpose: What else the results page of each keyword shows: features as rows, instead of a list.
-- grain: One row a month, domain, country, traffic_source, web_source, branded_type, keyword and feature.
-- question: How many of our clicks come from pages that also show a video?
-- reads: keywords
-- column feature: One feature of the results page, for example news or video.
-- column clicks: Clicks from the keyword, the same beside each of its features. Unit: clicks a month. Does not add up over features.
-- column best_position: Best position over the landing pages. Unit: rank in the results.
-- column volume: Searches for the keyword. Unit: searches a month. Does not add up over features or domains.
select month, domain, country, traffic_source, web_source, branded_type, keyword, feature,
  sum(clicks) as clicks, min(position) as best_position, max(volume) as volume
from (select k.*, f.feature from bi.keywords k cross join lateral (select distinct n.feature from unnest(k.serp_features) as n (feature)) f) named
group by month, domain, country, traffic_source, web_source, branded_type, keyword, feature
