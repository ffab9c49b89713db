// Takes the ticks of every schedule as time goes by, each tick one run of what is due; knows no timer, so that any clock can drive it.
import { apiNameOf } from '../core/source-spec.ts'
import { releasesSince, type WakingRelease } from '../ledger/releases.ts'
import { lastTickMs } from '../ledger/tick-records.ts'
import { checkAlarming, notify } from './notify/send-alarms.ts'
import { createPing } from './notify/ping.ts'
import type { Runtime } from '../run/runtime.ts'
import { missedTicks, type Scheduled, scheduledOf, ticksBetween } from '../plan/ticks.ts'
import { buyApproved, type Keeper, takeTick } from './tick-runs.ts'

/** Ticks are checked for each minute and taken at once; who is so late does not keep time any more. */
const overdueMs = 5 * 60_000

/** How the runs of ticks work. */
interface TickerOptions {
  /** Jobs worked on at once for each run; 0: somebody else in this process does. Default: what the definition allows. */
  readonly concurrency?: number
}

/** A timer may be that much early by the database's clock. */
const timerSlackMs = 5_000

/** The schedule without timers, which keeps time from now on: whoever holds it says when time has passed. @param signal aborted: no more ticks are taken, runs in progress put their jobs back. */
export const createTicker = (runtime: Runtime, signal: AbortSignal, { concurrency }: TickerOptions = {}) => {
  const scheduled = scheduledOf(runtime.definitions)
  // Settings that are wrong end the command before the first night, not in it.
  const ping = createPing(runtime.settings, runtime.log)
  checkAlarming(runtime)
  const keeper: Keeper = { runtime, signal, ping, concurrency, running: new Set(), chains: new Map() }
  const begunMs = runtime.clock.now()
  let lookedMs = begunMs

  return {
    /** Begins a run for each pipeline with something that a person approved and nobody works on: its nights need not be waited for. */
    approved: () => buyApproved(keeper),
    /** Tells which ticks are late, then takes those that came while no scheduler ran, as each pipeline's `catch_up` says. */
    catchUp: async () => {
      // Notified before anything is taken: a night that is made up for was missed all the same.
      await notify(runtime)
      for (const entry of scheduled)
        for (const dueMs of await missedTicks(runtime, entry)) takeTick(keeper, entry, dueMs, 'caught up')
    },
    /** Takes the ticks that came since the last check. */
    sweep: () => {
      const nowMs = runtime.clock.now()
      for (const entry of scheduled)
        for (const dueMs of ticksBetween(entry.schedule, lookedMs, nowMs)) takeTick(keeper, entry, dueMs, 'on time')
      lookedMs = nowMs
    },
    /** Begins a run for each pipeline whose service said, since it last ran, that there are new data: once for each release. */
    released: wakeOnRelease(keeper, scheduled, begunMs),
    /** Takes the tick of that minute, where the schedule has one; taking it again does nothing. */
    take: (entry: Scheduled, dueMs: number) => {
      // The timer runs by the machine's clock: where that is ahead, the tick is not due yet, and the check every minute takes it when it is.
      if (dueMs > runtime.clock.now() + timerSlackMs) return
      // The second time of a repeated hour is no tick.
      if (ticksBetween(entry.schedule, dueMs - 1, dueMs).length > 0) takeTick(keeper, entry, dueMs, 'on time')
    },
    /** Pipelines with a tick that came since this ticker began, that nobody took and that no run in progress makes wait. */
    overdue: () =>
      overdueOf(
        runtime,
        scheduled.filter(({ definition }) => !keeper.running.has(definition.pipeline)),
        begunMs,
      ),
    /** Resolves when the runs in progress are done. */
    settled: async () => void (await Promise.all(keeper.chains.values())),
  }
}

/** Each release once in this process; whether another one has taken it the ledger knows. */
const wakeOnRelease = (keeper: Keeper, scheduled: readonly Scheduled[], begunMs: number): (() => Promise<void>) => {
  const { kysely } = keeper.runtime.database
  const seen = new Set<string>()
  let sinceMs: ReadonlyMap<string, number> | null = null
  return async () => {
    sinceMs ??= await lastTicks(keeper, scheduled, begunMs)
    const earliest = Math.min(...sinceMs.values())
    for (const release of await releasesSince(kysely, earliest))
      for (const entry of scheduled) {
        const { pipeline } = entry.definition
        const name = `${pipeline} ${release.every} ${release.availableTo}`
        if (seen.has(name) || !concerns(entry, release) || release.heardMs <= (sinceMs.get(pipeline) ?? begunMs)) continue
        seen.add(name)
        takeTick(keeper, entry, release.heardMs, 'released')
      }
  }
}

/** From when on each pipeline is woken: what came while nobody kept time is made up for as its `catch_up` says. */
const lastTicks = async (
  { runtime }: Keeper,
  scheduled: readonly Scheduled[],
  begunMs: number,
): Promise<ReadonlyMap<string, number>> => {
  const found = new Map<string, number>()
  for (const { definition, schedule } of scheduled) {
    const last = schedule.catchUp === 'none' ? null : await lastTickMs(runtime.database.kysely, definition.pipeline)
    found.set(definition.pipeline, last ?? begunMs)
  }
  return found
}

const concerns = ({ definition }: Scheduled, { account, every }: WakingRelease): boolean =>
  `${apiNameOf(definition.source)}/${definition.account}` === account &&
  (definition.window.every === 'month' ? 'month' : 'day') === every

/** Pipelines with a tick that came since `begunMs`, long ago by now, and that nobody took. */
const overdueOf = async (runtime: Runtime, scheduled: readonly Scheduled[], begunMs: number): Promise<readonly string[]> => {
  const found: string[] = []
  for (const { definition, schedule } of scheduled) {
    const last = await lastTickMs(runtime.database.kysely, definition.pipeline)
    const since = Math.max(last ?? begunMs, begunMs)
    if (ticksBetween(schedule, since, runtime.clock.now() - overdueMs).length > 0) found.push(definition.pipeline)
  }
  return found
}
