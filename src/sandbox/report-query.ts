// The content of a checked submission, in one shape for both kinds of report.
import { addWindows, alignDown } from '../core/window.ts'
import type { Generations, Methods } from './publication-calendar.ts'
import type { Granularity } from './vtables.ts'

export interface TableQuery {
  /** Null: the shopper report. */
  readonly vtable: string | null
  readonly granularity: Granularity
  readonly domains: readonly string[]
  /** Upper case or WW; for the shopper report, category ids. */
  readonly places: readonly string[]
  readonly includeSubdomains: boolean
  readonly metrics: readonly string[]
  /** First days of the periods. */
  readonly dates: readonly string[]
}

export interface ReportQuery {
  readonly kind: 'report' | 'shopper'
  readonly format: 'csv' | 'json'
  readonly tables: readonly TableQuery[]
}

/** Everything that decides a report's values; fixed at the submission, so that a later restatement does not change them. */
export interface ReportWorld {
  readonly seed: number
  readonly generations: Generations
  /** Default: no change of method. */
  readonly methods?: Methods
  readonly reportRows: number | null
  readonly hostile: boolean
  /** Only a third of the rows exists. */
  readonly sparse: boolean
  /** Domains without data. */
  readonly unknown: ReadonlySet<string>
}

/** First days of the periods between two days, both inclusive; a week belongs to the span that contains its Monday. */
export const periodsBetween = (from: string, to: string, granularity: Granularity): string[] => {
  const dates: string[] = []
  const size = granularity === 'daily' ? 'day' : granularity === 'weekly' ? 'week' : 'month'
  const aligned = alignDown(from, size)
  const start = aligned < from ? addWindows(aligned, size, 1) : aligned
  for (let date = start; date <= to; date = addWindows(date, size, 1)) dates.push(date)
  return dates
}

/** Credits a report costs: domains x metrics x periods x countries. */
export const priceOf = ({ tables }: ReportQuery): number =>
  tables.reduce(
    (sum, { domains, metrics, dates, places }) => sum + domains.length * metrics.length * dates.length * places.length,
    0,
  )

/** `none`: `data_points_count` is left out. */
export const dataPoints = ['rows', 'cells', 'non-empty', 'none'] as const
export type DataPoints = (typeof dataPoints)[number]
