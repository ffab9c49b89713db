// Takes jobs from the queue into a bounded number of slots until told to stop; keeps their leases; obeys cancellation.
import { EtlError, messageOf } from '../core/errors.ts'
import { inSpan } from '../core/trace.ts'
import { cancelledRuns } from '../db/ledger/runs.ts'
import { createJobSupply, type JobSupply } from './job-supply.ts'
import type { UnitJob } from './queue.ts'
import type { Shop } from './shop.ts'
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
export const workLoop = async (shop: Shop, options: LoopOptions): Promise<void> => {
  const active = new Map<string, ActiveUnit>()
  const supply = createJobSupply(shop.queue, shop.clock)
  const watch = startWatch(shop, active, supply)
  const patience = createPatience(shop)
  try {
    while (!options.signal.aborted) {
      try {
        const taken = await takeJobs(shop, options, active, supply)
        if (active.size === 0 && taken === 0 && (await options.done())) break
        patience.reset()
        if (active.size >= options.concurrency) await Promise.race([...active.values()].map((unit) => unit.finished))
        else if (taken === 0)
          await Promise.race([idle(shop, options.signal), ...[...active.values()].map((unit) => unit.finished)])
      } catch (error) {
        await patience.spend(error, options.signal)
      }
    }
  } finally {
    for (const unit of active.values()) unit.abort.abort(new EtlError('INTERRUPTED', 'Stopped; the same command goes on.'))
    await Promise.allSettled([...active.values()].map((unit) => unit.finished))
    // Where that fails they come back when their heartbeat is missed.
    await supply.giveBack(0).catch((error) => shop.log.warn({ error: messageOf(error) }, 'jobs not given back'))
    watch.stop()
  }
}

const idle = (shop: Shop, signal: AbortSignal): Promise<void> => shop.clock.sleep(idleMs, signal).catch(() => undefined)

const takeJobs = async (
  shop: Shop,
  options: LoopOptions,
  active: Map<string, ActiveUnit>,
  supply: JobSupply,
): Promise<number> => {
  const room = options.concurrency - active.size
  if (room <= 0) return 0
  const jobs = await supply.take(room)
  for (const job of jobs) {
    const begun = shop.clock.now()
    const unit = begin(shop, job, active, options.signal)
    active.set(holdOf(job), unit)
    unit.finished.then(() => supply.took(shop.clock.now() - begun))
  }
  return jobs.length
}

const holdOf = (job: UnitJob): string => `${job.id} ${job.attempt}`

const begin = (shop: Shop, job: UnitJob, active: Map<string, ActiveUnit>, signal: AbortSignal): ActiveUnit => {
  const abort = new AbortController()
  const stop = (): void => abort.abort(new EtlError('INTERRUPTED', 'Stopped; the same command goes on.'))
  signal.addEventListener('abort', stop, { once: true })
  const finished = inSpan('unit', { 'millrace.unit_id': job.unitId, 'millrace.run_id': job.runId }, () =>
    workUnit(shop, job, abort.signal),
  )
    // The unit could not even be settled (the database is away): its job comes back when the heartbeat is missed.
    .catch((error) => shop.log.warn({ job: job.id, error: messageOf(error) }, 'unit left to the queue'))
    .finally(() => {
      signal.removeEventListener('abort', stop)
      active.delete(holdOf(job))
    })
  return { job, abort, finished }
}

/** Renews what is at hand and aborts units of cancelled runs. */
const startWatch = (shop: Shop, active: Map<string, ActiveUnit>, supply: JobSupply): { stop: () => void } => {
  const beat = setInterval(() => {
    keepHolds(shop, active, supply).catch((error) => shop.log.warn({ error: messageOf(error) }, 'heartbeat missed'))
  }, beatEveryMs)
  const cancel = setInterval(() => {
    abortCancelled(shop, active).catch((error) => shop.log.warn({ error: messageOf(error) }, 'cancellation not seen'))
  }, cancelEveryMs)
  return {
    stop: () => {
      clearInterval(beat)
      clearInterval(cancel)
    },
  }
}

/** What another process was handed meanwhile is let go: nothing of it could be written any more. */
const keepHolds = async (shop: Shop, active: Map<string, ActiveUnit>, supply: JobSupply): Promise<void> => {
  await supply.giveBack(longestWaitMs)
  const before = new Map(active)
  const held = [...[...before.values()].map((unit) => unit.job), ...supply.waiting()]
  if (held.length === 0) return
  const lost = await shop.queue.beat(held)
  supply.forget(lost)
  for (const job of lost)
    before.get(holdOf(job))?.abort.abort(new EtlError('FENCED', `Unit ${job.unitId} was taken over by another process.`))
}

const abortCancelled = async (shop: Shop, active: Map<string, ActiveUnit>): Promise<void> => {
  const runIds = [...new Set([...active.values()].map((unit) => unit.job.runId))]
  if (runIds.length === 0) return
  const cancelled = new Set(await cancelledRuns(shop.database.kysely, runIds))
  for (const unit of active.values()) {
    if (cancelled.has(unit.job.runId)) unit.abort.abort(new EtlError('CANCELLED', `Run ${unit.job.runId} was cancelled.`))
  }
}

/** A database that restarts is waited for; one that stays away ends the loop with its own error. */
const createPatience = (shop: Shop): { reset: () => void; spend: (error: unknown, signal: AbortSignal) => Promise<void> } => {
  let since: number | null = null
  let pause = 200
  return {
    reset: () => {
      since = null
      pause = 200
    },
    spend: async (error, signal) => {
      since ??= shop.clock.now()
      if (shop.clock.now() - since > databasePatienceMs) throw error
      shop.log.warn({ error: messageOf(error) }, 'the queue does not answer; trying again')
      await shop.clock.sleep(pause, signal).catch(() => undefined)
      pause = Math.min(pause * 2, 5_000)
    },
  }
}
