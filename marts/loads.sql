-- purpose: Every load: what it read and wrote, how long it took and what its answer cost.
-- grain: One row per answer, period and time it was loaded.
-- question: What does a thousand rows cost us, pipeline by pipeline?
-- topic: What was loaded, and what it cost
-- reads: etl.loads, etl.pipelines, etl.jobs, etl.requests
-- column load_id: Number of the load.
-- column pipeline: The pipeline.
-- column version: Its version.
-- column period: First day of the period.
-- column loaded_at: When it was loaded: the _loaded_at of its rows.
-- column run_id: The run.
-- column outcome: loaded, or unchanged where the service had nothing new.
-- column units: Units that the answer was loaded for. Unit: units.
-- column rows_read: Rows in the answer. Unit: rows.
-- column rows_new: Rows that were new. Unit: rows.
-- column rows_changed: Rows that got another value. Unit: rows.
-- column rows_ended: Rows that vanished. Unit: rows.
-- column rows_unchanged: Rows that were there already. Unit: rows.
-- column rows_quarantined: Rows that were rejected. Unit: rows.
-- column seconds: How long writing took. Unit: seconds.
-- column credits: This period's part of the answer's cost, by its rows; 0 for an answer loaded again; NULL where it is free or unknown. Adds up. Unit: credits.
-- column credits_per_thousand_rows: credits for each thousand rows read; over several loads divide the sums. Unit: credits.
select l.load_id, p.pipeline, p.version, l.window_from as period, l.loaded_at, l.run_id, l.outcome, l.units, l.rows_read, l.rows_inserted as rows_new,
  l.rows_updated as rows_changed, l.rows_ended, l.rows_unchanged, l.rows_quarantined, round((l.milliseconds / 1000)::numeric, 3) as seconds, c.credits,
  round(c.credits * 1000 / nullif(l.rows_read, 0), 6) as credits_per_thousand_rows
from etl.loads l join etl.pipelines p on p.pipeline_id = l.pipeline_id left join etl.jobs j on j.job_id = l.job_id
cross join lateral (select coalesce(j.used_quota + coalesce(sum(r.credits), 0), sum(r.credits))::numeric as credits from etl.requests r where r.job_id = l.job_id) paid
cross join lateral (select sum(x.rows_read) as rows_read, count(*) as loads from (select distinct on (o.window_from) o.rows_read from etl.loads o
  where o.answer_id = l.answer_id and o.job_id = l.job_id and o.outcome = l.outcome order by o.window_from, o.load_id) x) whole
cross join lateral (select case when l.outcome = 'loaded' and exists (select from etl.loads o where o.answer_id = l.answer_id
    and o.window_from = l.window_from and o.outcome = 'loaded' and o.load_id < l.load_id) then 0
  when whole.rows_read > 0 then round(paid.credits * l.rows_read / whole.rows_read, 6) else round(paid.credits / whole.loads, 6) end as credits) c
