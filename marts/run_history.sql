-- purpose: Every run and what it did.
-- grain: One row per run.
-- question: Was last night good, and how long did it take?
-- topic: What was loaded, and what it cost
-- reads: etl.run_list, etl.runs, etl.loads
-- column run_id: The run.
-- column command: The command.
-- column state: running, done, failed, cancelled or interrupted.
-- column started_at: When it began.
-- column seconds: How long it took; NULL while it runs. Unit: seconds.
-- column units: Units it worked on. Unit: units.
-- column units_in_trouble: Units that it left held or failed. Unit: units.
-- column rows_written: Rows inserted, updated or ended. Unit: rows.
select r.run_id, r.command, r.state, r.started_at, extract(epoch from r.finished_at - r.started_at) as seconds, r.planned as units,
  r.held + r.failed as units_in_trouble, w.rows_written
from etl.run_list r cross join lateral (
  select (t.told ->> 'inserted')::bigint + (t.told ->> 'updated')::bigint + (t.told ->> 'ended')::bigint as rows_written
  from (select s.summary -> 'rows' as told from etl.runs s where s.run_id = r.run_id) t where t.told is not null
  union all
  select coalesce(sum(l.rows_inserted + l.rows_updated + l.rows_ended), 0)::bigint from etl.loads l
  where l.run_id = r.run_id and not exists (select 1 from etl.runs s where s.run_id = r.run_id and s.summary -> 'rows' is not null)
  having not exists (select 1 from etl.runs s where s.run_id = r.run_id and s.summary -> 'rows' is not null)) w
