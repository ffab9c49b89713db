// Takes jobs from the queue into a bounded number of slots until told to stop; keeps their leases; obeys cancellation.
import { EtlError, messageOf } from '../core/errors.ts'
import { inSpan } from '../core/trace.ts'
import { cancelledRuns } from '../ledger/runs.ts'
import { createJobSupply, type JobSupply } from './job-supply.ts'
import type { UnitJob } from './queue.ts'
import type { Runtime } from './runtime.ts'
import { workUnit } from './unit.ts'

export interface LoopOptions {
  /** Units worked on at once. */
  readonly concurrency: number
  /** Aborts the loop: no new unit is taken, those at hand are parked. */
  readonly signal: AbortSignal
  /** Asked when nothing is at hand; true ends the loop. */
  readonly done: () => Promise<boolean>
}

const idleMs = 100
const beatEveryMs = 2_000
const cancelEveryMs = 500
/** A job that was fetched ahead waits no longer than this, or to the next beat. */
const longestWaitMs = 1_000
/** How long the database may stay away before the loop gives up. */
const databasePatienceMs = 120_000

interface ActiveUnit {
  readonly job: UnitJob
  readonly abort: AbortController
  readonly finished: Promise<void>
}

/** Resolves when `done` says so or the signal aborts; in both cases nothing is at hand any more. */
export const workLoop = async (runtime: Runtime, options: LoopOptions): Promise<void> => {
  const active = new Map<string, ActiveUnit>()
  const supply = createJobSupply(runtime.queue, runtime.clock)
  const watch = startWatch(runtime, active, supply)
  const patience = createPatience(runtime)
  try {
    while (!options.signal.aborted) {
      try {
        const taken = await takeJobs(runtime, options, active, supply)
        if (active.size === 0 && taken === 0 && (await options.done())) break
        patience.reset()
        if (active.size >= options.concurrency) await Promise.race([...active.values()].map((unit) => unit.finished))
        else if (taken === 0)
          await Promise.race([idle(runtime, options.signal), ...[...active.values()].map((unit) => unit.finished)])
      } catch (error) {
        await patience.spend(error, options.signal)
      }
    }
  } finally {
    for (const unit of active.values()) unit.abort.abort(new EtlError('INTERRUPTED', 'Stopped; the same command goes on.'))
    await Promise.allSettled([...active.values()].map((unit) => unit.finished))
    // Where that fails they come back when their heartbeat is missed.
    await supply.giveBack(0).catch((error) => runtime.log.warn({ error: messageOf(error) }, 'jobs not given back'))
    watch.stop()
  }
}

const idle = (runtime: Runtime, signal: AbortSignal): Promise<void> => runtime.clock.sleep(idleMs, signal).catch(() => undefined)

const takeJobs = async (
  runtime: Runtime,
  options: LoopOptions,
  active: Map<string, ActiveUnit>,
  supply: JobSupply,
): Promise<number> => {
  const room = options.concurrency - active.size
  if (room <= 0) return 0
  const jobs = await supply.take(room)
  for (const job of jobs) {
    const begun = runtime.clock.now()
    const unit = begin(runtime, job, active, options.signal)
    active.set(holdOf(job), unit)
    unit.finished.then(() => supply.took(runtime.clock.now() - begun))
  }
  return jobs.length
}

const holdOf = (job: UnitJob): string => `${job.id} ${job.attempt}`

const begin = (runtime: Runtime, job: UnitJob, active: Map<string, ActiveUnit>, signal: AbortSignal): ActiveUnit => {
  const abort = new AbortController()
  const stop = (): void => abort.abort(new EtlError('INTERRUPTED', 'Stopped; the same command goes on.'))
  signal.addEventListener('abort', stop, { once: true })
  const finished = inSpan('unit', { 'millrace.unit_id': job.unitId, 'millrace.run_id': job.runId }, () =>
    workUnit(runtime, job, abort.signal),
  )
    // The unit could not even be settled (the database is away): its job comes back when the heartbeat is missed.
    .catch((error) => runtime.log.warn({ job: job.id, error: messageOf(error) }, 'unit left to the queue'))
    .finally(() => {
      signal.removeEventListener('abort', stop)
      active.delete(holdOf(job))
    })
  return { job, abort, finished }
}

/** Renews what is at hand and aborts units of cancelled runs. */
const startWatch = (runtime: Runtime, active: Map<string, ActiveUnit>, supply: JobSupply): { stop: () => void } => {
  const beat = setInterval(() => {
    keepHolds(runtime, active, supply).catch((error) => runtime.log.warn({ error: messageOf(error) }, 'heartbeat missed'))
  }, beatEveryMs)
  const cancel = setInterval(() => {
    abortCancelled(runtime, active).catch((error) => runtime.log.warn({ error: messageOf(error) }, 'cancellation not seen'))
  }, cancelEveryMs)
  return {
    stop: () => {
      clearInterval(beat)
      clearInterval(cancel)
    },
  }
}

/** What another process was handed meanwhile is let go: nothing of it could be written any more. */
const keepHolds = async (runtime: Runtime, active: Map<string, ActiveUnit>, supply: JobSupply): Promise<void> => {
  await supply.giveBack(longestWaitMs)
  const before = new Map(active)
  const held = [...[...before.values()].map((unit) => unit.job), ...supply.waiting()]
  if (held.length === 0) return
  const lost = await runtime.queue.beat(held)
  supply.forget(lost)
  for (const job of lost)
    before.get(holdOf(job))?.abort.abort(new EtlError('FENCED', `Unit ${job.unitId} was taken over by another process.`))
}

const abortCancelled = async (runtime: Runtime, active: Map<string, ActiveUnit>): Promise<void> => {
  const runIds = [...new Set([...active.values()].map((unit) => unit.job.runId))]
  if (runIds.length === 0) return
  const cancelled = new Set(await cancelledRuns(runtime.database.kysely, runIds))
  for (const unit of active.values()) {
    if (cancelled.has(unit.job.runId)) unit.abort.abort(new EtlError('CANCELLED', `Run ${unit.job.runId} was cancelled.`))
  }
}

/** A database that restarts is waited for; one that stays away ends the loop with its own error. */
const createPatience = (
  runtime: Runtime,
): { reset: () => void; spend: (error: unknown, signal: AbortSignal) => Promise<void> } => {
  let since: number | null = null
  let pause = 200
  return {
    reset: () => {
      since = null
      pause = 200
    },
    spend: async (error, signal) => {
      since ??= runtime.clock.now()
      if (runtime.clock.now() - since > databasePatienceMs) throw error
      runtime.log.warn({ error: messageOf(error) }, 'the queue does not answer; trying again')
      await runtime.clock.sleep(pause, signal).catch(() => undefined)
      pause = Math.min(pause * 2, 5_000)
    },
  }
}
