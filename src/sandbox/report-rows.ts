// The rows of a report, one after the other: the cross product of what was asked, less what the service has no data for.
import type { ReportQuery, ReportWorld, TableQuery } from './report-query.ts'
import { type Cell, isPresent, shopperValues, trafficValues } from './report-values.ts'
import { dimensionSize, dimensionValue, type MetricSpec, type Vtable, vtables } from './vtables.ts'

/** Text by column; null where there is no value. */
export type ReportRow = readonly (string | null)[]

export interface ReportShape {
  /** Names of the key columns: domain, country or category_id, date, and those of dimensions. */
  readonly keys: readonly string[]
  readonly metrics: readonly string[]
}

const vtableOf = ({ vtable }: TableQuery): Vtable | null => (vtable === null ? null : (vtables.get(vtable) ?? null))

const unique = (names: readonly string[]): string[] => [...new Set(names)]

/** Columns of the file; tables asked for together share one file. */
export const shapeOf = ({ kind, tables }: ReportQuery): ReportShape => ({
  keys: [
    'domain',
    kind === 'shopper' ? 'category_id' : 'country',
    'date',
    ...unique(tables.flatMap((table) => vtableOf(table)?.dimension?.column ?? [])),
  ],
  metrics: unique(tables.flatMap(({ metrics }) => metrics)),
})

/** Every row in the order of `shapeOf`. The same query and world give the same rows. */
export function* reportRows(query: ReportQuery, world: ReportWorld): Generator<ReportRow> {
  const shape = shapeOf(query)
  for (const table of query.tables) {
    const vtable = vtableOf(table)
    const specs = metricSpecs(vtable, table.metrics)
    const values = (cell: Cell): (string | null)[] =>
      vtable === null ? shopperValues(cell, table.metrics, world) : trafficValues(cell, specs, world)
    const keyColumns = shape.keys.slice(3).map((name) => name === vtable?.dimension?.column)
    const metricAt = shape.metrics.map((name) => table.metrics.indexOf(name))
    for (const cell of cellsOf(table, vtable)) {
      if (!isPresent(cell, world)) continue
      const row = values(cell)
      const extra = keyColumns.map((isOwn) => (isOwn && vtable !== null ? dimensionValue(vtable, cell.part) : null))
      yield [cell.domain, cell.place, cell.date, ...extra, ...metricAt.map((index) => row[index] ?? null)]
    }
  }
}

export const countRows = (query: ReportQuery, world: ReportWorld): number => {
  if (world.reportRows !== null) return world.reportRows
  let rows = 0
  for (const table of query.tables) for (const cell of cellsOf(table, vtableOf(table))) if (isPresent(cell, world)) rows += 1
  return rows
}

const metricSpecs = (vtable: Vtable | null, names: readonly string[]): MetricSpec[] =>
  names.flatMap((name) => vtable?.metrics.find((metric) => metric.name === name) ?? [])

const monthShares = { daily: 1 / 30, weekly: 7 / 30, monthly: 1 } as const

function* cellsOf(table: TableQuery, vtable: Vtable | null): Generator<Cell> {
  const parts = vtable === null ? 1 : dimensionSize(vtable)
  const { includeSubdomains } = table
  const monthShare = monthShares[table.granularity]
  for (const date of table.dates) {
    for (const domain of table.domains) {
      for (const place of table.places) {
        for (let part = 0; part < parts; part += 1) yield { domain, place, date, part, includeSubdomains, monthShare }
      }
    }
  }
}
