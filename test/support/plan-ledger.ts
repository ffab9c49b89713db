// What planning left in a ledger, cell by cell, and jobs as if they had been worked on.
import { sql } from 'kysely'
import type { Definition } from '../../src/core/types.ts'
import type { JobsTable } from '../../src/db/tables.ts'
import type { Insertable } from 'kysely'
import { nextAskNumber } from './ledger.ts'
import { loadedAs, newAnswer, setJob } from './ledger-answers.ts'
import type { Planning } from './planning.ts'
import type { TestDatabase } from './postgres.ts'

export interface CellRow {
  /** `2025-01 a.com us`. */
  readonly cell: string
  readonly wanted: boolean
  readonly jobId: number | null
  readonly jobState: string | null
  readonly askNumber: string | null
  readonly answerId: number | null
  readonly held: boolean
}

export const pipelineIdOf = async (db: TestDatabase, { pipeline, version }: Definition): Promise<number> => {
  const row = await db.database.kysely
    .selectFrom('etl.pipelines')
    .select('pipeline_id')
    .where('pipeline', '=', pipeline)
    .where('version', '=', version)
    .executeTakeFirstOrThrow()
  return row.pipeline_id
}

/** Units there are, in order. */
export const cellsOf = async (db: TestDatabase, definition: Definition): Promise<CellRow[]> => {
  const { rows } = await db.database.pool.query(
    `select to_char(u.window_from, 'YYYY-MM') || ' ' || array_to_string(s."values", ' ') as cell, s.wanted_until is null as wanted,
      u.job_id::int as "jobId", j.state as "jobState", j.ask_number as "askNumber", u.answer_id::int as "answerId", u.held_answer_id is not null as held
    from etl.units u join etl.slices s using (slice_id) left join etl.jobs j on j.job_id = u.job_id
    where u.pipeline_id = $1 order by 1`,
    [await pipelineIdOf(db, definition)],
  )
  return rows
}

export interface JobBox {
  readonly jobId: number
  readonly state: string
  readonly reason: string
  readonly forced: boolean
  readonly askNumber: string | null
  readonly answerId: number | null
  readonly former: number | null
  readonly cells: readonly string[]
  readonly waiting: readonly number[]
}

/** Every job with the cells of its box and the runs that wait for it. */
export const jobsOf = async (db: TestDatabase, definition: Definition): Promise<JobBox[]> => {
  const { rows } = await db.database.pool.query(
    `select j.job_id::int as "jobId", j.state, j.reason, j.forced, j.ask_number as "askNumber", j.answer_id::int as "answerId",
      j.former_job_id::int as former, j.cells as count,
      array(select to_char(w, 'YYYY-MM') || ' ' || array_to_string(s."values", ' ')
        from generate_series(j.window_from, j.window_to - 1, interval '1 month') w, etl.slices s where s.slice_id = any(j.slice_ids) order by 1) as cells,
      array(select r.run_id::int from etl.run_jobs r where r.job_id = j.job_id and r.outcome is null order by 1) as waiting
    from etl.jobs j where j.pipeline_id = $1 order by j.job_id`,
    [await pipelineIdOf(db, definition)],
  )
  for (const row of rows) if (row.count !== row.cells.length) throw new Error(`job ${row.jobId} counts ${row.count} cells`)
  return rows
}

/** As if its report had been submitted. */
export const submitted = async (db: TestDatabase, jobId: number, set: Partial<Insertable<JobsTable>> = {}): Promise<void> =>
  setJob(db, jobId, {
    ask_number: await nextAskNumber(db),
    asked_at: new Date().toISOString(),
    report_state: 'submitted',
    report_id: `r${jobId}`,
    ...set,
  })

/** As if its answer had come, at `askedAt`, and been loaded. */
export const loaded = async (
  db: TestDatabase,
  jobId: number,
  { askedAt = new Date().toISOString(), lastUpdated = null as string | null, count = null as number | null } = {},
): Promise<number> => {
  const askNumber = await nextAskNumber(db)
  const answerId = await newAnswer(db, jobId, { askNumber, lastUpdated, sourceCount: count })
  await sql`update etl.answer_rows set asked_at = ${askedAt} where answer_id = ${answerId}`.execute(db.database.kysely)
  await sql`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, units, rows_read, rows_inserted, rows_updated, rows_ended,
      rows_unchanged, rows_quarantined, rows_duplicates, loaded_at)
    select ${answerId}, u.pipeline_id, u.window_from, ${jobId}, 'loaded', count(*), count(*), count(*), 0, 0, 0, 0, 0, ${askedAt}
    from etl.units u where u.job_id = ${jobId} group by 2, 3`.execute(db.database.kysely)
  await loadedAs(db, jobId, answerId, askNumber)
  return answerId
}

/** Every open job is loaded. */
export const allLoaded = async (
  db: TestDatabase,
  definition: Definition,
  how: Parameters<typeof loaded>[2] = {},
): Promise<void> => {
  for (const { jobId, state } of await jobsOf(db, definition)) if (state === 'open') await loaded(db, jobId, how)
}

/** The run's process died and somebody noticed. */
export const died = async (db: TestDatabase, runId: number): Promise<void> => {
  await sql`update etl.runs set state = 'interrupted' where run_id = ${runId}`.execute(db.database.kysely)
}

export const closedWindows = async (db: TestDatabase, definition: Definition): Promise<Record<string, number>> => {
  const rows = await db.database.kysely
    .selectFrom('etl.windows')
    .select(['window_from', 'closed_generation'])
    .where('pipeline_id', '=', await pipelineIdOf(db, definition))
    .where('closed_generation', 'is not', null)
    .orderBy('window_from')
    .execute()
  return Object.fromEntries(rows.map((row) => [row.window_from.slice(0, 7), row.closed_generation ?? 0]))
}

/** `reason: cells` of the jobs that somebody waits for. */
export const asked = async (db: TestDatabase, { definition }: Planning): Promise<string[]> =>
  (await jobsOf(db, definition)).filter(({ waiting }) => waiting.length > 0).map(({ reason, cells }) => `${reason}: ${cells}`)

/** Id of the one job there is. */
export const onlyJob = async (db: TestDatabase, { definition }: Planning): Promise<number> =>
  (await jobsOf(db, definition))[0]?.jobId ?? 0
