// What a year must come to, from the rules alone: the service's calendar, the schedules, the nights that were taken. Knows nothing of the program.
import { addMonths, monthsBetween } from '../../src/sandbox/publication-calendar.ts'
import type { Pipeline } from './world.ts'
import { failingNight, outage, restatements } from './year.ts'

/** The service's day; its zone knows no daylight saving. */
const serviceHoursBehind = 5
const publishedOn = 10
const settlesOn = 14
/** Days on which the service may have restated, by the definition. */
const restatedOn = [10, 15]
const lookBack = 2

export interface WindowBooks {
  /** Loads that changed rows, the first one included: one a published version that was seen. */
  readonly versions: number
  /** Reports bought; 0 for keywords, which are looked at. */
  readonly bought: number
}

const serviceDay = (ms: number): string => new Date(ms - serviceHoursBehind * 3_600_000).toISOString().slice(0, 10)
const dayOf = (month: string, day: number): string => `${month}-${String(day).padStart(2, '0')}`

const isPublished = (month: string, ms: number): boolean => dayOf(addMonths(month, 1), publishedOn) <= serviceDay(ms)

/** Changes whenever the service's answer for the month does. */
const versionOf = ({ kind }: Pipeline, month: string, ms: number): string => {
  const generation = restatements.filter(({ at, month: restated }) => restated === month && Date.parse(at) <= ms).length
  // Only keywords have volumes and prices, which settle.
  const settled = kind === 'walk' && dayOf(addMonths(month, 1), settlesOn) <= serviceDay(ms)
  return `${generation}/${settled}`
}

/** The last day up to now on which the service may have restated. */
const lastRestatementDay = (ms: number): string => {
  const today = serviceDay(ms)
  const months = [addMonths(today.slice(0, 7), -1), today.slice(0, 7)]
  return (
    months
      .flatMap((month) => restatedOn.map((day) => dayOf(month, day)))
      .filter((day) => day <= today)
      .at(-1) ?? ''
  )
}

interface Held {
  version: string | null
  versions: number
  bought: number
  askedOn: string
}

/** @param nights when each night's work was done, in order. */
export const expectedBooks = (pipeline: Pipeline, nights: readonly number[], price: number): ReadonlyMap<string, WindowBooks> => {
  const windows = new Map<string, Held>()
  const spent = new Map<string, number>()
  for (const at of nights) {
    const isDown = pipeline.kind === 'walk' && at >= Date.parse(failingNight.from) && at < Date.parse(failingNight.to)
    if (isDown) continue
    const published = monthsBetween(pipeline.from, serviceDay(at).slice(0, 7)).filter((month) => isPublished(month, at))
    for (const month of published.toReversed()) {
      const held = windows.get(month) ?? { version: null, versions: 0, bought: 0, askedOn: '' }
      const inLookBack = published.indexOf(month) >= published.length - lookBack
      const due = held.version === null || (inLookBack && (pipeline.kind === 'walk' || held.askedOn < lastRestatementDay(at)))
      if (!due || !pay(pipeline, at, price, spent)) continue
      const version = versionOf(pipeline, month, at)
      windows.set(month, {
        version,
        versions: held.versions + (version === held.version ? 0 : 1),
        bought: held.bought + (pipeline.kind === 'report' ? 1 : 0),
        askedOn: serviceDay(at),
      })
    }
  }
  return new Map([...windows].map(([month, { versions, bought }]) => [month, { versions, bought }]))
}

const pay = ({ kind, quotaPerMonth }: Pipeline, at: number, price: number, spent: Map<string, number>): boolean => {
  if (kind === 'walk' || quotaPerMonth === null) return true
  const month = new Date(at).toISOString().slice(0, 7)
  const sum = (spent.get(month) ?? 0) + price
  if (sum > quotaPerMonth) return false
  spent.set(month, sum)
  return true
}

/** `raised held traffic_and_engagement 2026-01-01`, in the order of days. */
export const expectedMessages = (start: string, budgetIsSpentUntil: string): string[] => {
  const traffic = 'traffic_and_engagement'
  const shopper = 'shopper_category_performance'
  // What a budget leaves no room for waits and is bought by itself later: nobody has to do anything about it.
  const atStart = ['quota', 'quota'].flatMap((kind) => [
    `${start} raised ${kind} ${traffic}`,
    `${budgetIsSpentUntil} resolved ${kind} ${traffic}`,
  ])
  const drift = [traffic, shopper].flatMap((name) => [`2026-09-10 raised drift ${name}`, `2026-09-15 resolved drift ${name}`])
  const backOn = outage.to.slice(0, 10)
  const late = ['keywords', traffic, shopper].flatMap((name) => [
    `${backOn} raised late ${name}`,
    `${backOn} resolved late ${name}`,
  ])
  // The correction of February takes the last row of one unit, which waits for a person for the rest of the year.
  const shrunk = start < '2026-04-10' ? [`2026-04-10 raised held ${traffic}`] : []
  return [
    ...atStart,
    ...shrunk,
    ...drift,
    ...late,
    // The night without a service leaves its units waiting: the next one loads them, and nothing has failed.
  ].sort()
}
