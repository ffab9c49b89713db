// Purchases that need approval, and approved purchases that are not bought yet.
import { sum } from '../../core/counted.ts'
import type { Db } from '../../db/tables.ts'
import { type Maybe, type Numbers, query, type Row, type Texts } from '../../db/typed-row.ts'

/** An approval that is needed. `credits`: estimated cost, null: a price is not known; `allowed`: the nightly limit, null: there was none. */
export type NeededApproval = Row<'etl.pipelines', 'pipeline' | 'version'> &
  Row<'etl.approvals', 'kind' | 'reports'> &
  Numbers<'approval_id' | 'units'> &
  Maybe<Numbers<'credits' | 'allowed'> & Texts<'from' | 'to'>> & {
    /** Units by reason. */
    readonly reasons: Readonly<Record<string, number>>
    readonly asked_at: string
  }

/** Oldest first. @param pipelines only these; empty: all */
export const neededApprovals = (db: Db, pipelines: readonly string[] = []): Promise<NeededApproval[]> =>
  query<NeededApproval>(db)`
    select a.approval_id::float8 as approval_id, p.pipeline, p.version, a.kind, a.units::float8 as units, a.reports,
      case when not exists (select from etl.jobs j where j.approval_id = a.approval_id and j.ask_number is null and j.estimated_quota is null)
        then a.credits::float8 end as credits,
      a.allowed::float8 as allowed, a.reasons, left(a.window_from::text, case p.window_every when 'month' then 7 else 10 end) as from,
      left((a.window_to - 1)::text, case p.window_every when 'month' then 7 else 10 end) as to, a.asked_at
    from etl.approvals a join etl.pipelines p using (pipeline_id)
    where a.state = 'waiting' and a.units > 0 and (${pipelines.length === 0} or p.pipeline = any(${[...pipelines]}::text[]))
    order by a.approval_id`

/** Every run judges waiting purchases again, under a new number. The number that replaced this one; null: none, or this one was decided. */
export const successorOf = async (db: Db, approvalId: number): Promise<number | null> => {
  const rows = await query<Numbers<'approval_id'>>(db)`
    select n.approval_id::float8 as approval_id from etl.approvals a join etl.approvals n on n.pipeline_id = a.pipeline_id and n.kind = a.kind
    where a.approval_id = ${String(approvalId)}::bigint and a.state = 'dissolved' and n.state = 'waiting' and n.units > 0`
  return rows[0]?.approval_id ?? null
}

/** The cost of everything of the pipeline that waits: an approval covers all of it. null: a price is not known. */
export const totalCost = (waiting: readonly NeededApproval[], pipeline: string): number | null => {
  const own = waiting.filter((one) => one.pipeline === pipeline)
  return own.some(({ credits }) => credits === null) ? null : sum(own, 'credits')
}

/** `done_on`: the day the last of it can be bought; null: with the next run, or not known. */
export type UnusedApproval = Texts<'pipeline'> &
  Numbers<'units' | 'reports'> &
  Maybe<Numbers<'credits'> & Texts<'approved_by' | 'done_on'>>

/** Approved, or requested by a person, and not bought yet: the daily or monthly budget is used up, or no run has begun since. */
export const unusedApprovals = (db: Db, pipelines: readonly string[] = []): Promise<UnusedApproval[]> =>
  query<UnusedApproval>(db)`
    select p.pipeline, sum(j.cells)::float8 as units, (count(*) filter (where j.kind = 'report'))::integer as reports,
      case when bool_and(j.estimated_quota is not null) then sum(j.estimated_quota)::float8 end as credits,
      max(a.decided_by) as approved_by, max(a.done_on)::text as done_on
    from etl.approvals a join etl.pipelines p using (pipeline_id) join etl.jobs j on j.approval_id = a.approval_id
    where a.state = 'approved' and j.ask_number is null and j.state = 'open' and j.served_by is null and (${pipelines.length === 0} or p.pipeline = any(${[...pipelines]}::text[]))
    group by 1 order by 1`
