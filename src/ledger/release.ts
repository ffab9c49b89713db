// Held units that a person lets go: the held answer loads as it is, or the held job is worked on again; the run that did it waits for them.
import { sql } from 'kysely'
import { type Flags, query, type Row } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { lockUnit, reopen, type UnitRow } from './person-actions.ts'
import { note } from './events.ts'

/** What became of the wish to release a unit. */
export type Release =
  /** Its job is open now; `joined`: somebody released it before, and it is not settled yet. */
  | { readonly kind: 'released' | 'joined'; readonly jobId: number }
  /** Nothing was changed. What would be bought for more than usual has a command of its own. */
  | { readonly kind: 'not held' | 'needs approval' }

/** @param by who did it, for the event: `status page`, `command line` */
export const releaseUnit = async (trx: Db, unitId: number, by: string): Promise<Release> => {
  const found = await lockUnit(trx, unitId)
  if (found === null) return { kind: 'not held' }
  const { unit, job } = found
  const needsApproval = job?.state === 'held' && job.guard === 'needs approval'
  const jobId =
    job?.state === 'held' && !needsApproval ? await reopen(trx, job.job_id, { released: true }) : await releaseAnswer(trx, unit)
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

/** The same, and the run waits for what was released, also by others. One transaction, so that no other process settles it in between. */
export const releaseFor = (db: Db, runId: number, unitId: number, by: string): Promise<Release> =>
  db.transaction().execute(async (trx) => {
    const release = await releaseUnit(trx, unitId, by)
    if (release.kind !== 'released' && release.kind !== 'joined') return release
    await query(trx)`
      insert into etl.run_jobs (run_id, job_id, priority, units) select ${runId}::bigint, job_id, 0, cells from etl.jobs
      where job_id = ${release.jobId}::bigint on conflict (run_id, job_id) do nothing`
    return release
  })

/** A unit that may be released. */
export interface Releasable {
  readonly unitId: number
  readonly pipeline: string
  /** No answer is at hand: the service is asked for it. */
  readonly asksService: boolean
}

/** Those of the units that are held, and those that were released before and are not settled yet. */
export const releasable = async (db: Db, unitIds: readonly number[]): Promise<Releasable[]> => {
  const rows = await query<Row<'etl.units', 'unit_id'> & Row<'etl.pipelines', 'pipeline'> & Flags<'asks'>>(db)`
    select u.unit_id, p.pipeline, coalesce(j.state in ('held', 'open') and j.answer_id is null and j.guard = 'usual', false) as asks
    from etl.units u join etl.pipelines p using (pipeline_id) left join etl.jobs j on j.job_id = u.job_id
    where u.unit_id = any(${unitIds.map(String)}::bigint[])
      and (u.held_answer_id is not null or j.state = 'held' or j.state = 'open' and j.released)`
  return rows.map(({ unit_id, pipeline, asks }) => ({ unitId: Number(unit_id), pipeline, asksService: asks }))
}

/** Those of the numbers that are no unit's. */
export const unknownUnits = async (db: Db, unitIds: readonly number[]): Promise<number[]> => {
  const known = await db
    .selectFrom('etl.units')
    .select('unit_id')
    .where((eb) => eb('unit_id', '=', eb.fn.any(eb.val(unitIds.map(String)))))
    .execute()
  const numbers = new Set(known.map((row) => Number(row.unit_id)))
  return unitIds.filter((unitId) => !numbers.has(unitId))
}

/** A job that loads the held answer into this unit alone; null: nothing is held back. A newer job that asks for the unit goes on asking. */
const releaseAnswer = async (trx: Db, unit: UnitRow): Promise<number | null> => {
  if (unit.held_answer_id === null) return null
  const { job_id } = await trx
    .insertInto('etl.jobs')
    .columns([
      'pipeline_id',
      'kind',
      'reason',
      'window_from',
      'window_to',
      'slice_ids',
      'cells',
      'forced',
      'released',
      'run_id',
      'ask_number',
      'answer_id',
      'account',
    ])
    .expression((eb) =>
      eb
        .selectFrom('etl.answers as a')
        .innerJoin('etl.pipelines as p', (join) => join.on('p.pipeline_id', '=', unit.pipeline_id))
        .leftJoin('etl.jobs as j', 'j.job_id', 'a.job_id')
        .where('a.answer_id', '=', unit.held_answer_id)
        .select((at) => [
          'p.pipeline_id',
          at.fn.coalesce('j.kind', at.val('walk' as const)).as('kind'),
          at.val('release').as('reason'),
          sql<string>`${unit.window_from}::date`.as('window_from'),
          sql<string>`etl.window_end(${unit.window_from}::date, p.window_every)`.as('window_to'),
          sql<number[]>`array[${unit.slice_id}::integer]`.as('slice_ids'),
          at.lit(1).as('cells'),
          at.lit(true).as('forced'),
          at.lit(true).as('released'),
          // Rows name a run: the one that asked, else the newest.
          at.fn
            .coalesce(
              'j.run_id',
              at.selectFrom('etl.runs').select((r) => r.fn.max('run_id').as('run_id')),
            )
            .as('run_id'),
          'a.ask_number',
          'a.answer_id',
          'p.account',
        ]),
    )
    .returning('job_id')
    .executeTakeFirstOrThrow()
  await trx
    .updateTable('etl.units')
    .set((eb) => ({ held_answer_id: null, held_code: null, job_id: eb.fn.coalesce('job_id', eb.val(job_id)) }))
    .where('pipeline_id', '=', unit.pipeline_id)
    .where('window_from', '=', unit.window_from)
    .where('slice_id', '=', unit.slice_id)
    .execute()
  return Number(job_id)
}
