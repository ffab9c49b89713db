// A report whose file holds several tables: the definition names the one it reads; without a name nothing is guessed.
import { describe, expect, test } from 'vitest'
import { column, definitionOf, failureOf, parseBody, payloadOf } from './parsing.ts'
import { compileParsePlan } from '../../../src/parse/parse-plan.ts'
import { generalReport } from '../../../src/sources/web-analytics/batch-reports.ts'

const columns = [
  column('domain', 'text', { isKey: true, normalize: 'domain' }),
  column('date', 'date', { isKey: true, normalize: 'period_start' }),
  column('visits', 'bigint'),
]
const planOf = (section?: number | string) => {
  const definition = definitionOf(columns)
  const report = { ...definition.report, ...(section === undefined ? {} : { section }) }
  const window = { from: '2026-01-01', to: '2026-02-01' }
  const slice = { domain: ['a.com', 'b.com'] }
  return compileParsePlan({ ...definition, report }, { key: 'test', pipeline: 'test', version: 1, window, slice }, generalReport)
}
const parse = (section: number | string | undefined, format: 'csv' | 'json', body: string, size?: number) =>
  parseBody(planOf(section), payloadOf(format, body, size))
const failure = (section: number | string | undefined, format: 'csv' | 'json', body: string) =>
  failureOf(parse(section, format, body))

const own = 'domain,date,visits\na.com,2026-01,1\nb.com,2026-01,2\n'
const rows = [
  ['a.com', '2026-01-01', '1'],
  ['b.com', '2026-01-01', '2'],
]
/** One as wide, one wider, one that says it has no rows. */
const others = [
  'domain,date,rank\na.com,2026-01,7\nb.com,2026-01,8\n',
  'domain,country,date,channel,channel_visits\na.com,US,2026-01,mail,3\na.com,US,2026-01,paid,4\n',
  'domain,date,pages\nNo data returned\n',
]

describe('a CSV file of several tables', () => {
  test.each([0, 1, 2])('gives the rows of the table that the definition names, wherever it stands', async (at) => {
    const files = [...others.slice(0, at), own, ...others.slice(at)]
    for (const size of [1, 7, 1_000])
      for (const between of ['', '\n']) {
        const { rows: found, report } = await parse(at + 1, 'csv', files.join(between), size)
        expect(found).toEqual(rows)
        expect(report).toMatchObject({ read: 2, rejects: 0, passedOver: 4, unknownColumns: [], missingColumns: [] })
      }
  })

  test('is refused where none is named, with the tables and what to write; where the named one is not there, too', async () => {
    for (const other of others)
      expect(await failure(undefined, 'csv', own + other)).toMatch(
        /^BAD_RESPONSE: Part 1, line 4: a second table begins \(domain, .*write `report: \{ section: 1 \}`/s,
      )
    expect(await failure(3, 'csv', own + others[0])).toMatch(/^BAD_RESPONSE: Part 1 holds 2 tables; .*`report.section`.*3/s)
  })

  test('is one table where the same header comes again', async () => {
    const { rows: found, report } = await parse(undefined, 'csv', own + own.replaceAll('2026-01,', '2026-01-01,'))
    expect(found).toEqual([...rows, ...rows])
    expect(report).toMatchObject({ read: 4, rejects: 0 })
  })

  test('a row whose date cannot be read is no header', async () => {
    const { report } = await parse(undefined, 'csv', `${own}a.com,soon,3\nword,soon,words\n`)
    expect(report).toMatchObject({ read: 4, rejects: 2 })
  })
})

describe('a JSON page of several lists', () => {
  const page = JSON.stringify({
    website: [{ domain: 'a.com', date: '2026-01', rank: 7 }],
    traffic: [
      { domain: 'a.com', date: '2026-01', visits: 1 },
      { domain: 'b.com', date: '2026-01', visits: 2 },
    ],
    none: [],
  })

  test('gives the records of the list that the definition names, by its name or its place', async () => {
    for (const section of ['traffic', 2]) expect((await parse(section, 'json', page)).rows).toEqual(rows)
    expect((await parse('none', 'json', page)).report.empty).toBe(true)
  })

  test('is refused where none is named, and where it has no such list', async () => {
    expect(await failure(undefined, 'json', page)).toMatch(
      /more than one list of records: website, traffic; .*report: \{ section/,
    )
    expect(await failure('geography', 'json', page)).toMatch(/holds no list of records.*expected `geography`/)
  })
})
