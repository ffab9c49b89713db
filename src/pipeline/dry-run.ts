// What a run would take: units, requests, reports, rows and quota, by the same planning, without writing or buying anything.
import type { Definition } from '../core/types.ts'
import { showSpan, showWindow, windowAt } from '../core/window.ts'
import type { LookContext } from '../extract/source.ts'
import type { AskReason } from '../ledger/candidates.ts'
import type { PastTimes, PastUnits } from '../ledger/estimates.ts'
import type { Scope } from '../plan/frames.ts'
import { sourceOf } from './plan-run.ts'
import type { Runtime } from './runtime.ts'
import { type Found, type FoundJob, type IdleUnits, wouldPlan } from './would-plan.ts'

/** A report, or the walks of one window. */
export interface PreviewJob {
  /** The report's key; of walks the pipeline and the window. */
  readonly job: string
  readonly pipeline: string
  readonly window: string
  readonly reason: AskReason
  readonly units: number
  readonly requests: number
  readonly reports: number
  readonly rows: number | null
  readonly quota: number | null
  /** `service`: it said so itself, of this job or of others like it. `history`: from what this warehouse loaded before. `unknown`: neither knows. */
  readonly from: 'service' | 'history' | 'unknown'
}

/** What is known of a pipeline as a whole. Errors are fractions; null: nothing was loaded twice yet. */
export interface PreviewPipeline extends IdleUnits {
  readonly pipeline: string
  readonly rowsError: number | null
  readonly quotaError: number | null
  /** At the pace of the rate limit and of earlier answers; without those it is the least it can take. */
  readonly seconds: number
}

export interface Preview {
  readonly jobs: readonly PreviewJob[]
  readonly pipelines: readonly PreviewPipeline[]
  /** Free requests made to find this out. */
  readonly asked: number
}

/** Reports whose price the service is asked for, over all pipelines; the others are as dear by the cell. */
const mostPriced = 50

/** Calls nothing but what the service answers for free; where it has no such way, this warehouse's own past decides. */
export const previewRun = async (
  runtime: Runtime,
  definitions: readonly Definition[],
  scope: Scope,
  signal: AbortSignal,
): Promise<Preview> => {
  const asking = { left: mostPriced, asked: 0 }
  const jobs: PreviewJob[] = []
  const pipelines: PreviewPipeline[] = []
  for (const definition of definitions) {
    const found = await wouldPlan(runtime, definition, scope, signal)
    const priced = await price(runtime, definition, found, signal, asking)
    jobs.push(...priced)
    const { rowsError, quotaError } = found.past
    const seconds = secondsOf(priced, found.times, definition.limits.concurrency, runtime.allowance(definition).requestsPerSecond)
    pipelines.push({ pipeline: definition.pipeline, rowsError, quotaError, seconds, ...found.idle })
  }
  return { jobs, pipelines, asked: asking.asked }
}

const price = async (
  runtime: Runtime,
  definition: Definition,
  { jobs, sampled, past }: Found,
  signal: AbortSignal,
  asking: { left: number; asked: number },
): Promise<PreviewJob[]> => {
  const perCell = await creditsPerCell(runtime, definition, jobs, signal, asking)
  const looks = [...sampled].map(([from, units]): PreviewJob => {
    const window = showWindow(windowAt(from, definition.window.every))
    const { pipeline, version } = definition
    const about = { job: `${pipeline}/v${version}/${window}`, pipeline, window, reason: 'look-back' as const }
    return { ...about, units, requests: units, reports: 0, rows: null, quota: 0, from: 'unknown' }
  })
  return [...jobs.map((job) => priced(definition, job, past, perCell)), ...looks.filter(({ units }) => units > 0)]
}

const priced = (definition: Definition, job: FoundJob, past: PastUnits, perCell: ReadonlyMap<FoundJob, number>): PreviewJob => {
  const { window, reason, units, box, isBought, isHere } = job
  const shown = box === null ? showWindow(window) : showSpan(window)
  const rows = past.rows === null ? null : Math.round(past.rows * units)
  const said = perCell.get(job) ?? null
  const perUnit = said ?? past.quota
  const pages = Math.max(1, Math.ceil((past.rows ?? 0) / definition.limits.pageSize)) * units
  return {
    job: box?.key ?? `${definition.pipeline}/v${definition.version}/${shown}`,
    pipeline: definition.pipeline,
    window: shown,
    reason,
    units,
    requests: box === null ? pages : reportRequests(said !== null, isBought, isHere),
    reports: box === null || isBought ? 0 : 1,
    rows,
    quota: box === null || isBought ? 0 : perUnit === null ? null : Math.round(perUnit * units),
    from: said !== null ? 'service' : rows !== null ? 'history' : 'unknown',
  }
}

/** Its price where the service states one, its submission, one poll and one download; what is bought needs less. */
const reportRequests = (isPriced: boolean, isBought: boolean, isHere: boolean): number =>
  isHere ? 0 : isBought ? 2 : isPriced ? 4 : 3

/** Credits a cell by job: a few jobs are priced by the service, the others cost what these do. */
const creditsPerCell = async (
  runtime: Runtime,
  definition: Definition,
  jobs: readonly FoundJob[],
  signal: AbortSignal,
  asking: { left: number; asked: number },
): Promise<ReadonlyMap<FoundJob, number>> => {
  const toBuy = jobs.filter(({ box, isBought }) => box !== null && !isBought)
  if (toBuy.length === 0 || asking.left === 0) return new Map()
  const source = sourceOf(runtime, definition)
  const look = lookContext(runtime, definition, signal, asking)
  const count = Math.min(asking.left, toBuy.length)
  let credits = 0
  let cells = 0
  const said = new Map<FoundJob, number>()
  for (let index = 0; index < count; index += 1) {
    signal.throwIfAborted()
    const job = toBuy[Math.floor((index * toBuy.length) / count)]
    if (job === undefined || job.box === null) continue
    const { quota } = await source.estimate({ definition, box: job.box }, look)
    asking.left -= 1
    if (quota === null) return new Map()
    said.set(job, quota / job.units)
    credits += quota
    cells += job.units
  }
  return new Map(toBuy.map((job) => [job, said.get(job) ?? credits / cells]))
}

const lookContext = (runtime: Runtime, definition: Definition, signal: AbortSignal, asking: { asked: number }): LookContext => {
  const { account, limits } = definition
  const { timeoutMs, attempts, maxBodyBytes } = limits
  const record = (): void => {
    asking.asked += 1
  }
  const http = runtime.service(definition).forUnit({ account, signal, timeoutMs, attempts, maxBodyBytes, record })
  return { http, log: runtime.log, clock: runtime.clock, signal }
}

/** Requests at the slower of the rate limit and earlier answers; reports are made beside each other, so one's time is added. */
const secondsOf = (jobs: readonly PreviewJob[], times: PastTimes, concurrency: number, perSecond: number): number => {
  const requests = jobs.reduce((total, job) => total + job.requests, 0)
  const answered = (requests * (times.requestMs ?? 0)) / 1000 / concurrency
  const made = jobs.some((job) => job.reports > 0) ? (times.reportMs ?? 0) / 1000 : 0
  return Math.max(requests / perSecond, answered) + made
}
