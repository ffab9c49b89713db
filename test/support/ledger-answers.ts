// Answers in a real ledger for tests, and what its rows say of jobs, units and runs that wait.
import { type Insertable, type Selectable, sql } from 'kysely'
import type { Window } from '../../src/core/types.ts'
import type { JobsTable, RunJobsTable, UnitsTable } from '../../src/db/tables.ts'
import { type Where, at, type PipelineKit, nextAskNumber } from './ledger.ts'

export interface AnswerChoice {
  readonly askNumber?: number
  readonly sliceIds?: readonly number[]
  readonly window?: Window
  readonly landing?: string
  readonly sha256?: string
  readonly lastUpdated?: string | null
  readonly sourceCount?: number | null
}

/** An answer on record for the job's box, which points to it from here on. */
export const newAnswer = async (where: Where, jobId: number, choice: AnswerChoice = {}): Promise<number> => {
  const job = await jobRow(where, jobId)
  const askNumber = choice.askNumber ?? job.ask_number ?? (await nextAskNumber(where))
  const sliceIds = [...(choice.sliceIds ?? job.slice_ids)]
  const [first = 0, ...others] = sliceIds
  const row = await at(where)
    .insertInto('etl.answer_rows')
    .values({
      pipeline_id: job.pipeline_id,
      job_id: jobId,
      answer_id: askNumber,
      asked_at: '2026-02-01T00:00:00Z',
      landing: choice.landing ?? `landing/${jobId}`,
      sha256: sql`decode(${choice.sha256 ?? 'ab'}, 'hex')`,
      bytes: 10,
      window_from: choice.window?.from ?? job.window_from,
      window_to: choice.window?.to ?? job.window_to,
      slice_id: others.length === 0 ? first : null,
      slice_ids: others.length === 0 ? null : sliceIds,
      shape_id: sql`etl.shape_of('asks', '{}', null, null, null, null, null, null)`,
      source_last_updated: choice.lastUpdated ?? null,
      source_count: choice.sourceCount ?? null,
      verdict: null,
      verdict_message: null,
    })
    .returning('answer_id')
    .executeTakeFirstOrThrow()
  const answerId = Number(row.answer_id)
  await at(where)
    .updateTable('etl.jobs')
    .set({ answer_id: answerId, ask_number: askNumber })
    .where('job_id', '=', String(jobId))
    .execute()
  return answerId
}

/** As if the job's answer had been loaded into all its units. */
export const loadedAs = async (where: Where, jobId: number, answerId: number, askNumber: number): Promise<void> => {
  await at(where)
    .updateTable('etl.units')
    .set({ answer_id: answerId, ask_number: askNumber, job_id: null })
    .where('job_id', '=', String(jobId))
    .execute()
  await at(where)
    .updateTable('etl.jobs')
    .set({ state: 'done', holder: null, answer_id: answerId, ask_number: askNumber })
    .where('job_id', '=', String(jobId))
    .execute()
  await at(where).updateTable('etl.run_jobs').set({ outcome: 'loaded' }).where('job_id', '=', String(jobId)).execute()
}

export const jobRow = (where: Where, jobId: number): Promise<Selectable<JobsTable>> =>
  at(where).selectFrom('etl.jobs').selectAll().where('job_id', '=', String(jobId)).executeTakeFirstOrThrow()

export const setJob = async (where: Where, jobId: number, set: Partial<Insertable<JobsTable>>): Promise<void> => {
  await at(where).updateTable('etl.jobs').set(set).where('job_id', '=', String(jobId)).execute()
}

/** In the order of the primary key. */
export const unitRows = (where: Where, { pipelineId }: PipelineKit): Promise<Selectable<UnitsTable>[]> =>
  at(where)
    .selectFrom('etl.units')
    .selectAll()
    .where('pipeline_id', '=', pipelineId)
    .orderBy('window_from')
    .orderBy('slice_id')
    .execute()

/** What became of the job for the run; undefined: it does not stand in its list. */
export const outcomeOf = async (
  where: Where,
  runId: number,
  jobId: number,
): Promise<Selectable<RunJobsTable>['outcome'] | undefined> => {
  const row = await at(where)
    .selectFrom('etl.run_jobs')
    .select('outcome')
    .where('run_id', '=', String(runId))
    .where('job_id', '=', String(jobId))
    .executeTakeFirst()
  return row?.outcome
}
