// The runs that a schedule begins: one for each tick, in turn for each pipeline, and one for what a person approved.
import { messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { claimTick, finishTick } from '../ledger/tick-records.ts'
import { notify } from './notify/send-alarms.ts'
import type { Ping } from './notify/ping.ts'
import { paceRun, readyToBuy } from '../plan/pace-backfill.ts'
import { planApproved, planRun, type Scope } from '../plan/plan-run.ts'
import { withCurrentLists } from '../run/current-lists.ts'
import { sweep } from '../run/retention.ts'
import { type RunResult, runJobs } from '../run/run-jobs.ts'
import type { Runtime } from '../run/runtime.ts'
import type { Scheduled } from '../plan/ticks.ts'

/** What a scheduler knows of the runs it began. */
export interface Keeper {
  readonly runtime: Runtime
  readonly signal: AbortSignal
  readonly ping: Ping
  readonly concurrency: number | undefined
  readonly running: Set<string>
  /** By pipeline: the runs begun, one after the other; never rejects. */
  readonly chains: Map<string, Promise<void>>
}

/** `released`: the service said that there are new data. */
type TickKind = 'on time' | 'caught up' | 'released'

/**
 * Begins the run of one tick, unless another process has taken it. Overlap `queue` waits for the run before it; `skip` checks at once and gives
 * way. Never rejects: what goes wrong is logged.
 */
export const takeTick = (keeper: Keeper, entry: Scheduled, dueMs: number, kind: TickKind): void => {
  const { runtime, signal, ping, concurrency, running, chains } = keeper
  const { pipeline } = entry.definition
  const before = chains.get(pipeline) ?? Promise.resolve()
  // New data are not left to the next night because this one is still at work.
  const mayWait = kind === 'released' || entry.schedule.overlap === 'queue'
  const work = async (): Promise<void> => {
    if (signal.aborted) return
    const skipped = !mayWait && running.has(pipeline)
    const owner = runtime.process.name
    const isMine = await claimTick(runtime.database.kysely, { pipeline, dueMs, owner, kind: skipped ? 'skipped' : kind })
    if (!isMine || skipped) return
    running.add(pipeline)
    try {
      await runTick(runtime, { ping, definition: entry.definition, dueMs, concurrency, signal })
    } finally {
      running.delete(pipeline)
    }
  }
  const next = (mayWait ? before.then(work) : Promise.all([before, work()])).then(
    () => undefined,
    (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'scheduled run ended in an error'),
  )
  chains.set(pipeline, next)
}

/** Begins a run for each pipeline that has something approved and no run at work. */
export const buyApproved = async ({ runtime, signal, concurrency, running, chains }: Keeper): Promise<void> => {
  const free = runtime.definitions.filter(({ pipeline }) => !running.has(pipeline))
  const ready = await readyToBuy(runtime, free)
  for (const definition of free.filter(({ pipeline }) => ready.includes(pipeline) && !signal.aborted)) {
    const { pipeline } = definition
    running.add(pipeline)
    const work = runApproved(runtime, definition, concurrency, signal).then(
      () => undefined,
      (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'a run of what was approved ended in an error'),
    )
    chains.set(
      pipeline,
      Promise.all([chains.get(pipeline), work]).then(() => void running.delete(pipeline)),
    )
  }
}

interface Tick {
  readonly ping: Ping
  readonly definition: Definition
  readonly dueMs: number
  readonly concurrency: number | undefined
  readonly signal: AbortSignal
}

/** One run of what is due. Whatever happens to it, people hear of it and the tick is over. */
const runTick = async (runtime: Runtime, tick: Tick): Promise<void> => {
  const { ping, definition, dueMs } = tick
  let result: RunResult | null = null
  try {
    await ping('start')
    result = await runDue(runtime, tick)
    await sweep(runtime)
  } finally {
    await ping(result?.state === 'done' ? 'success' : 'fail')
    await notify(runtime)
    await finishTick(runtime.database.kysely, definition.pipeline, dueMs, result?.runId ?? null)
  }
}

/** One run of what a person approved, and nothing else. */
const runApproved = async (
  runtime: Runtime,
  known: Definition,
  concurrency: number | undefined,
  signal: AbortSignal,
): Promise<void> => {
  const definition = await withCurrentLists(runtime, known)
  const { runId } = await runJobs(runtime, {
    command: 'schedule',
    arguments: { pipeline: definition.pipeline, approved: true },
    definitions: [definition],
    plan: (run) => planApproved(runtime, run, definition),
    concurrency,
    signal,
  })
  await paceRun(runtime, [definition], runId, null)
  await notify(runtime)
}

const runDue = async (runtime: Runtime, tick: Tick): Promise<RunResult> => {
  const { dueMs, concurrency, signal } = tick
  const definition = await withCurrentLists(runtime, tick.definition)
  const { pipeline } = definition
  const due = new Date(dueMs).toISOString()
  const scope: Scope = { mode: 'due' }
  const result = await runJobs(runtime, {
    command: 'schedule',
    arguments: { pipeline, due_at: due },
    definitions: [definition],
    plan: (runId) => planRun(runtime, runId, [definition], scope, signal),
    concurrency,
    signal,
  })
  const { runId, state, summary } = result
  await paceRun(runtime, [definition], runId, null)
  runtime.progress.emit({ event: 'tick', pipeline, due_at: due, run_id: runId, state, units: summary.units })
  return result
}
