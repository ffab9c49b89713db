// Forecasts the units that the nights until the end of the month will buy, by the service's calendar. Pure.
import type { IsoDate, WindowRule } from './types.ts'
import { addWindows, alignDown, dateIn } from './window.ts'

/** Days of the service's month after `after` on which reports are bought: at a release the new window and the look-back, at a restatement the look-back. */
const nightsAfter = (window: WindowRule, after: IsoDate, nowMs: number) => {
  const { publishedOn, afterDays, restatedOn, timeZone } = window.publication
  const end = addWindows(alignDown(dateIn(nowMs, timeZone), 'month'), 'month', 1)
  const nights: { readonly date: IsoDate; readonly windows: number }[] = []
  for (let date = addWindows(after, 'day', 1); date < end; date = addWindows(date, 'day', 1)) {
    const day = Number(date.slice(8))
    const isLast = addWindows(date, 'day', 1) === end
    // In a shorter month, a day such as the 31st is its last day.
    const is = (of: number): boolean => of === day || (isLast && of > day)
    const isRelease = afterDays !== undefined || is(publishedOn)
    if (isRelease) nights.push({ date, windows: Math.max(1, window.lookBack) })
    else if (restatedOn.some(is) && window.lookBack > 0) nights.push({ date, windows: window.lookBack })
  }
  return nights
}

/** Units still to buy this month, where the last purchase was at `askedMs`: calendar days missed since then are bought together in one night. */
export const unitsStillToCome = (window: WindowRule, values: number, askedMs: number, nowMs: number): number => {
  const today = dateIn(nowMs, window.publication.timeZone)
  const nights = nightsAfter(window, dateIn(askedMs, window.publication.timeZone), nowMs)
  const missed = nights.filter(({ date }) => date <= today).map(({ windows }) => windows)
  const later = nights.filter(({ date }) => date > today).map(({ windows }) => windows)
  return (Math.max(0, ...missed) + later.reduce((total, windows) => total + windows, 0)) * values
}
