// Approvals: what waits for a person before it is bought. Records, counts and dissolves it, grants approval and withdraws it.
import { counted } from '../core/counted.ts'
import { type ExpressionBuilder, type RawBuilder, sql } from 'kysely'
import type { IsoDate } from '../core/types.ts'
import type { ApprovalsTable, Db, Tables } from '../db/tables.ts'
import { asNumber, countRows, query, queryColumn, type Row } from '../db/typed-row.ts'
import type { RequestedData } from '../core/request-digest.ts'
import { isApprovedUnsent } from './approved-jobs.ts'
import type { AskReason } from './candidates.ts'
import { databaseNow } from '../db/database-clock.ts'
import { note } from './events.ts'
import { lockPipeline } from './pipelines.ts'
import { reapOverdue } from './processes.ts'
import { dissolve, isUnclaimed, isOrderedByPerson, isUnbought, detachingUnits } from './register-jobs.ts'
import { isWaitedFor } from './wait-list.ts'

/** What is about to be held. */
export interface ToApprove {
  readonly pipelineId: number
  readonly kind: ApprovalsTable['kind']
  readonly runId: number
  /** Digest of what it asks for, then of the rules that hold it: see plan/guard-night.ts. */
  readonly digest: string
  /** Credits the night might have cost. */
  readonly allowed: number | null
  readonly reasons: Readonly<Partial<Record<AskReason, number>>>
  readonly units: number
  readonly credits: number
}

/** Unsent jobs of an approval whose price is unknown. */
export const unpricedOf = (eb: ExpressionBuilder<Tables, 'etl.approvals'>) =>
  eb
    .selectFrom('etl.jobs')
    .select('etl.jobs.job_id')
    .whereRef('etl.jobs.approval_id', '=', 'etl.approvals.approval_id')
    .where((jobs) => jobs.and({ 'etl.jobs.ask_number': null, 'etl.jobs.estimated_quota': null }))

/** What waits together for one approval, at 1 credit a unit where the price is unknown; null: nothing waits. */
export const waitingApproval = async (db: Db, pipelineId: number, kind: ToApprove['kind']) =>
  (await db
    .selectFrom('etl.approvals')
    .select(['approval_id as approvalId', 'digest', 'reports', asNumber('units').as('units'), asNumber('credits').as('credits')])
    .select((eb) => sql<boolean>`not exists ${unpricedOf(eb)}`.as('priced'))
    .where((eb) => eb.and({ pipeline_id: pipelineId, kind, state: 'waiting' }))
    .executeTakeFirst()) ?? null

/** Opens one approval for all that waits and merges the former one into it, so that people are notified once. Call under the pipeline's lock. */
export const openApproval = async (trx: Db, ask: ToApprove): Promise<string> => {
  const former = await waitingApproval(trx, ask.pipelineId, ask.kind)
  if (former !== null) await decideApproval(trx, former.approvalId, 'dissolved', null)
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
      .where((eb) => eb.and({ approval_id: former.approvalId, guard: 'needs approval' }))
      .execute()
  return approval_id
}

/** Records an approval that was given before anything was held: by `--yes`, or at the terminal. */
export const recordApproval = async (trx: Db, ask: ToApprove, by: string): Promise<void> => {
  await trx
    .insertInto('etl.approvals')
    .values({ ...rowOf(ask), state: 'approved', decided_at: databaseNow, decided_by: by })
    .execute()
}

const rowOf = ({ pipelineId, kind, runId, digest, allowed, reasons, units, credits }: ToApprove) => ({
  ...{ pipeline_id: pipelineId, kind, digest, units, run_id: runId, window_from: null, window_to: null },
  reasons: JSON.stringify(reasons),
  credits: Math.round(credits),
  allowed: allowed === null || !Number.isFinite(allowed) ? null : Math.round(allowed),
})

/** The caller releases or dissolves the jobs that waited for it, in the same transaction. */
const decideApproval = async (trx: Db, approvalId: string, state: 'approved' | 'dissolved', by: string | null): Promise<void> => {
  await trx
    .updateTable('etl.approvals')
    .set({ state, decided_at: databaseNow, decided_by: by })
    .where('approval_id', '=', approvalId)
    .execute()
}

/** Counts what waits again, from its jobs; an approval without jobs is dissolved. Call under the pipeline's lock. */
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

/** Which held plans are dissolved: those of one kind, or those of a named range. `only`: the values it names, by index of their dimension; empty: all. */
type Dissolved = Pick<ToApprove, 'kind'> | NamedCells

interface NamedCells {
  readonly from: IsoDate
  readonly to: IsoDate
  readonly only: ReadonlyMap<number, readonly string[]>
}

/**
 * Dissolves jobs that wait for approval, so that they are planned again: at most 1,000 a call, under the pipeline's lock. Returns how many. Of a report
 * that the range touches, the months and values outside the range keep waiting.
 */
export const dissolveHeld = async (trx: Db, pipelineId: number, which: Dissolved): Promise<number> => {
  const touched =
    'kind' in which
      ? sql`exists (select from etl.approvals a where a.approval_id = j.approval_id and a.kind = ${which.kind})`
      : sql`j.window_from < ${which.to}::date and j.window_to > ${which.from}::date
          and exists (select from etl.slices s where s.slice_id = any(j.slice_ids) and ${notNamed(which)} is null)`
  const picked = sql`select j.job_id from etl.jobs j where j.pipeline_id = ${pipelineId} and j.state = 'held' and j.guard = 'needs approval'
    and j.ask_number is null and ${touched} order by j.job_id limit 1000 for update`
  if ('from' in which) await keepOutside(trx, picked, which)
  const dissolved = await dissolve(trx)`${picked}`
  if (dissolved > 0) await countApproval(trx, pipelineId)
  return dissolved
}

/** Dissolves approved, unsent jobs whose definition by now asks for more, or for something else: they are planned again. Returns how many. Call under the pipeline's lock. */
export const dissolveChanged = (trx: Db, pipelineId: number, { asks, metrics }: RequestedData): Promise<number> => {
  const isSame = sql`case when split_part(a.digest, E'\\n', 1) = ${asks} then split_part(a.digest, E'\\n', 2)::jsonb @> ${JSON.stringify(metrics)}::jsonb else false end`
  return dissolve(trx)`
    select j.job_id from etl.jobs j where j.pipeline_id = ${pipelineId} and ${isApprovedUnsent} and not ${isWaitedFor(sql`j.job_id`)}
      and exists (select from etl.approvals a where a.approval_id = j.approval_id and a.digest is not null and not (${isSame}))
    order by j.job_id for update of j`
}

/** Index of the first dimension whose value in slice `s` is not named; NULL: all are named. */
const notNamed = ({ only }: NamedCells): RawBuilder<number | null> =>
  sql`(case when false then 0 ${sql.join(
    [...only].map(
      ([place, values]) => sql`when s."values"[${sql.lit(place + 1)}] <> all(${[...values]}::text[]) then ${sql.lit(place)}`,
    ),
    sql` `,
  )} end)`

/**
 * Keeps the months before and after the range, and the values that it does not name, as held reports of their own, each at its share of the price. A held job has
 * no answer, and none in flight. @param picked held jobs that the range touches
 */
const keepOutside = async (trx: Db, picked: RawBuilder<unknown>, which: NamedCells): Promise<void> => {
  const { from, to } = which
  await query(trx)`
    with whole as (select j.* from etl.jobs j where j.job_id in (${picked})), outside as (
      select w.job_id, p.first, p.after, w.slice_ids as ids
      from whole w cross join lateral (values (w.window_from, ${from}::date), (${to}::date, w.window_to)) p(first, after) where p.first < p.after
      union all
      -- Slices whose first dimension with an unnamed value is the same: together they are every combination of their values, as a report holds them.
      select w.job_id, greatest(w.window_from, ${from}::date), least(w.window_to, ${to}::date), array_agg(s.slice_id order by s.slice_id)
      from whole w join etl.slices s on s.slice_id = any(w.slice_ids) where ${notNamed(which)} is not null group by w.job_id, 2, 3, ${notNamed(which)}
    ), parts as (
      select o.*, (select count(*) from etl.units u where u.job_id = o.job_id and u.window_from >= o.first and u.window_from < o.after
        and u.slice_id = any(o.ids)) as part from outside o
    ), kept as (
      insert into etl.jobs (pipeline_id, kind, reason, wanted_by, guard, state, window_from, window_to, slice_ids, cells, forced, run_id, former_job_id,
        approval_id, account, estimated_quota, error_code, error_message)
      select w.pipeline_id, w.kind, w.reason, w.wanted_by, w.guard, w.state, p.first, p.after, p.ids, p.part, w.forced, w.run_id, w.former_job_id,
        w.approval_id, w.account, w.estimated_quota * p.part / w.cells, w.error_code, w.error_message
      from parts p join whole w using (job_id) where p.part > 0 order by p.job_id, p.first returning job_id, window_from, window_to, slice_ids
    )
    update etl.units u set job_id = k.job_id from whole w join kept k on k.slice_ids <@ w.slice_ids
    where u.job_id = w.job_id and u.window_from >= k.window_from and u.window_from < k.window_to and u.slice_id = any(k.slice_ids)`
}

/**
 * Approves all that waits of the pipelines; the next run buys it. Records who approved it, with the price that was shown. Each pipeline is a transaction
 * of its own. @param pipelines names; empty: all
 */
export const approve = async (db: Db, pipelines: readonly string[], by: string): Promise<Approved[]> => {
  const approved: Approved[] = []
  for (const { pipeline_id } of await waitingOf(db, pipelines)) {
    approved.push(...(await db.transaction().execute((trx) => approveIn(trx, pipeline_id, by))))
  }
  return approved
}

const waitingOf = (db: Db, pipelines: readonly string[]): Promise<{ pipeline_id: number }[]> =>
  db
    .selectFrom('etl.approvals as a')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'a.pipeline_id')
    .select('a.pipeline_id')
    .distinct()
    .where('a.state', '=', 'waiting')
    .$if(pipelines.length > 0, (query) => query.where('p.pipeline', 'in', [...pipelines]))
    .orderBy('a.pipeline_id')
    .execute()

/** The same for one pipeline, in a transaction that has or takes its lock. While a night is still being planned, only what is held so far is approved. */
export const approveIn = async (trx: Db, pipelineId: number, by: string) => {
  await lockPipeline(trx, pipelineId)
  await countApproval(trx, pipelineId)
  const approved = await trx
    .selectFrom('etl.approvals as a')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'a.pipeline_id')
    .select([asNumber('a.approval_id').as('approvalId'), 'p.pipeline', 'p.version'])
    .select([asNumber('a.units').as('units'), 'a.reports', asNumber('a.credits').as('credits')])
    .where((eb) => eb.and({ 'a.pipeline_id': pipelineId, 'a.state': 'waiting' }))
    .orderBy('a.approval_id')
    .execute()
  for (const { approvalId, pipeline, units, reports, credits } of approved) {
    await query(trx)`
      with held as (
        select job_id from etl.jobs where approval_id = ${approvalId}::bigint and state = 'held' and guard = 'needs approval'
        order by job_id for update
      )
      update etl.jobs set state = 'open', guard = 'usual', wanted_by = 'approval', attempts = 0, not_before = null, error_code = null, error_message = null,
        updated_at = clock_timestamp() where job_id in (select job_id from held)`
    await decideApproval(trx, String(approvalId), 'approved', by)
    const message = `${counted(units, 'unit')} (${reports === 0 ? '' : `${counted(reports, 'report')}, `}about ${counted(credits, 'credit')}) of ${pipeline} ${units === 1 ? 'was' : 'were'} approved by a person (${by}).`
    await note(trx, { kind: 'approved', pipelineId, message })
  }
  return approved
}

/** What a person approved. */
export type Approved = Awaited<ReturnType<typeof approveIn>>[number]

/**
 * Withdraws approval: dissolves what a person approved, named or forced and no process has bought yet, also where a live run waits for it, and what waits for approval. The
 * next night holds its part of it again. Jobs that a process holds stay with it. Returns how many jobs. @param pipelines names; empty: all
 */
export const withdraw = async (db: Db, pipelines: readonly string[], by: string): Promise<number> => {
  // Frees the jobs of killed processes and ends their runs first. No process has the number 0, so none is left out.
  await reapOverdue(db, 0)
  const ours = await db
    .selectFrom('etl.pipelines')
    .select('pipeline_id')
    .$if(pipelines.length > 0, (query) => query.where('pipeline', 'in', [...pipelines]))
    .orderBy('pipeline_id')
    .execute()
  let dissolved = 0
  for (const { pipeline_id } of ours) dissolved += await withdrawJobs(db, pipeline_id, sql`true`, by)
  return dissolved
}

/** The same for the failed jobs of one run: no night retries them. */
export const withdrawRun = async (db: Db, runId: number, by: string): Promise<number> => {
  const ofRun = sql`exists (select from etl.run_jobs w where w.run_id = ${runId}::bigint and w.job_id = j.job_id)`
  const pipelineIds = await queryColumn<Row<'etl.jobs', 'pipeline_id'>>(db)`
    select distinct j.pipeline_id from etl.jobs j where ${ofRun} and j.state = 'failed' and ${isOrderedByPerson} order by 1`
  let dissolved = 0
  for (const pipelineId of pipelineIds) dissolved += await withdrawJobs(db, pipelineId, sql`${ofRun} and j.state = 'failed'`, by)
  return dissolved
}

/** Failed purchases that cost no more: reports that ended, and walks without all their pages. Their units leave them, as if never asked for. */
const isOver = sql<boolean>`j.state = 'failed' and j.ask_number is not null and j.answer_id is null
  and coalesce(j.report_state in ('failed', 'rejected', 'expired'), true)`

const withdrawJobs = (db: Db, pipelineId: number, which: RawBuilder<unknown>, by: string): Promise<number> =>
  db.transaction().execute(async (trx) => {
    await lockPipeline(trx, pipelineId)
    const ours = sql`j.pipeline_id = ${pipelineId} and ${which}`
    const unsent = sql`j.state in ('open', 'held', 'failed') and ${isUnbought} and j.answer_id is null and ${isUnclaimed} and (${isOrderedByPerson} or j.approval_id is not null)`
    const dissolved = await dissolve(trx)`
      select j.job_id from etl.jobs j where ${ours} and ${unsent} order by j.job_id for update`
    const over = await countRows(trx)`
      with gone as materialized (select j.job_id from etl.jobs j where ${ours} and ${isOver} and ${isOrderedByPerson} order by j.job_id for update),
      ${detachingUnits()}
      update etl.jobs set state = 'replaced', updated_at = clock_timestamp() where job_id in (select job_id from gone) returning job_id`
    await countApproval(trx, pipelineId)
    const count = dissolved + over
    const message = `${counted(count, 'purchase')} ${count === 1 ? 'was' : 'were'} withdrawn by a person (${by}).`
    if (count > 0) await note(trx, { kind: 'withdrawn', pipelineId, message })
    return count
  })
