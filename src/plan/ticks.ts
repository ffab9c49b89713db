// Which ticks a schedule had, as the scheduler itself reads its cron expression, and which of them were not taken.
import { createTask } from 'node-cron'
import { Temporal } from '../core/temporal.ts'
import type { Schedule, Definition } from '../core/types.ts'
import type { PlanRuntime } from './plan-runtime.ts'
import { lastTickMs } from '../ledger/releases.ts'

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

/** node-cron answers for one minute at a time, and slowly: it is asked once for each minute of a day, and once for each day that has one of them. */
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
  const hourly = (fieldsOf(schedule.cron)[1] ?? '').startsWith('*')
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

/** Every day's wall-clock times, each as the one moment it stands for. From a day earlier: a gap may hold midnight. */
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

export interface Scheduled {
  readonly definition: Definition
  readonly schedule: Schedule
}

export const scheduledOf = (definitions: readonly Definition[]): Scheduled[] =>
  definitions.flatMap((definition) => (definition.schedule === null ? [] : [{ definition, schedule: definition.schedule }]))

/** Ticks between the last one on record and now that were not taken, oldest first. A pipeline that never ticked has missed none. */
export const untakenTicks = async (
  runtime: Pick<PlanRuntime, 'database' | 'clock'>,
  { definition, schedule }: Scheduled,
): Promise<number[]> => {
  const last = await lastTickMs(runtime.database.kysely, definition.pipeline)
  return last === null ? [] : ticksBetween(schedule, last, runtime.clock.now())
}

/** Those of them that a start of `schedule` takes, as `catch_up` says. */
export const missedTicks = async (runtime: Pick<PlanRuntime, 'database' | 'clock'>, entry: Scheduled): Promise<number[]> => {
  const { catchUp } = entry.schedule
  if (catchUp === 'none') return []
  const missed = await untakenTicks(runtime, entry)
  return catchUp === 'all' ? missed : missed.slice(-1)
}
