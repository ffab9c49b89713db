// What waits for a person's word before it is bought: recorded, counted, planned anew.
import { type ExpressionBuilder, sql } from 'kysely'
import type { IsoDate } from '../core/types.ts'
import { query } from '../db/typed-row.ts'
import type { ApprovalsTable, Db, Tables } from '../db/tables.ts'
import type { AskReason } from './candidates.ts'
import { databaseNow } from './database-now.ts'
import { dissolving } from './register-jobs.ts'

/** What is too dear without a person's word. */
export type ApprovalKind = ApprovalsTable['kind']

/** What is about to be held. */
export interface ToApprove {
  readonly pipelineId: number
  readonly kind: ApprovalKind
  readonly runId: number
  /** Of all it was planned with: see plan/guard.ts. */
  readonly digest: string
  /** Credits the night might have cost. */
  readonly allowed: number | null
  readonly reasons: Readonly<Partial<Record<AskReason, number>>>
  readonly units: number
  readonly credits: number
}

/** What waits together for one word. */
export interface WaitingApproval {
  readonly approvalId: string
  readonly digest: string | null
  readonly units: number
  readonly reports: number
  /** 1 a unit where the price is unknown. */
  readonly credits: number
  readonly priced: boolean
}

/** Reports of an approval of unknown price. */
export const unpricedOf = (eb: ExpressionBuilder<Tables, 'etl.approvals'>) =>
  eb
    .selectFrom('etl.jobs')
    .select('etl.jobs.job_id')
    .whereRef('etl.jobs.approval_id', '=', 'etl.approvals.approval_id')
    .where('etl.jobs.ask_number', 'is', null)
    .where('etl.jobs.estimated_quota', 'is', null)

/** null: nothing waits. */
export const waitingApproval = async (db: Db, pipelineId: number, kind: ApprovalKind): Promise<WaitingApproval | null> => {
  const row = await db
    .selectFrom('etl.approvals')
    .select(['approval_id', 'digest', 'units', 'reports', 'credits'])
    .select((eb) => eb.not(eb.exists(unpricedOf(eb))).as('priced'))
    .where('pipeline_id', '=', pipelineId)
    .where('kind', '=', kind)
    .where('state', '=', 'waiting')
    .executeTakeFirst()
  if (row === undefined) return null
  const { approval_id: approvalId, digest, reports } = row
  return { approvalId, digest, units: Number(row.units), reports, credits: Number(row.credits), priced: Boolean(row.priced) }
}

/** One row for all that waits: what waited before is part of it from here on, so that people hear of the change once. Under the pipeline's lock. */
export const openApproval = async (trx: Db, ask: ToApprove): Promise<string> => {
  const former = await waitingApproval(trx, ask.pipelineId, ask.kind)
  if (former !== null) await decide(trx, former.approvalId, 'dissolved', null)
  const { approval_id } = await trx
    .insertInto('etl.approvals')
    .values({
      ...rowOf(ask),
      units: ask.units + (former?.units ?? 0),
      credits: Math.round(ask.credits) + (former?.credits ?? 0),
    })
    .returning('approval_id')
    .executeTakeFirstOrThrow()
  if (former !== null)
    await trx
      .updateTable('etl.jobs')
      .set({ approval_id })
      .where('approval_id', '=', former.approvalId)
      .where('guard', '=', 'needs approval')
      .execute()
  return approval_id
}

/** A word that was given before anything was held: by `--yes`, or at the terminal. */
export const noteApproval = async (trx: Db, ask: ToApprove, by: string): Promise<void> => {
  await trx
    .insertInto('etl.approvals')
    .values({ ...rowOf(ask), state: 'approved', decided_at: databaseNow, decided_by: by })
    .execute()
}

const rowOf = ({ pipelineId, kind, runId, digest, allowed, reasons, units, credits }: ToApprove) => ({
  pipeline_id: pipelineId,
  kind,
  digest,
  units,
  run_id: runId,
  reasons: JSON.stringify(reasons),
  window_from: null,
  window_to: null,
  credits: Math.round(credits),
  allowed: allowed === null ? null : Math.round(allowed),
})

/** What waited for it is released or dissolved by the caller, in the same transaction. */
export const decide = async (trx: Db, approvalId: string, state: 'approved' | 'dissolved', by: string | null): Promise<void> => {
  await trx
    .updateTable('etl.approvals')
    .set({ state, decided_at: databaseNow, decided_by: by })
    .where('approval_id', '=', approvalId)
    .execute()
}

/** Counts anew what waits, from its jobs; where none is left, nothing waits. Under the pipeline's lock. */
export const countApproval = async (trx: Db, pipelineId: number): Promise<void> => {
  await query(trx)`
    with held as (
      select j.approval_id, j.reason, (count(*) filter (where j.kind = 'report'))::integer as reports, sum(j.cells) as units, sum(coalesce(j.estimated_quota, j.cells)) as credits,
        min(j.window_from) as first, max(j.window_to) as last
      from etl.jobs j where j.pipeline_id = ${pipelineId} and j.state = 'held' and j.guard = 'needs approval' and j.ask_number is null group by 1, 2
    ), counted as (
      select a.approval_id, coalesce(sum(h.reports), 0)::integer as reports, coalesce(sum(h.units), 0) as units, coalesce(sum(h.credits), 0) as credits,
        min(h.first) as first, max(h.last) as last, coalesce(jsonb_object_agg(h.reason, h.units) filter (where h.reason is not null), '{}') as reasons
      from etl.approvals a left join held h using (approval_id) where a.pipeline_id = ${pipelineId} and a.state = 'waiting' group by 1
    )
    update etl.approvals a set reports = c.reports, units = c.units, credits = c.credits, reasons = c.reasons, window_from = c.first,
      window_to = c.last, state = case when c.units = 0 then 'dissolved' else 'waiting' end,
      decided_at = case when c.units = 0 then clock_timestamp() end
    from counted c where a.approval_id = c.approval_id`
}

/** Which held plans are dissolved: of one kind, or those that a range of windows touches. */
export type Dissolved = { readonly kind: ApprovalKind } | { readonly from: IsoDate; readonly to: IsoDate }

/** Takes back what waits for approval, to be planned anew: at most a step's worth, under the pipeline's lock; how many jobs. */
export const dissolveHeld = async (trx: Db, pipelineId: number, which: Dissolved): Promise<number> => {
  const touched =
    'kind' in which
      ? sql`exists (select from etl.approvals a where a.approval_id = j.approval_id and a.kind = ${which.kind})`
      : sql`j.window_from < ${which.to}::date and j.window_to > ${which.from}::date`
  const rows = await query(trx)`
    with ${dissolving(sql`
      select j.job_id from etl.jobs j where j.pipeline_id = ${pipelineId} and j.state = 'held' and j.guard = 'needs approval'
        and j.ask_number is null and ${touched} order by j.job_id limit 1000 for update`)}`
  if (rows.length > 0) await countApproval(trx, pipelineId)
  return rows.length
}
