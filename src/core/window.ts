// Calendar arithmetic on windows: half-open inside, inclusive for people.
import { isDay } from './cast-cell.ts'
import { EtlError, usageError } from './errors.ts'
import { Temporal } from './temporal.ts'
import type { IsoDate, PublicationCalendar, Window, WindowSize } from './types.ts'

const plainDate = (date: IsoDate) => Temporal.PlainDate.from(date)

/** First day of the month, ISO week (Monday) or day that holds `date`. */
export const alignDown = (date: IsoDate, size: WindowSize): IsoDate => {
  const day = plainDate(date)
  if (size === 'day') return day.toString()
  if (size === 'week') return day.subtract({ days: day.dayOfWeek - 1 }).toString()
  return day.with({ day: 1 }).toString()
}

/** The date `count` windows after `date` (before it when negative). */
export const addWindows = (date: IsoDate, size: WindowSize, count: number): IsoDate => {
  const span = size === 'day' ? { days: count } : size === 'week' ? { weeks: count } : { months: count }
  return plainDate(date).add(span).toString()
}

export const windowAt = (date: IsoDate, size: WindowSize): Window => {
  const from = alignDown(date, size)
  return { from, to: addWindows(from, size, 1) }
}

/** Every window from the one holding `from` to the one holding the day before `to` (half-open), oldest first. */
export const windowsBetween = (from: IsoDate, to: IsoDate, size: WindowSize): Window[] => {
  const windows: Window[] = []
  for (let start = alignDown(from, size); start < to; start = addWindows(start, size, 1)) windows.push(windowAt(start, size))
  return windows
}

/** `YYYY-MM` or `YYYY-MM-DD` as a first day; throws USAGE naming `what`. */
export const parsePeriod = (text: string, what: string): IsoDate => {
  const full = /^\d{4}-\d{2}$/.test(text) ? `${text}-01` : text
  if (isDay(full)) return full
  throw new EtlError('USAGE', `${what} is '${text}'; write a month as YYYY-MM, for example 2026-01.`)
}

/** The days of bi.dim_date, half-open: rows outside could not be joined. */
const calendar = { from: '2015-01-01', to: '2050-01-01' }

/** The inclusive range that a person wrote (`2026-01`, `2026-03`) as a half-open span. Throws USAGE when it runs backwards. */
export const inclusiveRange = (fromText: string, toText: string, size: WindowSize): Window => {
  const from = alignDown(parsePeriod(fromText, '--from'), size)
  const last = parsePeriod(toText, '--to')
  const end = /^\d{4}-\d{2}$/.test(toText) ? addWindows(last, 'month', 1) : addWindows(last, 'day', 1)
  if (end <= from) throw new EtlError('USAGE', `--from ${fromText} lies after --to ${toText}; swap them.`)
  if (parsePeriod(fromText, '--from') < calendar.from || end > calendar.to) {
    throw usageError(`--from ${fromText} --to ${toText} is outside the calendar of bi, 2015-01 to 2049-12.`)
  }
  const to = alignDown(end, size)
  return { from, to: to < end ? addWindows(to, size, 1) : to }
}

/** `2026-01` for a month, `2026-01-05` for a day, `2026-01-05..2026-01-11` for a week. */
export const showWindow = (window: Window): string => {
  const last = addWindows(window.to, 'day', -1)
  if (window.from.endsWith('-01') && addWindows(window.from, 'month', 1) === window.to) return window.from.slice(0, 7)
  return last === window.from ? window.from : `${window.from}..${last}`
}

/** One window as `showWindow`; several months as `2024-01..2026-12`. */
export const showSpan = (span: Window): string => {
  const isMonths = span.from.endsWith('-01') && span.to.endsWith('-01')
  if (!isMonths || addWindows(span.from, 'month', 1) === span.to) return showWindow(span)
  return `${span.from.slice(0, 7)}..${addWindows(span.to, 'month', -1).slice(0, 7)}`
}

export const lastDay = (window: Window): IsoDate => addWindows(window.to, 'day', -1)

/** The calendar day it is in `timeZone` at `nowMs`. */
export const dateIn = (nowMs: number, timeZone: string): IsoDate =>
  Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(timeZone).toPlainDate().toString()

/** `2026-11-23 16:16`, as clocks in `timeZone` show it at `nowMs`. */
export const timeIn = (nowMs: number, timeZone: string): string =>
  Temporal.Instant.fromEpochMilliseconds(nowMs)
    .toZonedDateTimeISO(timeZone)
    .toPlainDateTime()
    .toString({ smallestUnit: 'minute' })
    .replace('T', ' ')

/** The day on which `window` is published: `afterDays` after its end, else day `publishedOn` of the month after its last day. */
export const publicationDate = (window: Window, calendar: PublicationCalendar): IsoDate =>
  calendar.afterDays !== undefined
    ? addWindows(window.to, 'day', calendar.afterDays)
    : dayOfMonth(addWindows(alignDown(lastDay(window), 'month'), 'month', 1), calendar.publishedOn)

/** Whether the service ended the table before this window. */
export const isPastEnd = (window: Window, { until }: PublicationCalendar): boolean => until !== undefined && window.from >= until

/** Whether the service said that it has the window, or the calendar says so. A window after the table's end is never published. */
export const isPublished = (window: Window, calendar: PublicationCalendar, nowMs: number): boolean =>
  !isPastEnd(window, calendar) && isPublishedByDay(window, calendar, nowMs)

/** The same, without regard to the table's end. */
export const isPublishedByDay = (window: Window, calendar: PublicationCalendar, nowMs: number): boolean =>
  lastDay(window) <= (calendar.released?.availableTo ?? '') ||
  publicationDate(window, calendar) <= dateIn(nowMs, calendar.timeZone)

/** Start of `date` in `timeZone`, in milliseconds since the epoch. */
const startOfDayMs = (date: IsoDate, timeZone: string): number => plainDate(date).toZonedDateTime({ timeZone }).epochMilliseconds

/** The last moment up to now at which the service published or restated anything (milliseconds since the epoch). */
export const lastRestatementMs = (calendar: PublicationCalendar, nowMs: number): number => {
  const today = dateIn(nowMs, calendar.timeZone)
  if (calendar.afterDays !== undefined) return startOfDayMs(today, calendar.timeZone)
  const month = alignDown(today, 'month')
  const days = [...new Set([calendar.publishedOn, ...calendar.restatedOn])]
  const dates = [addWindows(month, 'month', -1), month].flatMap((start) => days.map((day) => dayOfMonth(start, day)))
  const early = earlyRelease(calendar)
  const past = dates.filter((date) => date <= today && !(early !== null && date > early.on && date <= early.insteadOf)).sort()
  return Math.max(startOfDayMs(past.at(-1) ?? month, calendar.timeZone), Math.min(early?.atMs ?? 0, nowMs))
}

/** A release that came before its calendar day replaces that day, so that no window is requested twice. */
const earlyRelease = ({ released, ...calendar }: PublicationCalendar) => {
  if (released === undefined) return null
  const newest = { from: released.availableTo, to: addWindows(released.availableTo, 'day', 1) }
  const insteadOf = publicationDate(newest, calendar)
  const on = dateIn(released.heardMs, calendar.timeZone)
  return on < insteadOf ? { on, insteadOf, atMs: released.heardMs } : null
}

/** That day of the month, or its last one where it has no such day. @param month any day of it */
export const dayOfMonth = (month: IsoDate, day: number): IsoDate =>
  plainDate(month).with({ day }, { overflow: 'constrain' }).toString()
