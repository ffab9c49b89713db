// Which receivers a cause goes to, and whether they want it at this hour. Pure.
import { Temporal } from '../../core/temporal.ts'
import { type Cause, type Severity, severityOf } from '../../core/alarm.ts'
import type { QuietHours, Route, Weekday } from '../../core/alarm-routes.ts'

/** Tags of a pipeline's definition; none where it has none. */
export type TagsOf = (pipeline: string) => Readonly<Record<string, string>>

/** Names of the receivers, each once, in the order of the routes. */
export const receiversOf = (routes: readonly Route[], cause: Cause, tagsOf: TagsOf): readonly string[] => [
  ...new Set(routes.filter((route) => matches(route, cause, tagsOf)).flatMap(({ to }) => to)),
]

/** A cause that concerns no single pipeline matches no route for some of them. */
const matches = ({ kinds, severities, pipelines, tags }: Route, cause: Cause, tagsOf: TagsOf): boolean => {
  const { kind, pipeline } = cause
  if (kinds !== null && !kinds.includes(kind)) return false
  if (severities !== null && !severities.includes(severityOf(cause))) return false
  if (pipelines !== null && (pipeline === null || !pipelines.includes(pipeline))) return false
  const own = pipeline === null ? {} : tagsOf(pipeline)
  return Object.entries(tags).every(([name, value]) => own[name] === value)
}

/** Days looked ahead for the end of quiet hours: more whole days than a week has are no quiet hours. */
const mostDays = 8

/** Milliseconds until a message so severe may go; 0: now. @param nowMs since the epoch */
export const quietForMs = (quiet: QuietHours | null, severity: Severity, nowMs: number): number => {
  if (quiet === null || quiet.but.includes(severity)) return 0
  let at = Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(quiet.timeZone)
  const end = at.add({ days: mostDays })
  while (Temporal.ZonedDateTime.compare(at, end) < 0) {
    const next = quietUntil(quiet, at)
    if (next === null) return Math.max(0, at.epochMilliseconds - nowMs)
    at = next
  }
  return 0
}

/** When that stretch of quiet ends; null: it is none. */
const quietUntil = ({ hours, days }: QuietHours, at: Temporal.ZonedDateTime): Temporal.ZonedDateTime | null => {
  const midnight = at.startOfDay()
  if (days.includes(at.dayOfWeek as Weekday)) return midnight.add({ days: 1 })
  if (hours === null || hours.from === hours.to) return null
  const minute = at.hour * 60 + at.minute
  const endOn = (day: Temporal.ZonedDateTime): Temporal.ZonedDateTime =>
    day.withPlainTime({ hour: Math.floor(hours.to / 60), minute: hours.to % 60 })
  if (hours.from < hours.to) return minute >= hours.from && minute < hours.to ? endOn(midnight) : null
  if (minute >= hours.from) return endOn(midnight.add({ days: 1 }))
  return minute < hours.to ? endOn(midnight) : null
}
