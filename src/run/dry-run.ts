// What a run would take: units, requests, reports, rows and quota, without buying anything.
import type { Definition } from '../core/types.ts'
import { showWindow } from '../core/window.ts'
import { type LoadedHistory, loadedHistory } from '../db/ledger/estimates.ts'
import type { Source } from '../extract/source.ts'
import type { PlannedUnit } from '../plan/plan.ts'
import { needsWork } from './run.ts'
import { definitionOf, type Shop } from './shop.ts'

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

export interface DryRun {
  readonly units: readonly DryRunUnit[]
  readonly idle: readonly PlannedUnit[]
}

/** Calls nothing but what the service answers for free; where it has no such way, this warehouse's own past decides. */
export const dryRun = async (shop: Shop, planned: readonly PlannedUnit[], signal: AbortSignal): Promise<DryRun> => {
  const histories = new Map<string, LoadedHistory>()
  const units: DryRunUnit[] = []
  for (const unit of planned.filter(needsWork)) {
    signal.throwIfAborted()
    const definition = definitionOf(shop, unit.pipeline, unit.version)
    const source = definition === null ? undefined : shop.sources.get(definition.source)
    if (definition === null || source === undefined) continue
    const history = histories.get(unit.pipeline) ?? (await loadedHistory(shop.database.kysely, unit.pipeline))
    histories.set(unit.pipeline, history)
    units.push(await estimateUnit(shop, definition, source, unit, history, signal))
  }
  return { units, idle: planned.filter((unit) => !needsWork(unit)) }
}

const estimateUnit = async (
  shop: Shop,
  definition: Definition,
  source: Source,
  unit: PlannedUnit,
  history: LoadedHistory,
  signal: AbortSignal,
): Promise<DryRunUnit> => {
  const http = shop.service(definition.account).forUnit({
    account: definition.account,
    signal,
    timeoutMs: definition.limits.timeoutMs,
    attempts: definition.limits.attempts,
    maxBodyBytes: definition.limits.maxBodyBytes,
    record: () => undefined,
  })
  const said = await source.estimate({ definition, unit }, { http, log: shop.log, clock: shop.clock, signal })
  const past = history.bySlice.get(JSON.stringify(unit.slice)) ?? history.average
  const rows = said.rows ?? past?.rows ?? null
  const pages = Math.max(1, Math.ceil((rows ?? 0) / definition.limits.pageSize))
  const isReport = source.kind === 'report'
  return {
    unit: unit.key,
    pipeline: unit.pipeline,
    window: showWindow(unit.window),
    reason: unit.reason,
    // A report takes at least its submission, one look at its status and one download.
    requests: said.requests ?? (isReport ? 3 : pages),
    reports: isReport ? 1 : 0,
    rows,
    quota: isReport ? (said.quota ?? past?.quota ?? null) : 0,
    from: said.quota !== null || said.rows !== null ? 'service' : past !== null ? 'history' : 'unknown',
  }
}
