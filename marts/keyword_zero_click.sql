-- purpose: How many searches for a domain's keywords end on the results page.
-- grain: One row a month, domain, country, traffic_source, web_source and branded_type.
-- question: Is the results page taking our visits?
-- topic: What search brings
-- reads: keyword_months
-- column searches: Searches for the domain's keywords. Unit: searches a month. Does not add up over domains.
-- column searches_without_click: Those that end without a click. Unit: searches a month.
-- column zero_click_share: searches_without_click divided by searches, hence weighted by volume. Unit: fraction.
select month, domain, country, traffic_source, web_source, branded_type, searches, searches_without_click,
  round(searches_without_click / nullif(searches, 0), 6) as zero_click_share
from bi.keyword_months
