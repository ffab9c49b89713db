-- purpose: Clicks, keywords and searches of a domain against an earlier month: the month or quarter before, the same month last year, or any other up to three years back.
-- grain: One row per month, months_back, domain, country, traffic_source, web_source, branded_type: wherever one of the two months has a row. months_back runs from 1 to 36; always choose one.
-- question: Did our clicks from search grow over last year, counting only domains that both months have?
-- topic: What changed in search
-- reads: keyword_months, cut_units, dim_date, domains, breaks
-- column month: First day of the month; only months that are loaded.
-- column months_back: How many months earlier the other month is: 1 the month before, 3 the quarter before, 12 the same month last year. Unit: months.
-- column comparison: previous (1), previous quarter (3), same last year (12); NULL for the others.
-- column quarter: First day of the month's quarter.
-- column loaded_in: Which of the two months has the row: both, now or before. Compare sum(X) filter (where X_before is not null) with sum(X_before) filter (where X is not null).
-- column is_cut: Only the first rows of one of the two months are loaded (cut_units), and not as many of the other: the two are not comparable, and every X_before is NULL.
-- column is_newest: Whether it is the newest month that is loaded.
-- column method_changed: Whether the service counts by another method since the earlier month: then the two are not comparable, see breaks.
-- column clicks: Clicks from all keywords in the month; NULL where it is not loaded. Unit: clicks per month.
-- column clicks_before: Clicks from all keywords in the earlier month; NULL where it is not loaded, and where is_cut. Unit: clicks per month.
-- column clicks_brand: Clicks from keywords that contain the domain's name, in the month; NULL where it is not loaded. Unit: clicks per month.
-- column clicks_brand_before: Clicks from keywords that contain the domain's name, in the earlier month; NULL where it is not loaded, and where is_cut. Unit: clicks per month.
-- column clicks_top_3: Clicks from keywords whose best position is 3 or better in the month; NULL where it is not loaded. Unit: clicks per month.
-- column clicks_top_3_before: Clicks from keywords whose best position is 3 or better in the earlier month; NULL where it is not loaded, and where is_cut. Unit: clicks per month.
-- column clicks_with_position: Clicks from keywords with a position in the month; NULL where it is not loaded. Unit: clicks per month.
-- column clicks_with_position_before: Clicks from keywords with a position in the earlier month; NULL where it is not loaded, and where is_cut. Unit: clicks per month.
-- column keywords: Distinct keywords in the month; NULL where it is not loaded. Unit: keywords. Does not add up over domains or months.
-- column keywords_before: Distinct keywords in the earlier month; NULL where it is not loaded, and where is_cut. Unit: keywords. Does not add up over domains or months.
-- column searches: Volume of the distinct keywords in the month; NULL where it is not loaded. Unit: searches per month. Does not add up over domains.
-- column searches_before: Volume of the distinct keywords in the earlier month; NULL where it is not loaded, and where is_cut. Unit: searches per month. Does not add up over domains.
-- column searches_without_click: Searches that end without a click in the month; NULL where it is not loaded. Unit: searches per month. Does not add up over domains.
-- column searches_without_click_before: Searches that end without a click in the earlier month; NULL where it is not loaded, and where is_cut. Unit: searches per month. Does not add up over domains.
-- column clicks_followed: Clicks in the month of all followed domains that both months have. Unit: clicks per month. Does not add up over domains.
-- column clicks_followed_before: Clicks of the same domains in the earlier month. Unit: clicks per month. Does not add up over domains.
-- column share_of_voice: clicks divided by clicks_followed; NULL where one of the two months lacks the domain. Unit: fraction.
-- column share_of_voice_before: The same in the earlier month, among the same domains. Unit: fraction.
-- column domains_compared: Domains that both months have: the shares are of them. Unit: domains.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.

-- Each loaded month is joined with one earlier month: nothing else is read, whatever the query selects.
select m.month, b.months_back, case b.months_back when 1 then 'previous' when 3 then 'previous quarter' when 12 then 'same last year' end as comparison,
  date_trunc('quarter', m.month::timestamp)::date as quarter, pair.domain, pair.country, pair.traffic_source, pair.web_source, pair.branded_type,
  pair.loaded_in, pair.is_cut, m.month = (select max(newest.month) from bi.keyword_months newest) as is_newest,
  exists (select from unnest((select array_agg(n.starts_on) from bi.breaks n where n.pipeline = 'keywords')) as k (starts_on) where k.starts_on > (m.month - make_interval(months => b.months_back))::date and k.starts_on <= m.month) as method_changed,
  pair.clicks, pair.clicks_before, pair.clicks_brand, pair.clicks_brand_before, pair.clicks_top_3, pair.clicks_top_3_before,
  pair.clicks_with_position, pair.clicks_with_position_before, pair.keywords, pair.keywords_before, pair.searches, pair.searches_before,
  pair.searches_without_click, pair.searches_without_click_before,
  sum(pair.clicks) filter (where pair.clicks_before is not null) over followed as clicks_followed,
  sum(pair.clicks_before) filter (where pair.clicks is not null) over followed as clicks_followed_before,
  case when pair.clicks_before is not null then round(pair.clicks / nullif(sum(pair.clicks) filter (where pair.clicks_before is not null) over followed, 0), 6) end as share_of_voice,
  case when pair.clicks is not null then round(pair.clicks_before / nullif(sum(pair.clicks_before) filter (where pair.clicks is not null) over followed, 0), 6) end as share_of_voice_before,
  count(*) filter (where pair.clicks is not null and pair.clicks_before is not null) over followed as domains_compared,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from (select d.date as month from bi.dim_date d where d.date = d.month_start and exists (select from bi.keyword_months f where f.month = d.date)) m
cross join generate_series(1, 36) as b (months_back)
cross join lateral (
  select domain, country, traffic_source, web_source, branded_type, case when present.domain is null then 'before' when past.domain is null then 'now' else 'both' end as loaded_in, cut.is_so as is_cut,
    present.clicks, present.clicks_brand, present.clicks_top_3, present.clicks_with_position, present.keywords, present.searches, present.searches_without_click, compared.*
  from (select k.*, k.clicks_top_3 + k.clicks_4_to_10 + k.clicks_11_to_20 + k.clicks_21_and_on as clicks_with_position, c.top from bi.keyword_months k
    left join (select s.domain, s.country, s.traffic_source, s.web_source, s.branded_type, max(c.top) as top from bi.cut_units c join bi.keyword_months s on s.month = c.period and s.domain = c.domain and s.country = c.country
        and c.slice::jsonb <@ (c.slice::jsonb || jsonb_build_object('traffic_source', s.traffic_source, 'web_source', s.web_source, 'branded_type', s.branded_type))
      where c.pipeline = 'keywords' and c.period = m.month group by 1, 2, 3, 4, 5) c using (domain, country, traffic_source, web_source, branded_type) where k.month = m.month) present
  full join (select k.*, k.clicks_top_3 + k.clicks_4_to_10 + k.clicks_11_to_20 + k.clicks_21_and_on as clicks_with_position, c.top from bi.keyword_months k
    left join (select s.domain, s.country, s.traffic_source, s.web_source, s.branded_type, max(c.top) as top from bi.cut_units c join bi.keyword_months s on s.month = c.period and s.domain = c.domain and s.country = c.country
        and c.slice::jsonb <@ (c.slice::jsonb || jsonb_build_object('traffic_source', s.traffic_source, 'web_source', s.web_source, 'branded_type', s.branded_type))
      where c.pipeline = 'keywords' and c.period = (m.month - make_interval(months => b.months_back))::date group by 1, 2, 3, 4, 5) c using (domain, country, traffic_source, web_source, branded_type) where k.month = (m.month - make_interval(months => b.months_back))::date) past
    using (domain, country, traffic_source, web_source, branded_type)
  -- The first rows alone cannot be compared with all rows.
  cross join lateral (select present.domain is not null and past.domain is not null and present.top is distinct from past.top as is_so) cut
  left join lateral (select past.clicks as clicks_before, past.clicks_brand as clicks_brand_before, past.clicks_top_3 as clicks_top_3_before, past.clicks_with_position as clicks_with_position_before, past.keywords as keywords_before, past.searches as searches_before, past.searches_without_click as searches_without_click_before where not cut.is_so) compared on true
) pair
left join bi.domains g on g.domain = pair.domain
window followed as (partition by m.month, b.months_back, pair.country, pair.traffic_source, pair.web_source, pair.branded_type)
