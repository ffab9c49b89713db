// Generates the rows of a report: the cross product of the request, without rows for which the service has no data.
import { factorOf, generationOf } from './publication-calendar.ts'
import { combine, hashText, unit } from './hash.ts'
import type { ReportQuery, ReportWorld, TableQuery } from './report-query.ts'
import { dimensionSize, dimensionValue, type MetricSpec, vtableOf } from './vtables.ts'

/** Texts in the order of the columns; null: no value. */
export type ReportRow = readonly (string | null)[]

const unique = (names: readonly string[]): string[] => [...new Set(names)]

/** Columns of the file; tables requested together share one file. */
export const shapeOf = ({ kind, tables }: ReportQuery) => ({
  keys: [
    'domain',
    kind === 'shopper' ? 'category_id' : 'country',
    'date',
    ...unique(tables.flatMap((table) => vtableOf(table)?.dimension?.column ?? [])),
  ],
  metrics: unique(tables.flatMap(({ metrics }) => metrics)),
})

/** Every row, with columns as in `shapeOf`; exactly `reportRows` rows where that is set. The same query and world give the same rows. */
export function* reportRows(query: ReportQuery, world: ReportWorld): Generator<ReportRow> {
  const shape = shapeOf(query)
  let left = world.reportRows ?? Number.POSITIVE_INFINITY
  for (const table of query.tables) {
    const { dimension = null, metrics = [] } = vtableOf(table) ?? {}
    const keyColumns = shape.keys.slice(3).map((name) => name === dimension?.column)
    const specs = shape.metrics.map((name) =>
      table.metrics.includes(name) ? metrics.find((metric) => metric.name === name) : undefined,
    )
    for (const cell of cellsOf(table, world)) {
      if (world.reportRows === null && !isPresent(cell, world)) continue
      if (left === 0) return
      left -= 1
      const traffic = trafficOf(table.vtable === null ? { ...cell, place: `category ${cell.place}` } : cell, world)
      const share = (): number => shareOf(traffic, cell, dimension?.values?.length ?? null, world)
      const extra = keyColumns.map((isOwn) => (isOwn ? dimensionValue(dimension, cell.part) : null))
      const values = specs.map((spec) => (spec === undefined ? null : metricValue(spec, traffic, cell, world, share)))
      yield [cell.domain, cell.place, cell.date, ...extra, ...values]
    }
  }
}

export const countRows = (query: ReportQuery, world: ReportWorld): number => {
  if (world.reportRows !== null) return world.reportRows
  let rows = 0
  for (const table of query.tables) for (const cell of cellsOf(table, world)) if (isPresent(cell, world)) rows += 1
  return rows
}

const monthShares = { daily: 1 / 30, weekly: 7 / 30, monthly: 1 } as const

/** Cells of a table. If `reportRows` needs more: further values of the table's dimension where these are free, else further domains. */
function* cellsOf(table: TableQuery, { reportRows: wanted }: ReportWorld): Generator<Cell> {
  const { dates, domains, places, includeSubdomains, granularity } = table
  const dimension = vtableOf(table)?.dimension ?? null
  const most = (wanted ?? 0) / (dates.length * places.length)
  const size = dimensionSize(dimension)
  const parts = dimension?.values === null ? Math.max(size, Math.ceil(most / domains.length)) : size
  const monthShare = monthShares[granularity]
  for (const date of dates)
    for (let index = 0; index < Math.max(domains.length, Math.ceil(most / parts)); index += 1)
      for (const place of places)
        for (let part = 0; part < parts; part += 1)
          yield { domain: domains[index] ?? `site-${index}.example`, place, date, part, includeSubdomains, monthShare }
}

interface Cell {
  readonly domain: string
  /** Country or category. */
  readonly place: string
  readonly date: string
  /** Index of the table's dimension value; 0 where there is none. */
  readonly part: number
  readonly includeSubdomains: boolean
  /** The period's length as a share of a month. */
  readonly monthShare: number
}

/** How often the month of the date was restated for the domain. */
const generationAt = ({ generations }: ReportWorld, { date, domain }: Cell): number =>
  generationOf(generations, date.slice(0, 7), domain)

const hashOf = ({ domain, place, date, part }: Cell, world: ReportWorld): number =>
  combine(hashText(`${domain}|${place}|${date}`, world.seed), part)

/** Whether the row exists: some are missing, and a restatement removes a few and adds a few. */
const isPresent = (cell: Cell, world: ReportWorld): boolean => {
  if (world.unknown.has(cell.domain)) return false
  const hash = hashOf(cell, world)
  if (world.sparse && combine(hash, 102) % 3 !== 0) return false
  const generation = generationAt(world, cell)
  const absent = combine(hash, 101) % 60 === 0
  if (generation === 0) return !absent
  return absent ? combine(hash, 200 + generation) % 2 === 0 : combine(hash, 300 + generation) % 60 !== 0
}

/** A restatement changes three rows in ten, by up to 6 percent. */
const restatement = (hash: number, generation: number): number => {
  if (generation === 0 || combine(hash, 400 + generation) % 10 >= 3) return 1
  return 1.01 + 0.05 * unit(combine(hash, 500 + generation))
}

const season = (month: number): number => 1 + 0.12 * Math.sin(((month - 3) / 12) * 2 * Math.PI) + (month >= 11 ? 0.15 : 0)

/** Visits of a month, before the noise of the single period. */
const monthlyVisits = ({ domain, place, date, includeSubdomains }: Cell, world: ReportWorld): number => {
  const size = hashText(domain, world.seed)
  const country = place === 'WW' ? 1 : 0.02 + 0.35 * unit(hashText(`${domain}|${place}`, world.seed)) ** 2
  const months = (Number(date.slice(0, 4)) - 2020) * 12 + Number(date.slice(5, 7))
  const growth = 1 + months * 0.002 * (unit(combine(size, 1)) - 0.3)
  return 10 ** (5.5 + 2.5 * unit(size)) * country * growth * season(Number(date.slice(5, 7))) * (includeSubdomains ? 1 : 0.87)
}

type Traffic = ReturnType<typeof trafficOf>

const trafficOf = (cell: Cell, world: ReportWorld) => {
  const hash = hashOf(cell, world)
  const noise = 0.92 + 0.16 * unit(hash)
  const part = cell.part === 0 ? 1 : 1 / (cell.part + 1)
  const visits =
    monthlyVisits(cell, world) *
    cell.monthShare *
    noise *
    part *
    restatement(hash, generationAt(world, cell)) *
    factorOf(world.methods ?? [], cell.date.slice(0, 7))
  const desktop = 0.25 + 0.5 * unit(hashText(cell.domain, world.seed + 1))
  return { desktop: visits * desktop, mobile: visits * (1 - desktop), hash }
}

/** The share of visits of one of `parts` values of a table's dimension; null: no fixed number, shares add up to at most 1. */
const shareOf = ({ desktop, mobile, hash }: Traffic, cell: Cell, parts: number | null, world: ReportWorld): number => {
  if (parts === null) return (0.5 + 0.5 * unit(combine(hash, 4))) / ((cell.part + 1) * (cell.part + 2))
  const all = Array.from({ length: parts }, (_, part) => trafficOf({ ...cell, part }, world))
  return (desktop + mobile) / all.reduce((total, one) => total + one.desktop + one.mobile, 0)
}

/** Two decimals for counts, as at the service, four for rates. */
const decimals = (value: number, digits: number): string => String(Number(value.toFixed(digits)))

/** The metric's text in a row, or null where there is no value. All values of a row agree with each other. */
const metricValue = (
  { kind }: MetricSpec,
  traffic: Traffic,
  { place }: Cell,
  { hostile, seed }: ReportWorld,
  share: () => number,
): string | null => {
  const { desktop, mobile, hash } = traffic
  const chance = combine(hash, 7)
  if (kind === 'visits') return hostile ? hostileVisits(desktop + mobile, chance) : decimals(desktop + mobile, 2)
  if (kind === 'desktop') return decimals(desktop, 2)
  // Some sites have no value for a device.
  if (kind === 'mobile') return chance % 25 === 0 ? null : decimals(mobile, 2)
  if (kind === 'desktop-unique') return decimals(desktop * 0.61, 0)
  if (kind === 'mobile-unique') return chance % 25 === 0 ? null : decimals(mobile * 0.68, 0)
  if (kind === 'pages') return chance % 40 === 1 ? null : decimals((desktop + mobile) * ratio(hash), 2)
  if (kind === 'ratio') return decimals(ratio(hash), 4)
  if (kind === 'seconds') return decimals(30 + 400 * unit(combine(hash, 3)), 2)
  if (kind === 'share') return decimals(share(), 4)
  if (kind === 'rate') return decimals(0.2 + 0.5 * unit(combine(hash, 4)), 4)
  const views = Math.round((desktop + mobile) * 0.4)
  const units = Math.round(views * (0.005 + 0.04 * unit(combine(hash, 1))))
  if (kind === 'views') return String(views)
  if (kind === 'units') return combine(hash, 5) % 30 === 0 ? null : String(units)
  if (kind === 'revenue') return decimals(units * (5 + 120 * unit(hashText(place, seed)) ** 2), 2)
  return views === 0 ? null : decimals(units / views, 6)
}

const ratio = (hash: number): number => 1.5 + 6 * unit(combine(hash, 2))

const hostileVisits = (visits: number, chance: number): string => {
  if (chance % 5 === 0) return '9007199254740993'
  return chance % 5 === 1 ? '12345678901234567890.12345678901234567891' : chance % 5 === 2 ? '1.5e3' : decimals(visits, 2)
}
