// Rows of a real ledger for tests: a process, a run, a pipeline with its slices, jobs with their units and who waits for them.
import { type Insertable, sql } from 'kysely'
import { addWindows, windowsBetween } from '../../src/core/window.ts'
import type { Window, WindowSize } from '../../src/core/types.ts'
import type { Db, JobsTable, PipelinesTable, RunJobsTable } from '../../src/db/tables.ts'
import { type ClaimedJob, claimJobs } from '../../src/ledger/claim.ts'
import type { OwnProcess } from '../../src/ledger/processes.ts'
import type { TestDatabase } from './postgres.ts'

/** A test's database, or a connection to it. */
export type Where = TestDatabase | Db

export const at = (where: Where): Db => ('database' in where ? where.database.kysely : where)

let count = 0

const next = (word: string): string => {
  count += 1
  return `${word}${count}`
}

export type ProcessKit = OwnProcess

interface ProcessChoice {
  readonly host?: string
  readonly boot?: string
  readonly pid?: number
  readonly begun?: string
  /** Until its lease is over; negative: it is. Default an hour. */
  readonly leaseMs?: number
}

/** A process with a living lease, by default on a host of its own: nobody can look whether it lives. */
export const newProcess = async (where: Where, choice: ProcessChoice = {}): Promise<ProcessKit> => {
  const row = await at(where)
    .insertInto('etl.processes')
    .values({
      name: next('process'),
      host: choice.host ?? next('host'),
      boot: choice.boot ?? '',
      system_process_id: choice.pid ?? 1,
      begun: choice.begun ?? '',
      lease_until: sql<string>`clock_timestamp() + ${choice.leaseMs ?? 3_600_000} * interval '1 millisecond'`,
    })
    .returning(['process_id', 'name'])
    .executeTakeFirstOrThrow()
  return { processId: row.process_id, name: row.name, seen: { lease: null } }
}

/** @param processId whose run it is; left out: a new process's */
export const newRun = async (where: Where, processId?: number, command = 'run'): Promise<number> => {
  const row = await at(where)
    .insertInto('etl.runs')
    .values({ command, arguments: '{}', process_id: processId ?? (await newProcess(where)).processId })
    .returning('run_id')
    .executeTakeFirstOrThrow()
  return Number(row.run_id)
}

export interface PipelineKit {
  readonly pipelineId: number
  readonly pipeline: string
  readonly dimensions: readonly string[]
}

/** `traffic1`, `traffic2` ...: by month, for a domain, unless asked otherwise. */
export const newPipeline = async (where: Where, choice: Partial<Insertable<PipelinesTable>> = {}): Promise<PipelineKit> => {
  const row = await at(where)
    .insertInto('etl.pipelines')
    .values({
      pipeline: next('traffic'),
      version: 1,
      parameters: '{}',
      source: 'web-analytics.traffic',
      account: 'default',
      window_every: 'month',
      dimensions: ['domain'],
      generation: 1,
      definition: '{}',
      ...choice,
    })
    .returning(['pipeline_id', 'pipeline', 'dimensions'])
    .executeTakeFirstOrThrow()
  return { pipelineId: row.pipeline_id, pipeline: row.pipeline, dimensions: row.dimensions }
}

/** Slices in the order given, one value of each dimension; text stands for a slice of one value. */
export const newSlices = async (
  where: Where,
  { pipelineId }: PipelineKit,
  values: readonly (string | readonly string[])[],
): Promise<number[]> => {
  const sliceIds: number[] = []
  for (const value of values) {
    const row = await at(where)
      .insertInto('etl.slices')
      .values({ pipeline_id: pipelineId, values: typeof value === 'string' ? [value] : [...value], wanted_since: 1 })
      .returning('slice_id')
      .executeTakeFirstOrThrow()
    sliceIds.push(row.slice_id)
  }
  return sliceIds
}

/** `months('2026-01', 2)`: January and February of 2026. */
export const months = (first: string, number = 1): Window => ({
  from: `${first}-01`,
  to: addWindows(`${first}-01`, 'month', number),
})

/** Takes jobs as `own` would that has the definitions of these pipelines. @param runId null: of every run in turn */
export const take = (
  where: Where,
  own: ProcessKit,
  runId: number | null,
  pipelines: readonly PipelineKit[],
  count = 100,
): Promise<ClaimedJob[]> => {
  const load = pipelines.map(({ pipelineId }) => pipelineId)
  return claimJobs(at(where), { process: own, runId, claimable: { load, fetch: load, same: [] }, count })
}

/** Takes the next job of the run's list, which must be this one where it is named. */
export const takeOne = async (
  where: Where,
  own: ProcessKit,
  runId: number | null,
  pipeline: PipelineKit,
  jobId?: number,
): Promise<ClaimedJob> => {
  const [claim] = await take(where, own, runId, [pipeline], 1)
  if (claim === undefined) throw new Error('no job to take')
  if (jobId !== undefined && claim.jobId !== jobId) throw new Error(`took job ${claim.jobId}, not ${jobId}`)
  return claim
}

interface Waiting {
  readonly runId: number
  /** Default 1. */
  readonly priority?: number
}

export interface JobChoice {
  /** Default: a new slice. */
  readonly sliceIds?: readonly number[]
  /** Default January 2026. */
  readonly window?: Window
  /** What a unit has of it. Default: a month. */
  readonly every?: WindowSize
  /** Runs that wait for all of it. */
  readonly runs?: readonly (number | Waiting)[]
  /** Any column; a job is a walk of one unit unless it has more, and nothing of it was asked for. */
  readonly set?: Partial<Insertable<JobsTable>>
}

/** A job, its units (made, or pointed to it) and who waits for it. */
export const newJob = async (where: Where, pipeline: PipelineKit, choice: JobChoice = {}): Promise<number> => {
  const window = choice.window ?? months('2026-01')
  const sliceIds = choice.sliceIds ?? (await newSlices(where, pipeline, [pipeline.dimensions.map(() => next('value'))]))
  const windows = windowsBetween(window.from, window.to, choice.every ?? 'month')
  const cells = sliceIds.length * windows.length
  const row = await at(where)
    .insertInto('etl.jobs')
    .values({
      pipeline_id: pipeline.pipelineId,
      kind: cells > 1 ? 'report' : 'walk',
      reason: 'new',
      window_from: window.from,
      window_to: window.to,
      slice_ids: [...sliceIds],
      cells,
      account: 'default',
      ...choice.set,
    })
    .returning('job_id')
    .executeTakeFirstOrThrow()
  const jobId = Number(row.job_id)
  const unit = { pipeline_id: pipeline.pipelineId, job_id: jobId, held_code: null }
  await at(where)
    .insertInto('etl.units')
    .values(windows.flatMap(({ from }) => sliceIds.map((slice) => ({ ...unit, window_from: from, slice_id: slice }))))
    .onConflict((on) => on.columns(['pipeline_id', 'window_from', 'slice_id']).doUpdateSet({ job_id: jobId }))
    .execute()
  for (const run of choice.runs ?? []) await waitFor(where, run, jobId, cells)
  return jobId
}

/** The run waits for the job, for all of it unless a part is named. */
export const waitFor = async (
  where: Where,
  run: number | Waiting,
  jobId: number,
  units = 1,
  part: Pick<RunJobsTable, 'slice_ids' | 'window_from' | 'window_to'> = { slice_ids: null, window_from: null, window_to: null },
): Promise<void> => {
  const { runId, priority = 1 } = typeof run === 'number' ? { runId: run } : run
  await at(where)
    .insertInto('etl.run_jobs')
    .values({ run_id: runId, job_id: jobId, priority, units, outcome: null, ...part })
    .execute()
}

/** As many planned walks as asked for, all waited for by the run with priorities 1, 2 ... */
export const newWalks = (where: Where, pipeline: PipelineKit, runId: number, number: number): Promise<number[]> =>
  Array.fromAsync({ length: number }, (_, index) => newJob(where, pipeline, { runs: [{ runId, priority: index + 1 }] }))

/** What `set` may be for a job whose report was bought. @param id of the report */
export const bought = (id: string, askNumber: number): Partial<Insertable<JobsTable>> => ({
  kind: 'report',
  ask_number: askNumber,
  asked_at: '2026-02-01T00:00:00Z',
  report_state: 'submitted',
  report_id: id,
  request_hash: 'h',
  endpoint: '/batch',
})

/** A number above all drawn so far. */
export const nextAskNumber = async (where: Where): Promise<number> => {
  const { rows } = await sql<{ ask: string }>`select nextval('etl.ask_numbers') as ask`.execute(at(where))
  return Number(rows[0]?.ask)
}
