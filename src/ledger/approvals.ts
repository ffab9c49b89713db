// What waits for a person's word before it is bought: recorded, counted, planned anew; the word given, and taken back.
import { counted } from '../core/counted.ts'
import { type ExpressionBuilder, type RawBuilder, sql } from 'kysely'
import type { IsoDate } from '../core/types.ts'
import type { ApprovalsTable, Db, Tables } from '../db/tables.ts'
import { asNumber, countRows, query, queryColumn, type Row } from '../db/typed-row.ts'
import type { Asked } from '../core/asks.ts'
import { hasWord } from './approved-jobs.ts'
import type { AskReason } from './candidates.ts'
import { databaseNow } from '../db/database-clock.ts'
import { note } from './events.ts'
import { lockPipeline } from './pipelines.ts'
import { reapOverdue } from './processes.ts'
import { dissolve, isNobodys, isPersons, isUnbought, leavingUnits } from './register-jobs.ts'
import { isWaitedFor } from './wait-list.ts'

/** What is about to be held. */
export interface ToApprove {
  readonly pipelineId: number
  readonly kind: ApprovalsTable['kind']
  readonly runId: number
  /** Of all it was planned with, after what it asks for: see plan/guard-night.ts. */
  readonly digest: string
  /** Credits the night might have cost. */
  readonly allowed: number | null
  readonly reasons: Readonly<Partial<Record<AskReason, number>>>
  readonly units: number
  readonly credits: number
}

/** Reports of an approval of unknown price. */
export const unpricedOf = (eb: ExpressionBuilder<Tables, 'etl.approvals'>) =>
  eb
    .selectFrom('etl.jobs')
    .select('etl.jobs.job_id')
    .whereRef('etl.jobs.approval_id', '=', 'etl.approvals.approval_id')
    .where((jobs) => jobs.and({ 'etl.jobs.ask_number': null, 'etl.jobs.estimated_quota': null }))

/** What waits together for one word, at 1 credit a unit where the price is unknown; null: nothing waits. */
export const waitingApproval = async (db: Db, pipelineId: number, kind: ToApprove['kind']) =>
  (await db
    .selectFrom('etl.approvals')
    .select(['approval_id as approvalId', 'digest', 'reports', asNumber('units').as('units'), asNumber('credits').as('credits')])
    .select((eb) => sql<boolean>`not exists ${unpricedOf(eb)}`.as('priced'))
    .where((eb) => eb.and({ pipeline_id: pipelineId, kind, state: 'waiting' }))
    .executeTakeFirst()) ?? null

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
      .where((eb) => eb.and({ approval_id: former.approvalId, guard: 'needs approval' }))
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
  ...{ pipeline_id: pipelineId, kind, digest, units, run_id: runId, window_from: null, window_to: null },
  reasons: JSON.stringify(reasons),
  credits: Math.round(credits),
  allowed: allowed === null || !Number.isFinite(allowed) ? null : Math.round(allowed),
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

/** Which held plans are dissolved: of one kind, or what a range names, with the values it names by the place of their dimension (none: all). */
type Dissolved = Pick<ToApprove, 'kind'> | NamedCells

interface NamedCells {
  readonly from: IsoDate
  readonly to: IsoDate
  readonly only: ReadonlyMap<number, readonly string[]>
}

/**
 * Takes back what waits for approval, to be planned anew: at most a step's worth, under the pipeline's lock; how many jobs. Of a report that a range
 * touches, the months and values outside it go on waiting.
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

/** What a person allowed and no process has asked for yet, to be planned anew where more is asked for by now, or something else; how many jobs. Under the pipeline's lock. */
export const dissolveChanged = (trx: Db, pipelineId: number, { asks, metrics }: Asked): Promise<number> => {
  const isSame = sql`case when split_part(a.digest, E'\\n', 1) = ${asks} then split_part(a.digest, E'\\n', 2)::jsonb @> ${JSON.stringify(metrics)}::jsonb else false end`
  return dissolve(trx)`
    select j.job_id from etl.jobs j where j.pipeline_id = ${pipelineId} and ${hasWord} and not ${isWaitedFor(sql`j.job_id`)}
      and exists (select from etl.approvals a where a.approval_id = j.approval_id and a.digest is not null and not (${isSame}))
    order by j.job_id for update of j`
}

/** Of slice `s` the first dimension whose value is not named; NULL: all are. */
const notNamed = ({ only }: NamedCells): RawBuilder<number | null> =>
  sql`(case when false then 0 ${sql.join(
    [...only].map(
      ([place, values]) => sql`when s."values"[${sql.lit(place + 1)}] <> all(${[...values]}::text[]) then ${sql.lit(place)}`,
    ),
    sql` `,
  )} end)`

/**
 * Months before and after the range, and values that it does not name, as reports of their own, each at its share of the price. What is held has no answer, and
 * none on its way. @param picked held jobs that the range touches
 */
const keepOutside = async (trx: Db, picked: RawBuilder<unknown>, which: NamedCells): Promise<void> => {
  const { from, to } = which
  await query(trx)`
    with whole as (select j.* from etl.jobs j where j.job_id in (${picked})), outside as (
      select w.job_id, p.first, p.after, w.slice_ids as ids
      from whole w cross join lateral (values (w.window_from, ${from}::date), (${to}::date, w.window_to)) p(first, after) where p.first < p.after
      union all
      -- Those of one dimension together: a report holds every combination of its values.
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
 * All that waits of the pipelines may be bought from here on, and is by the next run: the price that was seen is kept with who said so. Each pipeline is
 * a transaction of its own. @param pipelines names; empty: every one
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

/** The same within a transaction that has, or takes, the pipeline's lock. Of a night that is still planned only what is held by now is approved. */
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
    await decide(trx, String(approvalId), 'approved', by)
    const message = `${counted(units, 'unit')} (${reports === 0 ? '' : `${counted(reports, 'report')}, `}about ${counted(credits, 'credit')}) of ${pipeline} approved by a person (${by}).`
    await note(trx, { kind: 'approved', pipelineId, message })
  }
  return approved
}

/** What a person's word allowed. */
export type Approved = Awaited<ReturnType<typeof approveIn>>[number]

/**
 * Takes a word back: what a person allowed, named or forced and was not bought yet is dissolved, also where a living run waits for it, and so is what waits; what
 * belongs to a night is held anew by the next one. What a process has at hand stays its own. Returns how many jobs. @param pipelines names; empty: every one
 */
export const withdraw = async (db: Db, pipelines: readonly string[], by: string): Promise<number> => {
  // What a killed process held is free, and its run waits for nothing. No process has the number 0.
  await reapOverdue(db, 0)
  const ours = await db
    .selectFrom('etl.pipelines')
    .select('pipeline_id')
    .$if(pipelines.length > 0, (query) => query.where('pipeline', 'in', [...pipelines]))
    .orderBy('pipeline_id')
    .execute()
  let dissolved = 0
  for (const { pipeline_id } of ours) dissolved += await takeBack(db, pipeline_id, sql`true`, by)
  return dissolved
}

/** The same of what one run asked for and that failed: no night tries it again. */
export const withdrawRun = async (db: Db, runId: number, by: string): Promise<number> => {
  const ofRun = sql`exists (select from etl.run_jobs w where w.run_id = ${runId}::bigint and w.job_id = j.job_id)`
  const pipelineIds = await queryColumn<Row<'etl.jobs', 'pipeline_id'>>(db)`
    select distinct j.pipeline_id from etl.jobs j where ${ofRun} and j.state = 'failed' and ${isPersons} order by 1`
  let dissolved = 0
  for (const pipelineId of pipelineIds) dissolved += await takeBack(db, pipelineId, sql`${ofRun} and j.state = 'failed'`, by)
  return dissolved
}

/** Reports that ended and pages that were not all there cost no more: their units count on them no longer, as if they had not been asked for. */
const isOver = sql<boolean>`j.state = 'failed' and j.ask_number is not null and j.answer_id is null
  and coalesce(j.report_state in ('failed', 'rejected', 'expired'), true)`

const takeBack = (db: Db, pipelineId: number, which: RawBuilder<unknown>, by: string): Promise<number> =>
  db.transaction().execute(async (trx) => {
    await lockPipeline(trx, pipelineId)
    const ours = sql`j.pipeline_id = ${pipelineId} and ${which}`
    const unsent = sql`j.state in ('open', 'held', 'failed') and ${isUnbought} and j.answer_id is null and ${isNobodys} and (${isPersons} or j.approval_id is not null)`
    const dissolved = await dissolve(trx)`
      select j.job_id from etl.jobs j where ${ours} and ${unsent} order by j.job_id for update`
    const over = await countRows(trx)`
      with gone as materialized (select j.job_id from etl.jobs j where ${ours} and ${isOver} and ${isPersons} order by j.job_id for update),
      ${leavingUnits()}
      update etl.jobs set state = 'replaced', updated_at = clock_timestamp() where job_id in (select job_id from gone) returning job_id`
    await countApproval(trx, pipelineId)
    const count = dissolved + over
    const message = `${count} purchases were withdrawn by a person (${by}).`
    if (count > 0) await note(trx, { kind: 'withdrawn', pipelineId, message })
    return count
  })
