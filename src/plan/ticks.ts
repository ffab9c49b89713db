// Which ticks a schedule had, by node-cron's reading of its expression, which of them were not taken, and which one is next.
import { createTask } from 'node-cron'
import { dataOf } from '../core/release-month.ts'
import { accountName } from '../core/source-spec.ts'
import { Temporal } from '../core/temporal.ts'
import type { Schedule, Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { lastRunMs, lastTickMs, newestRunTick, releasesSince, type WakingRelease } from '../ledger/data-releases.ts'
import type { PlanRuntime } from './plan-runtime.ts'

const minuteMs = 60_000
/** Ticks older than this are not caught up one by one; what is due is derived from the ledger anyway. */
const longestGapMs = 40 * 24 * 60 * minuteMs

type Matcher = (wallMs: number) => boolean

interface WallClock {
  /** Whether the schedule ticks at that wall-clock minute, written as if it were UTC. */
  readonly matches: Matcher
  /** Minutes of a day on which it can tick at all. */
  readonly minutes: readonly number[]
}

const wallClocks = new Map<string, WallClock>()

const matcherOf = (cron: string): Matcher => {
  const task = createTask(cron, () => undefined, { timezone: 'UTC' })
  return (wallMs) => task.match(new Date(wallMs))
}

/** node-cron checks one minute at a time, and slowly: so it is called once for each minute of a day, and once for each day that has one of them. */
const wallClockOf = (cron: string): WallClock => {
  const known = wallClocks.get(cron)
  if (known !== undefined) return known
  const [minute, hour, ...date] = fieldsOf(cron)
  const anyDay = matcherOf(`${minute} ${hour} * * *`)
  const anyMinute = matcherOf(`* * ${date.join(' ')}`)
  const minutes = Array.from({ length: 1_440 }, (_, index) => index).filter((index) => anyDay(index * minuteMs))
  const inDay = new Set(minutes)
  let [lastDay, isDay] = [Number.NaN, false]
  const matches: Matcher = (wallMs) => {
    const minuteOfDay = (wallMs % dayLengthMs) / minuteMs
    if (!inDay.has(minuteOfDay)) return false
    const day = wallMs - minuteOfDay * minuteMs
    if (day !== lastDay) [lastDay, isDay] = [day, anyMinute(day)]
    return isDay
  }
  const clock = { matches, minutes }
  wallClocks.set(cron, clock)
  return clock
}

const fieldsOf = (cron: string): readonly string[] => cron.trim().split(/\s+/)

/**
 * Ticks in (afterMs, untilMs], oldest first, by the wall clock of the schedule's zone. A time that daylight saving skips ticks once, at the
 * first minute after the gap; a repeated one ticks once, the first time. A schedule of every hour knows no such times: it ticks by the hour.
 */
export const ticksBetween = (schedule: Schedule, afterMs: number, untilMs: number): number[] => {
  const firstMs = Math.floor(Math.max(afterMs, untilMs - longestGapMs) / minuteMs) * minuteMs + minuteMs
  if (firstMs > untilMs) return []
  const hourly = ['*', '*/1'].includes(fieldsOf(schedule.cron)[1] ?? '')
  const found = hourly ? instantsOf(schedule, firstMs, untilMs) : wallTimesOf(schedule, firstMs, untilMs)
  const ticks = new Set(found.filter((at) => at >= firstMs && at <= untilMs))
  return [...ticks].sort((a, b) => a - b)
}

const zoned = (ms: number, timeZone: string) => Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timeZone)

/** Every minute that passes, by what the wall clock shows then. */
const instantsOf = ({ cron, timeZone }: Schedule, firstMs: number, untilMs: number): number[] => {
  const { matches } = wallClockOf(cron)
  const ticks: number[] = []
  let at = zoned(firstMs, timeZone)
  while (at.epochMilliseconds <= untilMs) {
    const change = at.getTimeZoneTransition('next')?.epochMilliseconds ?? Number.POSITIVE_INFINITY
    const offsetMs = at.offsetNanoseconds / 1e6
    let ms = at.epochMilliseconds
    for (; ms <= untilMs && ms < change; ms += minuteMs) if (matches(ms + offsetMs)) ticks.push(ms)
    at = zoned(ms, timeZone)
  }
  return ticks
}

/** Every day's wall-clock times, each as the one moment it means. Begins a day earlier, since a gap may contain midnight. */
const wallTimesOf = ({ cron, timeZone }: Schedule, firstMs: number, untilMs: number): number[] => {
  const { matches, minutes } = wallClockOf(cron)
  const lastDayMs = dayOf(untilMs, timeZone)
  const ticks: number[] = []
  for (let dayMs = dayOf(firstMs, timeZone) - dayLengthMs; dayMs <= lastDayMs; dayMs += dayLengthMs)
    for (const minute of minutes) {
      const wallMs = dayMs + minute * minuteMs
      if (matches(wallMs)) ticks.push(momentOf(wallMs, timeZone))
    }
  return ticks
}

const dayLengthMs = 1_440 * minuteMs

/** First minute of the day it is in the zone, written as if it were UTC. */
const dayOf = (ms: number, timeZone: string): number => {
  const wallMs = ms + zoned(ms, timeZone).offsetNanoseconds / 1e6
  return Math.floor(wallMs / dayLengthMs) * dayLengthMs
}

/** A repeated time is its first occurrence; a skipped one is the moment the gap ends. */
const momentOf = (wallMs: number, timeZone: string): number => {
  const wall = zoned(wallMs, 'UTC').toPlainDateTime()
  const earlier = wall.toZonedDateTime(timeZone, { disambiguation: 'earlier' })
  if (earlier.toPlainDateTime().equals(wall)) return earlier.epochMilliseconds
  return earlier.getTimeZoneTransition('next')?.epochMilliseconds ?? earlier.epochMilliseconds
}

/** How far ahead ticks are searched: a schedule of one 29 February may wait eight years. */
const furthestMs = 9 * 366 * dayLengthMs

/** The next `count` ticks after `nowMs`, in milliseconds since the epoch; fewer where they lie further than nine years ahead. */
export const nextTicks = (schedule: Schedule, count: number, nowMs: number): number[] => {
  const ticks: number[] = []
  let stepMs = dayLengthMs
  for (
    let after = nowMs;
    ticks.length < count && after < nowMs + furthestMs;
    after += stepMs, stepMs = Math.min(stepMs * 2, longestGapMs)
  )
    ticks.push(...ticksBetween(schedule, after, after + stepMs))
  return ticks.slice(0, count)
}

/** Versions of a pipeline that have a schedule run together, at the ticks of the first: the one that readers see, else the newest. */
export interface Scheduled {
  readonly pipeline: string
  readonly versions: readonly Definition[]
  readonly schedule: Schedule
}

export const scheduledOf = (definitions: readonly Definition[]): Scheduled[] => {
  const scheduled = definitions.filter(({ schedule }) => schedule !== null)
  return [...Map.groupBy(scheduled, ({ pipeline }) => pipeline)].flatMap(([pipeline, versions]) => {
    const schedule = versions[0]?.schedule ?? null
    return schedule === null ? [] : [{ pipeline, versions, schedule }]
  })
}

/** A tick that is this late was missed: `catch_up` says what becomes of it, and people are notified. */
export const lateMs = 60 * minuteMs

/** Ticks since the last one on record that no process claimed and no manual run made up for, oldest first. A pipeline that never ticked has missed none. */
export const untakenTicks = async (
  runtime: Pick<PlanRuntime, 'database' | 'clock'>,
  { pipeline, schedule }: Scheduled,
): Promise<number[]> => {
  const { kysely } = runtime.database
  const last = await lastTickMs(kysely, pipeline)
  if (last === null) return []
  const untaken = ticksBetween(schedule, last, runtime.clock.now())
  const runMs = untaken.length === 0 ? 0 : ((await lastRunMs(kysely, pipeline)) ?? 0)
  return untaken.filter((dueMs) => dueMs > runMs)
}

interface TickQuery {
  readonly nowMs: number
  /** Where the pipeline never ticked, ticks from then on count. */
  readonly sinceMs: number
  /** The asking process, where it works on no run of the pipeline; else null. */
  readonly idle: string | null
}

/**
 * What a scheduler does next for the pipeline, by the ledger alone: the newest tick that no process claimed, which covers those before it, then releases of
 * data since, one by one; with `catch_up: all` the oldest of them all. null: nothing is due.
 * `waits`: it begins after the present run has ended. `readyMs`: since when it could have been claimed.
 */
export const nextTick = async (db: Db, { pipeline, versions, schedule }: Scheduled, { nowMs, sinceMs, idle }: TickQuery) => {
  const lastMs = (await lastTickMs(db, pipeline, idle)) ?? sinceMs
  const run = await newestRunTick(db, pipeline, idle)
  // A tick that came while a run was at work had to wait for it: that does not make the tick late.
  const hadToWait = (dueMs: number): boolean => run !== null && Date.parse(run.claimed_at) <= dueMs
  const readyOf = (dueMs: number): number => (hadToWait(dueMs) ? Math.max(dueMs, Date.parse(run?.finished_at ?? '') || 0) : dueMs)
  const isLate = (dueMs: number): boolean => readyOf(dueMs) < nowMs - lateMs
  const isOwed = (dueMs: number): boolean => dueMs > lastMs && !(schedule.catchUp === 'none' && isLate(dueMs))
  const ticks = ticksBetween(schedule, lastMs, nowMs).filter(isOwed)
  const released = (await releasesSince(db, lastMs))
    .filter((one) => versions.some((version) => concerns(version, one)))
    .map(({ heardMs }) => heardMs)
  const releases = released.filter(isOwed)
  const dueMs = schedule.catchUp === 'all' ? [...ticks, ...releases].sort((a, b) => a - b)[0] : (ticks.at(-1) ?? releases[0])
  if (dueMs === undefined) return null
  const isAtWork = run?.is_at_work === true
  const inTime = ticks.includes(dueMs) ? (isLate(dueMs) ? 'caught up' : 'on time') : 'released'
  const kind = isAtWork && inTime === 'on time' && schedule.overlap === 'skip' ? 'skipped' : inTime
  return { dueMs, kind, waits: isAtWork && kind !== 'skipped', readyMs: readyOf(dueMs) } as const
}

const concerns = (definition: Definition, { account, every }: WakingRelease): boolean =>
  accountName(definition) === account && dataOf(definition.window.every) === every
