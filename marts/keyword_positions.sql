-- purpose: Keywords and clicks of a domain by position on the results page.
-- grain: One row per month, domain, country, traffic_source, web_source, branded_type and bucket.
-- question: Does example.com gain keywords on the first page?
-- topic: What search brings
-- reads: keyword_months, domains
-- column bucket: Range of the keyword's best position: 01-03, 04-10, 11-20 or 21+; it sorts as text.
-- column keywords: Keywords in the bucket; NULL where no position is known. Unit: keywords. Does not add up over domains or months.
-- column clicks: Clicks from these keywords; NULL where no position is known. Unit: clicks per month.
-- column share_of_clicks: Part of the clicks of the domain's keywords with a position. Unit: fraction.
-- column domain_group: The domain's group as attributes/domains.csv has it now; (none) if the file names none.
-- column ownership: own, competitor, or (none) if the file does not say.
select month, m.domain, country, traffic_source, web_source, branded_type, bucket, bucket_keywords as keywords, bucket_clicks as clicks,
  round(bucket_clicks::numeric / nullif(clicks_top_3 + clicks_4_to_10 + clicks_11_to_20 + clicks_21_and_on, 0), 6) as share_of_clicks,
  coalesce(g.domain_group, '(none)') as domain_group, coalesce(g.ownership, '(none)') as ownership
from bi.keyword_months m
cross join lateral (values ('01-03', keywords_top_3, clicks_top_3), ('04-10', keywords_4_to_10, clicks_4_to_10),
  ('11-20', keywords_11_to_20, clicks_11_to_20), ('21+', keywords_21_and_on, clicks_21_and_on)) as part (bucket, bucket_keywords, bucket_clicks)
left join bi.domains g on g.domain = m.domain
