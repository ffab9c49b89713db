// What a run would take: units, requests, reports, rows and quota, without buying anything.
import { showWindow } from '../core/window.ts'
import { type LoadedHistory, loadedHistory } from '../ledger/estimates.ts'
import { type PastLoads, pastLoads } from '../ledger/past-loads.ts'
import type { PlannedUnit } from '../plan/plan.ts'
import { needsWork } from './run.ts'
import { definitionOf, type Runtime } from './runtime.ts'

export interface DryRunUnit {
  readonly unit: string
  readonly pipeline: string
  readonly window: string
  readonly reason: PlannedUnit['reason']
  readonly requests: number
  readonly reports: number
  readonly rows: number | null
  readonly quota: number | null
  /** `service`: it said so itself. `history`: from what this warehouse loaded before. `unknown`: neither knows. */
  readonly from: 'service' | 'history' | 'unknown'
}

/** What is known of a pipeline as a whole. Errors are fractions; null: no slice was loaded twice yet. */
export interface DryRunPipeline {
  readonly pipeline: string
  readonly rowsError: number | null
  readonly quotaError: number | null
  /** At the pace of the rate limit and of earlier answers; without those it is the least it can take. */
  readonly seconds: number
}

export interface DryRun {
  readonly units: readonly DryRunUnit[]
  readonly pipelines: readonly DryRunPipeline[]
  /** Free requests made to find this out. */
  readonly asked: number
  readonly idle: readonly PlannedUnit[]
}

/** Calls nothing but what the service answers for free; where it has no such way, this warehouse's own past decides. */
export const dryRun = async (
  runtime: Runtime,
  planned: readonly PlannedUnit[],
  signal: AbortSignal,
  requestsPerSecond: number,
): Promise<DryRun> => {
  const units: DryRunUnit[] = []
  const pipelines: DryRunPipeline[] = []
  let asked = 0
  const count = (): void => {
    asked += 1
  }
  for (const [pipeline, todo] of Map.groupBy(planned.filter(needsWork), (unit) => unit.pipeline)) {
    const history = await loadedHistory(runtime.database.kysely, pipeline)
    const past = await pastLoads(runtime.database.kysely, pipeline)
    const own: DryRunUnit[] = []
    for (const unit of todo) {
      signal.throwIfAborted()
      const estimate = await estimateUnit(runtime, unit, { history, past }, signal, count)
      if (estimate !== null) own.push(estimate)
    }
    units.push(...own)
    const { rowsError, quotaError } = past
    const concurrency = definitionOf(runtime, pipeline, todo[0]?.version ?? 0)?.limits.concurrency ?? 1
    pipelines.push({ pipeline, rowsError, quotaError, seconds: secondsOf(own, past, concurrency, requestsPerSecond) })
  }
  return { units, pipelines, asked, idle: planned.filter((unit) => !needsWork(unit)) }
}

/** Requests at the slower of the rate limit and earlier answers; reports are made beside each other, so one's time is added. */
const secondsOf = (units: readonly DryRunUnit[], past: PastLoads, concurrency: number, perSecond: number): number => {
  const requests = units.reduce((total, unit) => total + unit.requests, 0)
  const answered = (requests * (past.requestMs ?? 0)) / 1000 / concurrency
  const made = units.some((unit) => unit.reports > 0) ? (past.reportMs ?? 0) / 1000 : 0
  return Math.max(requests / perSecond, answered) + made
}

/** null where the definition or its source is gone. */
const estimateUnit = async (
  runtime: Runtime,
  unit: PlannedUnit,
  { history, past }: { history: LoadedHistory; past: PastLoads },
  signal: AbortSignal,
  record: () => void,
): Promise<DryRunUnit | null> => {
  const definition = definitionOf(runtime, unit.pipeline, unit.version)
  const source = definition === null ? undefined : runtime.sources.get(definition.source)
  if (definition === null || source === undefined) return null
  const { account, limits } = definition
  const { timeoutMs, attempts, maxBodyBytes } = limits
  const http = runtime.service(account).forUnit({ account, signal, timeoutMs, attempts, maxBodyBytes, record })
  const bought = past.bought.get(unit.key) ?? null
  const said =
    bought === null
      ? await source.estimate({ definition, unit }, { http, log: runtime.log, clock: runtime.clock, signal })
      : { rows: null, requests: null, quota: 0 }
  const before = past.byUnit.get(unit.key) ?? history.bySlice.get(JSON.stringify(unit.slice)) ?? history.average
  const rows = said.rows ?? before?.rows ?? null
  const pages = Math.max(1, Math.ceil((rows ?? 0) / limits.pageSize))
  const isReport = source.kind === 'report'
  return {
    unit: unit.key,
    pipeline: unit.pipeline,
    window: showWindow(unit.window),
    reason: unit.reason,
    requests: said.requests ?? (isReport ? reportRequests(said.quota !== null, bought) : pages),
    reports: isReport && bought === null ? 1 : 0,
    rows,
    quota: isReport ? (said.quota ?? before?.quota ?? null) : 0,
    from: said.quota !== null || said.rows !== null ? 'service' : before !== null ? 'history' : 'unknown',
  }
}

/** Its price where the service states one, its submission, one look at its status and one download; what is bought needs less. */
const reportRequests = (priced: boolean, bought: { readonly downloaded: boolean } | null): number => {
  if (bought !== null) return bought.downloaded ? 0 : 2
  return priced ? 4 : 3
}
