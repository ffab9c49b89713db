import { describe, expect, test } from 'vitest'
import type { Fault } from '../../../src/sandbox/fault-kinds.ts'
import { parseOptions } from '../../../src/sandbox/sandbox-options.ts'
import type { ReportQuery, ReportWorld, TableQuery } from '../../../src/sandbox/report-query.ts'
import { priceOf } from '../../../src/sandbox/report-query.ts'
import { countRows } from '../../../src/sandbox/report-rows.ts'
import { reportText } from '../../../src/sandbox/report-text.ts'

const months = ['2026-01-01', '2026-02-01', '2026-03-01']
const manyDomains = Array.from({ length: 60 }, (_, index) => `shop${index}.example`)

const table = (patch: Partial<TableQuery> = {}): TableQuery => ({
  vtable: 'traffic_and_engagement',
  granularity: 'monthly',
  domains: manyDomains,
  places: ['US', 'WW'],
  includeSubdomains: true,
  metrics: ['all_traffic_visits', 'mobile_visits'],
  dates: months,
  ...patch,
})
const query = (patch: Partial<TableQuery> = {}, more: Partial<ReportQuery> = {}): ReportQuery => ({
  kind: 'report',
  format: 'csv',
  tables: [table(patch)],
  ...more,
})
const world = (patch: Partial<ReportWorld> = {}): ReportWorld => ({
  seed: 1,
  generations: new Map(),
  reportRows: null,
  hostile: false,
  sparse: false,
  unknown: new Set(),
  ...patch,
})

interface Options {
  readonly csv?: Partial<ReturnType<typeof parseOptions>['csv']>
  readonly faults?: readonly Fault[]
}

const text = (asked: ReportQuery, where: ReportWorld = world(), { csv = {}, faults = [] }: Options = {}): string => {
  const content = new Map(faults.map((fault) => [fault.kind, fault]))
  const rows = countRows(asked, where)
  return Buffer.concat([
    ...reportText({ query: asked, world: where, csv: { ...parseOptions({}).csv, ...csv }, faults: content, rows, key: 'k' }),
  ]).toString()
}
const lines = (asked: ReportQuery, where?: ReportWorld, options?: Options): string[] =>
  text(asked, where, options).trimEnd().split(/\r?\n/)

describe('a report', () => {
  test('begins with domain, country, date and the metrics as asked, and has the same bytes each time', () => {
    expect(lines(query())[0]).toBe('domain,country,date,all_traffic_visits,mobile_visits')
    expect(text(query())).toBe(text(query()))
    expect(text(query(), world({ seed: 2 }))).not.toBe(text(query()))
  })

  test('has a row for most of what was asked, and counts them beforehand', () => {
    const rows = lines(query()).length - 1
    expect(rows).toBe(countRows(query(), world()))
    expect(rows).toBeGreaterThan(340)
    expect(rows).toBeLessThan(360)
  })

  test('a value is the same in whichever report it is asked for', () => {
    const alone = query({ domains: ['shop7.example'], places: ['WW'], metrics: ['mobile_visits'], dates: ['2026-02-01'] })
    const wide = lines(query()).find((line) => line.startsWith('shop7.example,WW,2026-02-01'))
    expect(lines(alone)[1]?.split(',').at(-1)).toBe(wide?.split(',').at(-1))
  })

  test('a restatement changes that month alone: some values, a row that goes, a row that comes', () => {
    const before = lines(query())
    const after = lines(query(), world({ generations: new Map([['2026-02', 1]]) }))
    const others = (list: readonly string[]): string[] =>
      list.filter((line) => !line.includes('2026-02-01')).map((line) => line.replace(/,null|,$/, ','))
    expect(others(after)).toEqual(others(before))
    const keysOf = (list: readonly string[]): Set<string> => new Set(list.map((line) => line.split(',').slice(0, 3).join()))
    const [had, has] = [keysOf(before), keysOf(after)]
    expect([...had].some((key) => !has.has(key))).toBe(true)
    expect([...has].some((key) => !had.has(key))).toBe(true)
    const changed = after.filter(
      (line) => line.includes('2026-02-01') && !before.includes(line) && had.has(line.split(',').slice(0, 3).join()),
    )
    expect(changed.length).toBeGreaterThan(15)
    expect(changed.length).toBeLessThan(80)
  })

  test('spells a missing value as an empty cell and as null', () => {
    expect(text(query())).toMatch(/,\n/)
    expect(text(query())).toMatch(/,null\n/)
    expect(text(query(), world(), { csv: { nulls: 'empty' } })).not.toContain('null')
  })

  test('a table with a dimension has its column after the date', () => {
    const channels = lines(
      query({
        vtable: 'traffic_sources',
        metrics: ['channel_visits'],
        domains: ['a.example'],
        places: ['WW'],
        dates: ['2026-01-01'],
      }),
    )
    expect(channels[0]).toBe('domain,country,date,channel,channel_visits')
    expect(channels.slice(1).every((line) => line.split(',').length === 5)).toBe(true)
    expect(channels.length).toBeGreaterThan(5)
  })

  test('tables asked for together share one file', () => {
    const two: ReportQuery = {
      kind: 'report',
      format: 'csv',
      tables: [table(), table({ vtable: 'traffic_sources', metrics: ['channel_visits'] })],
    }
    const [header, first] = lines(two)
    expect(header).toBe('domain,country,date,channel,all_traffic_visits,mobile_visits,channel_visits')
    expect(first?.split(',')).toHaveLength(7)
  })

  test('the shopper report has category_id, and cvr is units over views', () => {
    const metrics = ['product_views', 'units_sold', 'revenue', 'cvr'].map((name) => `category_sales_performance_${name}`)
    const [header, ...rows] = lines(query({ vtable: null, places: ['1001', '1002'], metrics }, { kind: 'shopper' }))
    expect(header).toBe(`domain,category_id,date,${metrics.join(',')}`)
    const full = rows
      .map((row) => row.split(',').slice(3).map(Number))
      .filter((cells) => cells.every(Number.isFinite) && (cells[1] ?? 0) > 0)
    for (const [views = 0, units = 0, , cvr = 0] of full) expect(cvr).toBeCloseTo(units / views, 5)
  })

  test('as JSON it is one object a line with the same names and numbers', () => {
    const [first] = lines(query({}, { format: 'json' })).map((line): Record<string, unknown> => JSON.parse(line))
    expect(Object.keys(first ?? {})).toEqual(['domain', 'country', 'date', 'all_traffic_visits', 'mobile_visits'])
    const [, row] = lines(query())
    expect(String(first?.['all_traffic_visits'])).toBe(row?.split(',')[3])
  })

  test('a domain the service does not know gives no rows, said as "No data returned"', () => {
    const unknown = world({ unknown: new Set(['a.example']) })
    expect(text(query({ domains: ['a.example'] }), unknown)).toBe('No data returned\n')
    expect(text(query({ domains: ['a.example'] }, { format: 'json' }), unknown)).toBe('')
  })

  test('costs domains x metrics x periods x countries', () => {
    expect(
      priceOf(
        query({
          domains: ['a.example', 'b.example'],
          metrics: ['a', 'b'],
          places: ['US', 'GB', 'FR', 'DE'],
          dates: Array.from({ length: 13 }, () => ''),
        }),
      ),
    ).toBe(208)
  })
})

describe('csv quirks', () => {
  test('byte order mark, CRLF, other order, a further column and months without a day', () => {
    expect(text(query(), world(), { csv: { bom: true } }).startsWith('\ufeffdomain')).toBe(true)
    expect(text(query(), world(), { csv: { crlf: true } })).toMatch(/^[^\n]+\r\n/)
    const shuffled = lines(query(), world(), { csv: { shuffleColumns: true } })[0]?.split(',') ?? []
    expect(shuffled.toSorted()).toEqual(['all_traffic_visits', 'country', 'date', 'domain', 'mobile_visits'])
    expect(shuffled).not.toEqual(['domain', 'country', 'date', 'all_traffic_visits', 'mobile_visits'])
    expect(lines(query(), world(), { csv: { extraColumn: true } })[0]).toMatch(/,source_version$/)
    expect(lines(query(), world(), { csv: { months: 'month' } })[1]).toMatch(/^shop0\.example,US,2026-01,/)
  })
})

describe('content faults', () => {
  const row = (number: number, fault: Fault): string | undefined => lines(query(), world(), { faults: [fault] })[number]
  const whole = lines(query())

  test('spoil the row they name and no other', () => {
    expect(row(2, { kind: 'bad-number', row: 2 })).toContain(',12.3x,')
    expect(row(2, { kind: 'short-row', row: 2 })?.split(',')).toHaveLength(3)
    expect(row(2, { kind: 'unclosed-quote', row: 2 })).toMatch(/^"shop/)
    expect(row(2, { kind: 'nul-bytes', row: 2 })).toMatch(/^sho\0p/)
    expect(row(3, { kind: 'bad-number', row: 2 })).toBe(whole[3])
  })

  test('duplicates come at once, the same or with another value', () => {
    expect(row(3, { kind: 'duplicate-rows', row: 2 })).toBe(whole[2])
    const conflict = row(3, { kind: 'conflicting-rows', row: 2 })
    expect(conflict?.split(',').slice(0, 3)).toEqual(whole[2]?.split(',').slice(0, 3))
    expect(conflict).not.toBe(whole[2])
  })

  test('quoted line breaks leave every row right', () => {
    const noted = text(query(), world(), { faults: [{ kind: 'quoted-newline' }] })
    expect(noted).toMatch(/,note\n/)
    expect(noted).toContain('"a note, with\na ""second"" line"\n')
  })
})

describe('shares of the parts of a month', () => {
  const sharesOf = (vtable: string, metrics: readonly string[]): number[] =>
    lines(query({ vtable, metrics, domains: ['a.example'], places: ['US'], dates: ['2026-01-01'] }), world())
      .slice(1)
      .map((line) => Number(line.split(',').at(-1)))

  test.each([
    ['traffic_sources', ['channel_visits', 'channel_share'], 0.8],
    ['referrals', ['referral_visits', 'referral_share'], 0.5],
  ])('of %s add up to one, less rows that are not there', (vtable, metrics, least) => {
    const total = sharesOf(vtable, metrics).reduce((sum, share) => sum + share, 0)
    expect(total).toBeGreaterThan(least)
    expect(total).toBeLessThanOrEqual(1.001)
  })
})

describe('a report of any size', () => {
  const big = world({ reportRows: 50_000 })
  const referrals = query({
    vtable: 'referrals',
    metrics: ['referral_visits', 'referral_share'],
    domains: ['a.example', 'b.example'],
    dates: ['2026-01-01'],
  })

  test.each([
    ['traffic_and_engagement', query()],
    ['referrals', referrals],
  ])('%s has the rows wanted, each with a key of its own', (_, asked) => {
    const rows = lines(asked, big).slice(1)
    const keys = asked === referrals ? 4 : 3
    expect(rows).toHaveLength(50_000)
    expect(new Set(rows.map((line) => line.split(',').slice(0, keys).join())).size).toBe(50_000)
    expect(text(asked, big)).toBe(text(asked, big))
  })

  test('a restatement of its month changes it', () => {
    const restated = lines(referrals, { ...big, generations: new Map([['2026-01', 1]]) })
    expect(restated).toHaveLength(50_001)
    expect(restated).not.toEqual(lines(referrals, big))
    expect(lines(referrals, { ...big, generations: new Map([['2026-02', 1]]) })).toEqual(lines(referrals, big))
  })
})
