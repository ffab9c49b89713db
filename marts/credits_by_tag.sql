-- purpose: Credits spent at the service by tag, day by day: a row for each tag that any purchase has.
-- grain: One row per account, pipeline, tag, tag_value and day (UTC).
-- question: What did this client, or this team, cost us last month?
-- topic: What was loaded, and what it cost
-- reads: etl.spending, etl.tag_sets
-- column account: The account whose key was used.
-- column pipeline: The pipeline.
-- column tag: Name of the tag. Every purchase has a row for each tag: never add up several tags.
-- column tag_value: Its value; (none) where the purchase has no such tag.
-- column day: Day of the submission or request, UTC.
-- column reports: Reports submitted. Unit: reports.
-- column requests: Requests that cost something. Unit: requests.
-- column used: Credits it took; NULL where the service did not report it. Unit: credits.
-- column reserved: Credits set aside for reports under way. Unit: credits.
select s.account, s.pipeline, n.tag, coalesce(t.tags ->> n.tag, '(none)') as tag_value, s.day, sum(s.reports)::bigint as reports,
  sum(s.requests)::bigint as requests, sum(s.used_quota) as used, sum(s.reserved_quota) as reserved
from etl.spending s join etl.tag_sets t using (tag_set_id)
  cross join (select distinct jsonb_object_keys(tags) as tag from etl.tag_sets) n
group by 1, 2, 3, 4, 5
