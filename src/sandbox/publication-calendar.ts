// When months are published, become final and are restated, in the service's time (EST, without daylight saving).
import { addWindows, dateIn } from '../core/window.ts'

/** EST all year. */
const serviceZone = '-05:00'
/** Days of the following month on which a month is published, and on which volume and CPC become final. */
const appearsOn = 10
const settlesOn = 14

/** The number of restatements by month, or by month and domain where one domain was revised. Immutable. */
export type Generations = ReadonlyMap<string, number>

const placeOf = (month: string, domain: string): string => `${month} ${domain}`

/** How often the month was restated, for the domain. */
export const generationOf = (generations: Generations, month: string, domain: string): number =>
  (generations.get(month) ?? 0) + (generations.get(placeOf(month, domain)) ?? 0)

/** Changes of method: from the month on, values are multiplied by the factor. Immutable. */
export type Methods = readonly { readonly from: string; readonly factor: number }[]

export const factorOf = (methods: Methods, month: string): number =>
  methods.reduce((factor, one) => (one.from <= month ? factor * one.factor : factor), 1)

export type Calendar = ReturnType<typeof createCalendar>

export const addMonths = (month: string, months: number): string => addWindows(`${month}-01`, 'month', months).slice(0, 7)

export const monthsBetween = (from: string, to: string): string[] => {
  const months: string[] = []
  for (let month = from; month <= to; month = addMonths(month, 1)) months.push(month)
  return months
}

/** @param lateDays delay of the newest month in days, read at each call */
export const createCalendar = (now: () => number, historyMonths: () => number, lateDays: () => number = () => 0) => {
  let generations: Generations = new Map()
  let methods: Methods = []
  const restatedOn = new Map<string, string>()
  const today = (): string => dateIn(now(), serviceZone)
  /** Newest month there is data for, `YYYY-MM`. */
  const latestMonth = (): string => addMonths(today().slice(0, 7), Number(today().slice(8)) >= appearsOn + lateDays() ? -1 : -2)
  /** Whether volume and CPC of the month have their final values. */
  const isSettled = (month: string): boolean => `${addMonths(month, 1)}-${settlesOn}` <= today()
  /** Date of the last change to any of the months, of the domain. */
  const lastUpdated = (months: readonly string[], domain: string): string =>
    months
      .map((month) => updatedOn(month, domain))
      .sort()
      .at(-1) ?? today()
  const updatedOn = (month: string, domain: string): string => {
    const published = `${addMonths(month, 1)}-${isSettled(month) ? settlesOn : appearsOn}`
    const restated = [restatedOn.get(month), restatedOn.get(placeOf(month, domain))].flatMap((date) => date ?? [])
    return [published, ...restated].sort().at(-1) ?? published
  }
  // A second change on the same day moves the date to the next day, so that it is visible.
  const touch = (place: string, before: string): void => {
    restatedOn.set(place, today() > before ? today() : addWindows(before, 'day', 1))
  }
  return {
    today,
    nowMs: now,
    latestMonth,
    earliestMonth: () => addMonths(latestMonth(), 1 - historyMonths()),
    isSettled,
    lastUpdated,
    generations: () => generations,
    methods: () => methods,
    /** @param domain only this domain; default: every domain */
    restate: (month: string, domain?: string): void => {
      const place = domain === undefined ? month : placeOf(month, domain)
      touch(place, updatedOn(month, domain ?? ''))
      generations = new Map(generations).set(place, (generations.get(place) ?? 0) + 1)
    },
    /** Changes the method for the month and later ones: visits and clicks grow by `change`, a fraction. */
    changeMethod: (from: string, change: number): void => {
      for (const month of monthsBetween(from, latestMonth())) touch(month, updatedOn(month, ''))
      methods = [...methods, { from, factor: 1 + change }]
    },
  }
}
