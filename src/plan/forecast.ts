// What the nights until the end of the month will ask for, by the service's own calendar. Pure.
import type { Definition, IsoDate } from '../core/types.ts'
import { addWindows, alignDown, dateIn } from '../core/window.ts'

/** Days of this month after today on which reports are bought: a release brings a new window, a restatement those of the look-back. */
export const nightsToCome = (
  { window }: Pick<Definition, 'window'>,
  nowMs: number,
): { readonly date: IsoDate; readonly windows: number }[] => {
  const { publishedOn, restatedOn, timeZone } = window.publication
  const today = dateIn(nowMs, timeZone)
  const end = addWindows(alignDown(today, 'month'), 'month', 1)
  const nights: { date: IsoDate; windows: number }[] = []
  for (let date = addWindows(today, 'day', 1); date < end; date = addWindows(date, 'day', 1)) {
    const day = Number(date.slice(8))
    const isLast = addWindows(date, 'day', 1) === end
    // A day that the month does not have is its last one.
    const is = (of: number): boolean => of === day || (isLast && of > day)
    const isRelease = is(publishedOn)
    if (isRelease) nights.push({ date, windows: Math.max(1, window.lookBack) })
    else if (restatedOn.some(is) && window.lookBack > 0) nights.push({ date, windows: window.lookBack })
  }
  return nights
}

/** Units that these nights buy. @param values combinations of the lists' values */
export const unitsToCome = (definition: Pick<Definition, 'window'>, values: number, nowMs: number): number =>
  nightsToCome(definition, nowMs).reduce((total, { windows }) => total + windows * values, 0)
