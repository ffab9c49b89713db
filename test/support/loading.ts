// Jobs of a real ledger with answers written out by hand, from their claim to what loading them leaves.
import { createHash } from 'node:crypto'
import { type Insertable, sql } from 'kysely'
import { metricsOf } from '../../src/core/request-digest.ts'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Mart } from '../../src/core/mart.ts'
import type { Box, Definition, Payload } from '../../src/core/types.ts'
import { windowsBetween } from '../../src/core/window.ts'
import type { JobsTable } from '../../src/db/tables.ts'
import { answerBox, insertAnswer } from '../../src/ledger/answers.ts'
import { type ClaimedJob, claimJobs } from '../../src/ledger/claim.ts'
import { keyParameters } from '../../src/ledger/pipelines.ts'
import type { RequestRecord } from '../../src/ledger/requests.ts'
import type { JobWork, LoadResult } from '../../src/run/job-work.ts'
import { loadAnswer } from '../../src/run/load-answer.ts'
import { createProgress } from '../../src/run/progress.ts'
import type { Runtime } from '../../src/run/runtime.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'
import { combinations, knownMarts, shippedDefinition } from './definitions.ts'
import { newPipeline, newProcess, newRun, nextAskNumber, type PipelineKit, type ProcessKit, waitFor } from './ledger.ts'
import type { TestDatabase } from './postgres.ts'

export interface LoadKit {
  readonly db: TestDatabase
  readonly definition: Definition
  readonly pipeline: PipelineKit
  readonly process: ProcessKit
  readonly runtime: Runtime
  readonly runId: number
  /** CSV by landing. */
  readonly bodies: Map<string, string>
}

const unused = (): never => {
  throw new Error('not part of a load')
}

export const openLoading = async (db: TestDatabase, definition: Definition, marts: readonly Mart[] = []): Promise<LoadKit> => {
  const process = await newProcess(db)
  const dimensions = definition.dimensions.map(({ name }) => name)
  const { pipeline, version } = definition
  const runtime: Runtime = {
    hasAllPipelines: true,
    settings: { raw: {} } as unknown as Runtime['settings'],
    database: db.database,
    warehouse: { id: 'w', epoch: 1 } as unknown as Runtime['warehouse'],
    begin: async () => undefined,
    hearClock: async () => undefined,
    ownLine: () => db.database.kysely,
    process,
    landing: {} as unknown as Runtime['landing'],
    sources: new Map(),
    definitions: [definition],
    marts: knownMarts(marts),
    attributes: async () => null,
    routes: null,
    releaseApi: () => null,
    hooks: null,
    service: unused,
    allowance: unused,
    claimable: unused,
    progress: createProgress(),
    log: silentLog,
    clock: systemClock,
    consent: { resubmitUncertain: false, approvedBy: null },
  }
  return {
    db,
    definition,
    process,
    runtime,
    pipeline: await newPipeline(db, {
      pipeline,
      version,
      dimensions,
      source: definition.source,
      parameters: JSON.stringify({ kit: process.processId, ...keyParameters(definition) }),
    }),
    runId: await newRun(db, process.processId),
    bodies: new Map(),
  }
}

/** In the order of the dimensions; made where they are not there yet. */
const slicesOf = async ({ db, pipeline }: LoadKit, box: Box): Promise<number[]> => {
  const values = combinations(pipeline.dimensions.map((name) => box.slice[name] ?? []))
  const wanted = sql`select array(select jsonb_array_elements_text(v)) as "values", n
    from jsonb_array_elements(${JSON.stringify(values)}::jsonb) with ordinality as w (v, n)`
  await sql`insert into etl.slices (pipeline_id, "values", wanted_since) select ${pipeline.pipelineId}, "values", 1 from (${wanted}) w
    on conflict do nothing`.execute(db.database.kysely)
  const { rows } = await sql<{ slice_id: number }>`select s.slice_id from (${wanted}) w
    join etl.slices s on s.pipeline_id = ${pipeline.pipelineId} and s."values" = w."values" order by n`.execute(
    db.database.kysely,
  )
  return rows.map((row) => row.slice_id)
}

export interface WorkChoice {
  /** Default: a report, asked for with a new number. */
  readonly set?: Partial<Insertable<JobsTable>>
}

/** A claimed job for the box, as it is when its answer is about to be loaded; the run waits for it. */
export const workOn = async (kit: LoadKit, box: Box, { set = {} }: WorkChoice = {}): Promise<JobWork> => {
  const { db, pipeline, runId, definition } = kit
  const { kysely } = db.database
  const sliceIds = await slicesOf(kit, box)
  const windows = windowsBetween(box.window.from, box.window.to, definition.window.every).map(({ from }) => from)
  const cells = sliceIds.length * windows.length
  const { job_id } = await kysely
    .insertInto('etl.jobs')
    .values({
      pipeline_id: pipeline.pipelineId,
      kind: 'report',
      reason: 'new',
      window_from: box.window.from,
      window_to: box.window.to,
      slice_ids: sliceIds,
      cells,
      account: 'default',
      run_id: runId,
      ask_number: set.answer_id === undefined ? await nextAskNumber(db) : null,
      asked_at: '2026-02-01T00:00:00Z',
      ...set,
    })
    .returning('job_id')
    .executeTakeFirstOrThrow()
  await sql`insert into etl.units (pipeline_id, window_from, slice_id, job_id)
    select ${pipeline.pipelineId}, w, s, ${job_id}::bigint from unnest(${windows}::date[]) w, unnest(${sliceIds}::integer[]) s
    on conflict (pipeline_id, window_from, slice_id) do update set job_id = excluded.job_id`.execute(kysely)
  await waitFor(db, runId, Number(job_id), cells)
  const work = await claimed(kit, Number(job_id))
  // Its answer comes with the load, and stands for one that a person has seen.
  return { ...work, claim: { ...work.claim, released: set.released === true } }
}

/** What a process that takes the job holds. */
export const claimed = async (kit: LoadKit, jobId: number): Promise<JobWork> => {
  const claims = await claimJobs(kit.db.database.kysely, {
    process: kit.process,
    runId: kit.runId,
    claimable: { load: [kit.pipeline.pipelineId], fetch: [], same: [] },
    count: 1,
  })
  const claim = claims.find((one) => one.jobId === jobId)
  if (claim === undefined) throw new Error(`job ${jobId} cannot be claimed`)
  return workOf(kit, claim)
}

const workOf = async (kit: LoadKit, claim: ClaimedJob): Promise<JobWork> => ({
  runtime: kit.runtime,
  claim,
  definition: kit.definition,
  source: (await loadSourceFolders()).sources.get(kit.definition.source) ?? unused(),
  hasFullDefinition: true,
  requests: [requestOf(claim)],
  unnamed: new Set(),
  signal: new AbortController().signal,
})

const requestOf = ({ jobId, runId, pipelineId, askNumber }: ClaimedJob): RequestRecord => ({
  jobId,
  runId,
  pipelineId,
  askNumber,
  account: 'default',
  method: 'GET',
  endpoint: '/k',
  parameters: { a: 1 },
  part: 1,
  attempt: 1,
  status: 200,
  errorCode: null,
  bytes: 9,
  sha256: 'abc',
  credits: null,
  isUncertain: false,
  isOpen: false,
  paidFor: null,
  saidIn: null,
  subject: null,
  startedAt: '2026-01-01T00:00:00Z',
  milliseconds: 1.5,
})

export interface AnswerChoice {
  /** CSV of the answer; left out: what the job's answer is already. */
  readonly body?: string
  readonly expectedRows?: number | null
  /** What the service counts in the report. Default: it gives no count. */
  readonly dataPoints?: number | null
  readonly sha256?: string
  /** What the report was bought with. Default: what the definition asks for. */
  readonly metrics?: readonly string[]
  /** So many bytes the answer is said to have, on which its way depends. Default: as many as it has. */
  readonly bytes?: number
  /** Called once, when half of the answer has been read. */
  readonly meanwhile?: () => Promise<void>
}

const payload = (body: string, meanwhile: () => Promise<void>): Payload => ({
  format: 'csv',
  part: 1,
  body: (async function* () {
    const half = body.indexOf('\n', body.length / 2) + 1
    yield Buffer.from(body.slice(0, half))
    await meanwhile()
    if (half < body.length) yield Buffer.from(body.slice(half))
  })(),
})

/** Loads the answer, as the work on a job does once it has landed. */
export const loadBody = async (kit: LoadKit, work: JobWork, choice: AnswerChoice): Promise<LoadResult> => {
  const { claim } = work
  const known = claim.answer
  const locator = known?.landing ?? `landing/${claim.jobId}`
  const body = choice.body ?? kit.bodies.get(locator) ?? unused()
  kit.bodies.set(locator, body)
  const { kysely } = kit.db.database
  const expected = choice.expectedRows ?? null
  const fingerprint = { lastUpdated: '2026-02-03', count: expected }
  const bytes = choice.bytes ?? body.length
  let { meanwhile } = choice
  const once = async (): Promise<void> => {
    const call = meanwhile
    meanwhile = undefined
    await call?.()
  }
  const answerId =
    known?.answerId ??
    (await insertAnswer(kysely, claim, {
      ...{ locator, fingerprint, bytes, asks: 'asks' },
      sha256: createHash('sha256')
        .update(choice.sha256 ?? `${body.length}`)
        .digest('hex'),
      dataPoints: choice.dataPoints ?? null,
      metrics: choice.metrics ?? metricsOf(kit.definition),
    }))
  const { result } = await loadAnswer(work, {
    answerId,
    box: known === null ? claim.box : await answerBox(kysely, answerId, claim),
    completeness: { fingerprint, expectedRows: expected, dataPoints: choice.dataPoints ?? null },
    bytes,
    parts: async function* () {
      yield payload(body, once)
    },
  })
  return result
}

const trafficHeader =
  'date,domain,country,all_traffic_visits,mobile_visits,desktop_visits,desktop_unique_visitors,mobile_unique_visitors,all_page_views'

/** A record of the traffic pipeline as the service writes it. @param date of a day, or of a month */
export const trafficLine = (date: string, domain: string, visits: string, country = 'us'): string =>
  `${date.length === 7 ? `${date}-01` : date},${domain},${country},${visits},1,2,3,4,5`

export const trafficCsv = (...lines: readonly string[]): string => `${[trafficHeader, ...lines].join('\n')}\n`

/** Nothing loaded, nothing planned. */
export const emptyTraffic = async (db: TestDatabase): Promise<void> => {
  await db.database.pool.query('truncate data.traffic_and_engagement_v1, data.traffic_and_engagement_v1_history')
  await db.database.pool.query(
    'truncate etl.pipelines, etl.slices, etl.jobs, etl.units, etl.windows, etl.quarantine, etl.data_point_readings cascade',
  )
}

/** The shipped definition, which lets half of the rows be rejected. */
export const lenientTraffic = async (): Promise<Definition> => {
  const shipped = await shippedDefinition('traffic_and_engagement')
  return { ...shipped, limits: { ...shipped.limits, rejectShare: 0.5 } }
}
