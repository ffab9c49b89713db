// Generates the rows of answers; the same request always gives the same rows.
import { combine, hashText, unit } from '../hash.ts'
import { addMonths, monthsBetween } from '../publication-calendar.ts'
import { columnOf, type VendorTable } from './vendor-tables.ts'

export interface TableRequest {
  readonly table: VendorTable
  readonly granularity: string
  /** Values of each filter, in the order of `table.filters`. */
  readonly values: readonly (readonly string[])[]
  readonly metrics: readonly string[]
  readonly from: string
  readonly to: string
  /** Most rows for each value and month. */
  readonly limit: number
}

/** The whole quarters around a span: more than was asked for, and charged so (fact 52). */
export const quarters = ({ from, to }: { readonly from: string; readonly to: string }): { from: string; to: string } => {
  const firstOf = (text: string): string =>
    `${text.slice(0, 5)}${String(Number(text.slice(5)) - ((Number(text.slice(5)) - 1) % 3)).padStart(2, '0')}`
  return { from: firstOf(from), to: addMonths(firstOf(to), 2) }
}

const amount = (seed: number, text: string, most: number): number => Math.floor(unit(hashText(text, seed)) * most)

const cross = (lists: readonly (readonly string[])[]): string[][] =>
  lists.reduce<string[][]>((made, list) => made.flatMap((row) => list.map((value) => [...row, value])), [[]])

/** Rows that the service has, before any limit. */
const partsOf = ({ part }: VendorTable, seed: number, of: string): number =>
  part === null ? 1 : Math.max(1, part.rows - amount(seed, `parts ${of}`, Math.ceil(part.rows / 5)))

/** Header and rows of the file; the limit cuts each value and month alike. */
export const fileOf = (asked: TableRequest, seed: number, known: (value: string) => boolean) => {
  const { table, values, metrics, limit } = asked
  const header = [...table.filters.map(columnOf), 'date', ...(table.part === null ? [] : [table.part.column]), ...metrics]
  const rows = monthsBetween(asked.from, asked.to).flatMap((month) =>
    cross(values)
      .filter(([first = '']) => known(first))
      .flatMap((keys) => {
        const of = [table.name, ...keys, month].join('|')
        const count = Math.min(limit, partsOf(table, seed, of))
        return Array.from({ length: count }, (_, index) => [
          ...keys,
          `${month}-01`,
          ...(table.part === null ? [] : [`${table.part.column} ${String(index + 1).padStart(4, '0')}`]),
          ...metrics.map((metric) => measure(seed, metric, `${of}|${index}`, index)),
        ])
      }),
  )
  return { header, rows }
}

/** Falls with the rank, so that a limit keeps the top. */
const measure = (seed: number, metric: string, of: string, index: number): string => {
  if (/share|similarity|cvr|overlap|affinity/.test(metric))
    return (unit(hashText(`${metric} ${of}`, seed)) / (index + 1)).toFixed(6)
  return String(Math.floor((1e6 + amount(seed, `${metric} ${of}`, 9e6)) / (index + 1)))
}

/** Records of one page, best first, as the interface shows them (2.1). */
export const keywordRecords = (
  { domain, country, month }: Readonly<Record<'domain' | 'country' | 'month', string>>,
  seed: number,
  from: number,
  to: number,
): object[] =>
  Array.from({ length: Math.max(0, to - from) }, (_, index) => {
    const rank = from + index
    const hash = combine(hashText(`${domain}|${country}|${month}`, seed), rank)
    return {
      keyword: `keyword ${rank + 1} of ${domain}`,
      clicks: Math.floor((5e5 + (hash % 1000)) / (rank + 1)),
      traffic_share: Number((0.2 / (rank + 1)).toFixed(8)),
      difficulty: hash % 7 === 0 ? null : hash % 101,
      competition: hash % 5 === 0 ? null : hash % 100,
      primary_intent: hash % 3 === 0 ? 'Navigational' : 'Informational',
      secondary_intent: null,
      volume: 10 * (1 + (hash % 90_000)),
      cpc: (hash % 500) / 100,
      cpc_low_bid: (hash % 300) / 100,
      cpc_high_bid: (hash % 900) / 100,
      zero_clicks_share: (hash % 1000) / 1000,
      position: 1 + (hash % 60),
      serp_features: ['organic'],
      top_url: `${domain}/page-${rank % 50}`,
    }
  })
