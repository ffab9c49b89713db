// Many units: put them in the queue, work until every unit of this run is settled, sum up.
import type { Transaction } from 'kysely'
import { inSpan } from '../core/trace.ts'
import type { Definition } from '../core/types.ts'
import { registerUnits } from '../ledger/register.ts'
import { finishRun, openUnits, type RunSummary, requestsSpared, runSummary, startRun } from '../ledger/runs.ts'
import type { Tables } from '../db/tables.ts'
import type { PlannedUnit } from '../plan/plan.ts'
import type { Runtime } from './runtime.ts'
import { workLoop } from './work-loop.ts'

export interface RunRequest {
  readonly command: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly definitions: readonly Definition[]
  /** Everything in scope, also what needs nothing: units that are done, held, or not published yet. */
  readonly units: readonly PlannedUnit[]
  readonly signal: AbortSignal
}

export interface RegisteredRequest extends Omit<RunRequest, 'units'> {
  /** Puts the run's units into the ledger, in the order they are to be worked on. */
  readonly register: (trx: Transaction<Tables>, runId: number) => Promise<readonly { readonly unitId: number }[]>
  /** Units in scope that need no work; they are only counted. */
  readonly aside: readonly PlannedUnit[]
}

export interface RunResult {
  readonly runId: number
  readonly summary: RunSummary
  readonly seconds: number
  /** Requests not made because a look showed that the loaded answer still stands. */
  readonly requestsSpared: number
  readonly state: 'done' | 'failed' | 'cancelled' | 'interrupted'
}

/** Runs `units` through the queue and returns when each of them is loaded, unchanged, held, failed or left waiting. */
export const runUnits = (runtime: Runtime, { units, ...request }: RunRequest): Promise<RunResult> => {
  const todo = units.filter(needsWork)
  return runRegistered(runtime, {
    ...request,
    aside: units.filter((unit) => !needsWork(unit)),
    register: (trx, runId) =>
      registerUnits(
        trx,
        runId,
        todo.map(({ reason, newEdition, ...unit }) => ({ unit, newEdition, forced: reason === 'forced' })),
      ),
  })
}

/** The same for units the ledger already knows. */
export const runRegistered = async (runtime: Runtime, request: RegisteredRequest): Promise<RunResult> => {
  const started = runtime.clock.now()
  const { kysely } = runtime.database
  const runId = await startRun(kysely, { command: request.command, arguments: request.arguments })
  const count = await enqueueUnits(runtime, runId, request)
  runtime.progress.counters.unitsPlanned += count
  runtime.progress.emit({ event: 'planned', run_id: runId, units: count })
  const span = { 'millrace.run_id': runId, 'millrace.command': request.command, 'millrace.units': count }
  const cancelled = count > 0 && (await inSpan('run', span, () => workUntilSettled(runtime, runId, request)))
  const summary = withAside(await runSummary(kysely, runId), request.aside)
  const state = cancelled ? 'cancelled' : stateOf(summary, request.signal)
  const seconds = (runtime.clock.now() - started) / 1000
  await finishRun(kysely, runId, state, { ...summary, seconds })
  const spared = summary.units.unchanged > 0 ? await requestsSpared(kysely, runId) : 0
  return { runId, summary, seconds, requestsSpared: spared, state }
}

const stateOf = ({ units }: RunSummary, signal: AbortSignal): RunResult['state'] =>
  signal.aborted ? 'interrupted' : units.failed + units.held > 0 ? 'failed' : 'done'

const idleReasons: ReadonlySet<PlannedUnit['reason']> = new Set(['done', 'held', 'not-published'])

/** Whether a planned unit is to be worked on, or only counted. */
export const needsWork = (unit: PlannedUnit): boolean => !idleReasons.has(unit.reason)

/** The ledger's summary plus the units that were in scope and needed nothing. */
export const withAside = (summary: RunSummary, units: readonly PlannedUnit[]): RunSummary => {
  const count = (reason: PlannedUnit['reason']): number => units.filter((unit) => unit.reason === reason).length
  const { planned, unchanged, held, waiting } = summary.units
  return {
    ...summary,
    units: {
      ...summary.units,
      planned: planned + count('done') + count('held') + count('not-published'),
      unchanged: unchanged + count('done'),
      held: held + count('held'),
      waiting: waiting + count('not-published'),
    },
  }
}

const enqueueUnits = async (runtime: Runtime, runId: number, request: RegisteredRequest): Promise<number> =>
  runtime.database.kysely.transaction().execute(async (trx) => {
    const registered = await request.register(trx, runId)
    const jobs = registered.map(({ unitId }, index) => ({ unitId, runId, priority: registered.length - index }))
    if (jobs.length > 0) await runtime.queue.enqueue(trx, jobs)
    return registered.length
  })

/** Between looks for units of the run that lost their place in the queue. */
const sweepEveryMs = 5_000

/** True when the run was cancelled by someone. */
const workUntilSettled = async (runtime: Runtime, runId: number, request: RegisteredRequest): Promise<boolean> => {
  let cancelled = false
  let lastSweep = runtime.clock.now()
  const done = async (): Promise<boolean> => {
    const open = await openUnits(runtime.database.kysely, runId)
    cancelled = open.cancelled
    if (open.cancelled || open.count === 0) return true
    if (runtime.clock.now() - lastSweep > sweepEveryMs) {
      lastSweep = runtime.clock.now()
      const lost = await runtime.queue.requeueLost(runId)
      if (lost > 0) runtime.log.warn({ run: runId, units: lost }, 'units without a job were queued again')
    }
    return false
  }
  await workLoop(runtime, { concurrency: concurrencyOf(request.definitions), signal: request.signal, done })
  return cancelled
}

/** The most any of the definitions allows; pages of one unit and the rate budget bound it further. */
export const concurrencyOf = (definitions: readonly Definition[]): number =>
  Math.max(1, ...definitions.map((definition) => definition.limits.concurrency))
