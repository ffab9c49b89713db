-- kind: summary of keywords
-- purpose: Clicks, keywords and searches of a domain in a month, in one row: refreshed with each load, so that no query over all domains reads every keyword.
-- grain: One row per month, domain, country, traffic_source, web_source and branded_type that is loaded; keywords is 0 where the service had none.
-- question: How did the clicks of each of our fifty domains develop over two years?
-- topic: What search brings
-- key: month, domain, country, traffic_source, web_source, branded_type
-- column keywords: Distinct keywords that brought clicks. Unit: keywords. Does not add up over domains or months.
-- column clicks: Clicks from all keywords. Unit: clicks per month.
-- column position_weighted: Average position weighted by clicks, over landing pages whose position is known; NULL where none of them was clicked. Unit: rank in the results.
-- column clicks_ranked: Clicks to landing pages whose position is known: the weight of the average position. Unit: clicks per month.
-- column clicks_times_position: Sum of clicks times position: divided by clicks_ranked it is the average position of any set of rows. Unit: clicks times rank.
-- column keywords_top_3: Keywords whose best position is 3 or better. Unit: keywords.
-- column keywords_4_to_10: Keywords whose best position is 4 to 10. Unit: keywords.
-- column keywords_11_to_20: Keywords whose best position is 11 to 20. Unit: keywords.
-- column keywords_21_and_on: Keywords whose best position is 21 or worse. Unit: keywords.
-- column clicks_top_3: Clicks from keywords whose best position is 3 or better. Unit: clicks per month.
-- column clicks_4_to_10: Clicks from keywords whose best position is 4 to 10. Unit: clicks per month.
-- column clicks_11_to_20: Clicks from keywords whose best position is 11 to 20. Unit: clicks per month.
-- column clicks_21_and_on: Clicks from keywords whose best position is 21 or worse. Unit: clicks per month.
-- column clicks_brand: Clicks from keywords that contain the domain's name without its ending, ignoring blanks (approximate). Unit: clicks per month.
-- column searches: Volume of the distinct keywords. Unit: searches per month. Does not add up over domains: they share keywords.
-- column searches_without_click: Searches of these keywords that end without a click: volume times zero-click share. Unit: searches per month.
-- column keywords_with_features: Keywords whose results page has features such as news or videos, see keyword_serp_features. Unit: keywords.
with keyword as (
  select month, domain, country, traffic_source, web_source, branded_type, keyword,
    sum(clicks) as clicks, min(rank) as best_position, sum(clicks * rank) as clicks_times_position, sum(clicks) filter (where rank is not null) as clicks_ranked,
    max(volume) as volume, max(zero_clicks_share) as zero_clicks_share,
    bool_or(cardinality(serp_features) > 0) as has_features
  -- 0 is a record without a position, not a rank.
  from {{facts}} cross join lateral (select nullif(position, 0) as rank) r group by month, domain, country, traffic_source, web_source, branded_type, keyword
), row_or_none as (
  select month, domain, country, traffic_source, web_source, branded_type, keyword, clicks_times_position, clicks_ranked, has_features,
    -- Without keywords, the counts by position are 0; without known positions, they are NULL.
    case when keyword is null then 0 else best_position end as best_position,
    case when keyword is null then 0 else clicks end as clicks, case when keyword is null then 0 else volume end as volume,
    case when keyword is null then 0 else zero_clicks_share end as zero_clicks_share
  from {{loaded}} full join keyword using (month, domain, country, traffic_source, web_source, branded_type)
)
select month, domain, country, traffic_source, web_source, branded_type,
  count(keyword) as keywords,
  sum(clicks) as clicks,
  round(sum(clicks_times_position) / nullif(sum(clicks_ranked), 0), 4) as position_weighted,
  sum(clicks_ranked) as clicks_ranked, sum(clicks_times_position) as clicks_times_position,
  sum((best_position <> 0 and best_position <= 3)::int) as keywords_top_3,
  sum((best_position > 3 and best_position <= 10)::int) as keywords_4_to_10,
  sum((best_position > 10 and best_position <= 20)::int) as keywords_11_to_20,
  sum((best_position > 20)::int) as keywords_21_and_on,
  sum(clicks * (best_position <> 0 and best_position <= 3)::int) as clicks_top_3,
  sum(clicks * (best_position > 3 and best_position <= 10)::int) as clicks_4_to_10,
  sum(clicks * (best_position > 10 and best_position <= 20)::int) as clicks_11_to_20,
  sum(clicks * (best_position > 20)::int) as clicks_21_and_on,
  sum(case when position(split_part(domain, '.', 1) in replace(lower(keyword), ' ', '')) > 0 then clicks when clicks is not null then 0 end) as clicks_brand,
  sum(volume) as searches,
  round(sum(volume * zero_clicks_share), 2) as searches_without_click,
  count(*) filter (where has_features) as keywords_with_features
from row_or_none group by month, domain, country, traffic_source, web_source, branded_type
