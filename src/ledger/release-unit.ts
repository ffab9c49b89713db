// A person's decisions about failed and held units and about runs, each with its event in the same transaction: a held answer loads as it is, or the job is opened
// again; the run of the command waits for it.
import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import { type Flags, type Numbers, query, type Row, type Texts } from '../db/typed-row.ts'
import { jobRow } from './claim-fence.ts'
import { note } from './events.ts'
import { lockPipeline } from './pipelines.ts'
import { mayBegin, openAgain, reportTransitions, setJob } from './transitions.ts'

/** Opens a failed unit's job again, with all its attempts; a report that it bought stays its own. False: it had not failed. */
export const retryByPerson = (db: Db, unitId: number, by: string): Promise<boolean> =>
  db.transaction().execute(async (trx) => {
    const found = await lockUnit(trx, unitId)
    if (found === null || found.job?.state !== 'failed') return false
    const jobId = await reopen(trx, found.job.job_id, {})
    const message = `Unit ${unitId} was opened again by a person (${by}).`
    await note(trx, { kind: 'retried', pipelineId: found.unit.pipeline_id, unitId, jobId, message })
    return true
  })

/** @param by who asked for it, for the event */
export const noteCancel = (db: Db, runId: number, by: string): Promise<void> =>
  note(db, { kind: 'cancelled', runId, message: `Run ${runId} was cancelled by a person (${by}).` })

type UnitRow = Row<'etl.units', 'pipeline_id' | 'window_from' | 'slice_id' | 'job_id' | 'held_answer_id'>

/** For unit `u`: an open job that loads an answer which a person released. The unit may point at a newer job. */
const loadingOf = sql<
  string | null
>`(select min(r.job_id) from etl.jobs r where r.pipeline_id = u.pipeline_id and r.state = 'open' and r.ask_number is not null
  and r.reason = 'release' and r.window_from = u.window_from and r.slice_ids = array[u.slice_id])`

/** The unit and the newest job that asks for it, locked in the order of all locks: pipeline, job, unit. */
const lockUnit = async (trx: Db, unitId: number) => {
  const units = trx
    .selectFrom('etl.units as u')
    .select(['pipeline_id', 'window_from', 'slice_id', 'job_id', 'held_answer_id', loadingOf.as('loading')])
    .where('unit_id', '=', String(unitId))
  const before = await units.executeTakeFirst()
  if (before === undefined) return null
  await lockPipeline(trx, before.pipeline_id)
  // No job has the number 0.
  const jobs = jobRow(trx, { jobId: before.job_id ?? 0 }).select(['job_id', 'state', 'guard', 'released', 'answer_id'])
  const job = await jobs.forUpdate().executeTakeFirst()
  const unit = await units.forUpdate().executeTakeFirst()
  return unit === undefined ? null : { unit, job: job?.job_id === unit.job_id ? job : null }
}

/** A report that ended without an answer is polled again: what the service says of it now decides, not what it once said. */
const reopen = async (trx: Db, jobId: string, set: { readonly released?: boolean }): Promise<number> => {
  await setJob(trx, jobId, { ...openAgain, guard: 'usual', next_poll_at: null, deadline_at: null, ...set })
  await trx
    .updateTable('etl.jobs')
    .set({ report_state: 'submitted', completed_at: null })
    .where((eb) => eb.and({ job_id: jobId, answer_id: null }))
    .where('report_id', 'is not', null)
    .where(mayBegin(reportTransitions['asked about again']))
    .execute()
  return Number(jobId)
}

/** The outcome of releasing a unit. */
export type ReleasedUnit =
  /** Its job is open now; `joined`: it was released before, and is not settled yet. */
  | { readonly kind: 'released' | 'joined'; readonly jobId: number }
  /** Nothing was changed. `needs approval`: the unit would be bought beyond the usual, which has a command of its own. */
  | { readonly kind: 'not held' | 'needs approval' }

/** @param by who did it, for the event: `status page`, `command line` */
const releaseUnit = async (trx: Db, unitId: number, by: string): Promise<ReleasedUnit> => {
  const found = await lockUnit(trx, unitId)
  if (found === null) return { kind: 'not held' }
  const { unit, job } = found
  const needsApproval = job?.state === 'held' && job.guard === 'needs approval'
  const isBare = unit.held_answer_id === null && job?.answer_id == null
  if (isBare && unit.loading !== null) return { kind: 'joined', jobId: Number(unit.loading) }
  const isAskedAgain = job?.state === 'held' && !needsApproval && (isBare || job.answer_id !== null)
  const jobId = isAskedAgain ? await reopen(trx, job.job_id, { released: true }) : await releaseAnswer(trx, unit)
  if (jobId === null && needsApproval) return { kind: 'needs approval' }
  if (jobId === null)
    return job?.state === 'open' && job.released ? { kind: 'joined', jobId: Number(job.job_id) } : { kind: 'not held' }
  const message = `Unit ${unitId} was released by a person (${by}).`
  await note(trx, { kind: 'released', pipelineId: unit.pipeline_id, unitId, jobId, message })
  return { kind: 'released', jobId }
}

/** The same in a transaction of its own. False: it is not held, or needs approval. */
export const releaseByPerson = async (db: Db, unitId: number, by: string): Promise<boolean> =>
  (await db.transaction().execute((trx) => releaseUnit(trx, unitId, by))).kind === 'released'

/** The same, and the run waits for the job, also where it was released before. One transaction, so that no other process settles the job in between. */
export const releaseFor = (db: Db, runId: number, unitId: number, by: string): Promise<ReleasedUnit> =>
  db.transaction().execute(async (trx) => {
    const release = await releaseUnit(trx, unitId, by)
    if ('jobId' in release)
      await query(trx)`
      insert into etl.run_jobs (run_id, job_id, priority, units) select ${runId}::bigint, job_id, 0, cells from etl.jobs
      where job_id = ${release.jobId}::bigint on conflict (run_id, job_id) do nothing`
    return release
  })

/** A unit that may be released. `asksService`: no answer is at hand, and the service is asked for it. */
export type Releasable = Numbers<'unitId'> & Texts<'pipeline'> & Flags<'asksService'>

/** Those of the units that are held, and those that were released before and are not settled yet. */
export const releasable = (db: Db, unitIds: readonly number[]): Promise<Releasable[]> =>
  query<Releasable>(db)`
    select u.unit_id::float8 as "unitId", p.pipeline, u.held_answer_id is null and ${loadingOf} is null and coalesce(j.state in ('held', 'open') and j.answer_id is null and j.guard = 'usual', false) as "asksService"
    from etl.units u join etl.pipelines p using (pipeline_id) left join etl.jobs j on j.job_id = u.job_id
    where u.unit_id = any(${unitIds.map(String)}::bigint[])
      and (u.held_answer_id is not null or j.state = 'held' or j.state = 'open' and j.released)`

/** Those of the numbers that belong to no unit. */
export const unknownUnits = async (db: Db, unitIds: readonly number[]): Promise<number[]> => {
  const rows = await db
    .selectFrom('etl.units')
    .select('unit_id')
    .where((eb) => eb('unit_id', '=', eb.fn.any(eb.val(unitIds.map(String)))))
    .execute()
  const known = new Set(rows.map((row) => Number(row.unit_id)))
  return unitIds.filter((unitId) => !known.has(unitId))
}

/** Makes a job that loads the held answer into this unit alone; null: none is held. A newer job that asks for the unit stays. Rows name a run: the one that asked, else the newest. */
const releaseAnswer = async (
  trx: Db,
  { pipeline_id, window_from, slice_id, held_answer_id }: UnitRow,
): Promise<number | null> => {
  if (held_answer_id === null) return null
  const [row] = await query<Numbers<'jobId'>>(trx)`
    with made as (
      insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, forced, released, run_id, ask_number, answer_id, account)
      select p.pipeline_id, coalesce(j.kind, 'walk'), 'release', ${window_from}::date, etl.window_end(${window_from}::date, p.window_every),
        array[${slice_id}::integer], 1, true, true, coalesce(j.run_id, (select max(run_id) from etl.runs)), a.ask_number, a.answer_id, p.account
      from etl.answers a join etl.pipelines p on p.pipeline_id = ${pipeline_id} left join etl.jobs j on j.job_id = a.job_id
      where a.answer_id = ${held_answer_id}::bigint returning job_id
    )
    update etl.units u set held_answer_id = null, held_code = null, job_id = coalesce(u.job_id, made.job_id) from made
    where u.pipeline_id = ${pipeline_id} and u.window_from = ${window_from}::date and u.slice_id = ${slice_id} returning made.job_id::float8 as "jobId"`
  assert.ok(row !== undefined, `answer ${held_answer_id} is on record`)
  return row.jobId
}
