// When months appear, settle and are restated, in the service's own time (EST, without daylight saving).
import { addWindows, dateIn } from '../core/window.ts'

/** EST all year. */
const serviceZone = '-05:00'
/** Day of the following month on which a month appears, and on which volume and CPC settle. */
const appearsOn = 10
const settlesOn = 14

/** Restatements so far, by month; a snapshot never changes. */
export type Generations = ReadonlyMap<string, number>

export interface Calendar {
  /** The service's date. */
  today(): string
  /** Milliseconds since the epoch. */
  nowMs(): number
  /** Newest month there is data for, `YYYY-MM`. */
  latestMonth(): string
  earliestMonth(): string
  /** Whether volume and CPC of the month have their final values. */
  isSettled(month: string): boolean
  /** Date of the last change to any of the months. */
  lastUpdated(months: readonly string[]): string
  generations(): Generations
  restate(month: string): void
}

export const addMonths = (month: string, months: number): string => addWindows(`${month}-01`, 'month', months).slice(0, 7)

export const monthsBetween = (from: string, to: string): string[] => {
  const months: string[] = []
  for (let month = from; month <= to; month = addMonths(month, 1)) months.push(month)
  return months
}

const dayAfter = (date: string): string => addWindows(date, 'day', 1)

export const createCalendar = (now: () => number, historyMonths: () => number): Calendar => {
  let generations: Generations = new Map()
  const restatedOn = new Map<string, string>()
  const today = (): string => dateIn(now(), serviceZone)
  const latestMonth = (): string => addMonths(today().slice(0, 7), Number(today().slice(8)) >= appearsOn ? -1 : -2)
  const isSettled = (month: string): boolean => `${addMonths(month, 1)}-${settlesOn}` <= today()
  const lastUpdated = (months: readonly string[]): string => months.map(updatedOn).sort().at(-1) ?? today()
  const updatedOn = (month: string): string => {
    const published = `${addMonths(month, 1)}-${isSettled(month) ? settlesOn : appearsOn}`
    const restated = restatedOn.get(month) ?? published
    return restated > published ? restated : published
  }
  return {
    today,
    nowMs: now,
    latestMonth,
    earliestMonth: () => addMonths(latestMonth(), 1 - historyMonths()),
    isSettled,
    lastUpdated,
    generations: () => generations,
    restate: (month) => {
      const before = updatedOn(month)
      // A second restatement on the same day must still be visible in a date.
      restatedOn.set(month, today() > before ? today() : dayAfter(before))
      generations = new Map(generations).set(month, (generations.get(month) ?? 0) + 1)
    },
  }
}
