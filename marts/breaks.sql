-- purpose: Months from which on the service counts by another method, so that figures before and after are not comparable.
-- grain: One row per pipeline and break_id: a break that a run noticed, or the end of a table that another one continues.
-- question: Did the traffic grow in May, or did the service count otherwise from then on?
-- topic: Can I trust the figures
-- reads: etl.breaks, etl.pipelines, etl.published_now, etl.published_versions, etl.units, etl.kept_cells, etl.hand_overs
-- column pipeline: The pipeline.
-- column break_id: Number of the break; 0 for the end of a table.
-- column starts_on: First day that is loaded by the new method; days before follow the former method.
-- column month: First day of that day's month.
-- column kind: method; dialect where the change came with another dialect of the service; version where the service names another version of its data; table where another table continues from then on.
-- column data_version: The version that the service names since; NULL for other kinds.
-- column columns: Columns that changed more than usual, if any; the one that changed most comes first.
-- column change: Mean change of the first of these columns, as a part of the former value. Unit: fraction.
-- column share_changed: Rows of a period that changed. Unit: fraction.
-- column usual_share: The same share in the usual restatements before (their median). Unit: fraction.
-- column seen_back_to: First day of the oldest period in which a unit that was requested again changed in the same way.
-- column noticed_at: When a run noticed it; NULL for the end of a table.
-- column run_id: The run; NULL for the end of a table.
-- column continued_by: The pipeline whose rows continue it from then on; NULL for other kinds.
select p.pipeline, b.break_id, b.starts_on, date_trunc('month', b.starts_on::timestamp)::date as month, b.kind, b.data_version, b.columns, round(b.change::numeric, 4) as change,
  round(b.share::numeric, 4) as share_changed, round(b.usual_share::numeric, 4) as usual_share, b.seen_back_to, b.noticed_at, b.run_id, null as continued_by
from etl.breaks b join etl.pipelines p on p.pipeline_id = b.pipeline_id
where not exists (select from etl.published_now n where n.pipeline = p.pipeline and n.version <> p.version)
  -- Breaks that a former version noticed in rows that are shown. Left out where the published version noticed one in the same night.
  or exists (select from etl.published_versions v where v.pipeline = p.pipeline and v.version = p.version)
    and not exists (select from etl.published_now n join etl.pipelines s on s.pipeline = n.pipeline and s.version = n.version join etl.breaks o on o.pipeline_id = s.pipeline_id
      where n.pipeline = p.pipeline and o.noticed_at between b.noticed_at - interval '1 day' and b.noticed_at + interval '1 day')
    and (exists (select from etl.published_now n join etl.pipelines s on s.pipeline = n.pipeline and s.version = n.version join etl.units u on u.pipeline_id = s.pipeline_id
        where n.pipeline = p.pipeline and u.window_from < b.starts_on and u.answer_id is not null and u.ask_number < b.ask_number)
      or exists (select from etl.kept_cells k join etl.units u on u.unit_id = k.unit_id
        where k.pipeline = p.pipeline and k.until is null and u.window_from < b.starts_on and u.ask_number < b.ask_number))
-- As bi shows it, once it is published.
union all select h.pipeline, 0, h.starts_on, h.starts_on, 'table', null, null, null, null, null, null, null, null, h.successor
from etl.hand_overs h where h.successor is not null
  and not exists (select from etl.hand_overs l where l.pipeline = h.pipeline and l.since > h.since)
