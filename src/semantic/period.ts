// The period of a question: half-open days that cut no row, and the span that it is compared with.
import { type Grain, isFiscal, type Subject } from '../definition/semantic.ts'
import { Temporal } from '../core/temporal.ts'
import { alignDown, lastDay } from '../core/window.ts'
import { refuse, type SemanticQuery } from './query.ts'

/** Half-open. */
export interface Span {
  readonly from: string
  readonly to: string
}

export const lengthOf: Readonly<Record<Grain, { readonly days?: number; readonly months?: number }>> = {
  day: { days: 1 },
  week: { days: 7 },
  month: { months: 1 },
  quarter: { months: 3 },
  year: { months: 12 },
  fiscal_quarter: { months: 3 },
  fiscal_year: { months: 12 },
}

/** A length as an SQL interval. */
export const intervalOf = ({ days, months }: { readonly days?: number; readonly months?: number }): string =>
  months === undefined ? `${days} days` : `${months} months`

/** So many periods earlier. */
export const earlier = (date: string, grain: Grain, periods: number): string => {
  const { days = 0, months = 0 } = lengthOf[grain]
  return Temporal.PlainDate.from(date)
    .subtract({ days: days * periods, months: months * periods })
    .toString()
}

/** First day of the period that holds `date`. */
export const startOf = (date: string, grain: Grain): string => {
  if (grain === 'day' || grain === 'week' || grain === 'month') return alignDown(date, grain)
  const day = Temporal.PlainDate.from(date)
  return day.with({ day: 1, month: grain === 'year' ? 1 : day.month - ((day.month - 1) % 3) }).toString()
}

/** Last day of the period that holds `date`. */
const endOf = (date: string, grain: Grain): string =>
  Temporal.PlainDate.from(startOf(date, grain)).add(lengthOf[grain]).subtract({ days: 1 }).toString()

const dayOf = (text: string) => {
  try {
    return Temporal.PlainDate.from(text.length === 7 ? `${text}-01` : text, { overflow: 'reject' })
  } catch {
    return refuse(`'${text}' is not a day of the calendar.`, ['write months as 2026-01 and days as 2026-01-31'])
  }
}

/** The period of the question; null: none is named. Throws QueryRefusedError where it would cut through rows. */
export const spanOf = ({ time, name }: Subject, { period }: Pick<SemanticQuery, 'period'>): Span | null => {
  if (period === undefined) return null
  if (time === null) return refuse(`${name} has no time, so it takes no period.`, ['leave the period out'])
  const from = dayOf(period.from).toString()
  const to = dayOf(period.to)
    .add(period.to.length === 7 ? { months: 1 } : { days: 1 })
    .toString()
  if (to <= from) return refuse(`The period ${period.from} to ${period.to} ends before it begins.`, ['swap from and to'])
  const [rows = 'day'] = time.grains
  if (startOf(from, rows) !== from || startOf(to, rows) !== to)
    return refuse(`A row of ${name} covers a ${rows}; ${period.from} to ${period.to} covers only a part of one.`, [
      `give the period in whole ${rows}s, such as ${startOf(from, rows)} to ${endOf(lastDay({ from, to }), rows)}`,
    ])
  return { from, to }
}

/** Whether the span is exactly one period of that length. */
export const isOnePeriod = ({ from, to }: Span, grain: Grain): boolean =>
  startOf(from, grain) === from && Temporal.PlainDate.from(from).add(lengthOf[grain]).toString() === to

/** Whether the span cuts no period at either end. False for fiscal periods: only the database knows their bounds. */
export const isWholePeriods = ({ from, to }: Span, grain: Grain): boolean =>
  !isFiscal(grain) && startOf(from, grain) === from && startOf(to, grain) === to

export type Shift = ReturnType<typeof shiftOf>

/** How far back a comparison goes: a year; with a grain one period; else the length of the span. `interval` is for SQL; `byMonths`: month is compared with month. */
export const shiftOf = (span: Span, compare: 'previous' | 'year', grain: Grain | null) => {
  const step: { readonly days?: number; readonly months?: number } =
    compare === 'year' ? { months: 12 } : grain === null ? lengthOfSpan(span) : lengthOf[grain]
  const byMonths = step.months !== undefined && (grain === null || lengthOf[grain].months !== undefined)
  const back = (date: string): string => {
    const then = Temporal.PlainDate.from(date).subtract(step)
    // A leap day has no counterpart a year earlier.
    return (byMonths || then.add(step).equals(date) ? then : then.add({ days: 1 })).toString()
  }
  return { interval: intervalOf(step), byMonths, before: { from: back(span.from), to: back(span.to) } }
}

const lengthOfSpan = ({ from, to }: Span): { readonly days: number } | { readonly months: number } => {
  const [start, end] = [Temporal.PlainDate.from(from), Temporal.PlainDate.from(to)]
  const months = (end.year - start.year) * 12 + end.month - start.month
  return start.day === 1 && end.day === 1 ? { months } : { days: start.until(end, { largestUnit: 'days' }).days }
}
