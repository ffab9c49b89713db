// A report whose file holds several tables: the definition names the one it reads; without a name nothing is guessed.
import { describe, expect, test } from 'vitest'
import { column, decodeCopy, definitionOf, failureOf, parseBody, payloadOf } from './parsing.ts'
import { createAnswerParser } from '../../../src/parse/parse.ts'
import { createParseReport } from '../../../src/parse/parse-report.ts'
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

  test('is one table where the same columns come again in another order, and back in the first', async () => {
    const turned = 'VISITS,date,domain\n3,2026-01,b.com\n'
    const { rows: found, report } = await parse(undefined, 'csv', own + turned + own)
    expect(found).toEqual([...rows, ['b.com', '2026-01-01', '3'], ...rows])
    expect(report).toMatchObject({ read: 5, rejects: 0, passedOver: 0, unknownColumns: [], missingColumns: [] })
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
    for (const section of ['traffic', 2]) {
      const { rows: found, report } = await parse(section, 'json', page)
      expect(found).toEqual(rows)
      // The service counts the records of the other lists, too.
      expect(report).toMatchObject({ read: 2, passedOver: 1, cellsLeftOut: { least: 0, most: 3 } })
    }
    expect((await parse('none', 'json', page)).report.empty).toBe(true)
  })

  test('reads its own list whatever stands among the records of another', async () => {
    const torn = page.replace('"rank":7}', '"rank":7},null,[1,{"a":2}],"words",5')
    const { rows: found, report } = await parse('traffic', 'json', torn)
    expect(found).toEqual(rows)
    expect(report).toMatchObject({ read: 2, cellsLeftOut: { least: 0, most: 3 } })
  })

  test('is refused where none is named, and where it has no such list', async () => {
    expect(await failure(undefined, 'json', page)).toMatch(
      /more than one list of records: website, traffic; .*report: \{ section/,
    )
    expect(await failure('geography', 'json', page)).toMatch(/holds no list of records.*expected `geography`/)
  })
})

/** Files of one answer, by name, through one parser. */
const parseFiles = async (section: number | string | undefined, format: 'csv' | 'json', files: Record<string, string>) => {
  const report = createParseReport()
  const parser = createAnswerParser(planOf(section), report)
  const of = Object.keys(files)
  let copy = ''
  for (const [index, [name, body]] of Object.entries(files).entries())
    for await (const chunk of parser.parse({ ...payloadOf(format, body, 7), part: index + 1, file: { name, of } }))
      copy += chunk.copy
  return { rows: decodeCopy(copy + (parser.rest()?.copy ?? '')), report }
}

const lines = (...records: readonly object[]): string => records.map((record) => `${JSON.stringify(record)}\n`).join('')
const ownRecords = [
  { domain: 'a.com', date: '2026-01', visits: 1 },
  { domain: 'b.com', date: '2026-01', visits: 2 },
]
const ranks = [
  { rank: 7, domain: 'a.com', date: '2026-01' },
  { rank: 8, domain: 'b.com', date: '2026-01' },
]
const channels = [{ country: 'US', date: '2026-01', channel: 'mail', channel_visits: 3 }]

describe('an answer of several files', () => {
  const inCsv = { website: others[0] ?? '', channels: others[1] ?? '', traffic: own }
  const inJson = { website: lines(...ranks), channels: JSON.stringify({ data: channels }), traffic: JSON.stringify(ownRecords) }

  test.each([
    ['csv', inCsv, 4],
    ['json', inJson, 3],
  ] as const)(
    'gives the rows of the %s file that the definition names, by its name or its place',
    async (format, files, other) => {
      for (const section of ['traffic', 3]) {
        const { rows: found, report } = await parseFiles(section, format, files)
        expect(found).toEqual(rows)
        expect(report).toMatchObject({ read: 2, rejects: 0, passedOver: other, unknownColumns: [], missingColumns: [] })
      }
    },
  )

  test.each([
    ['csv', inCsv],
    ['json', inJson],
  ] as const)('in %s is refused where none is named, or one that is not there, with the names of all', async (format, files) => {
    expect(await failureOf(parseFiles(undefined, format, files))).toMatch(
      /^BAD_RESPONSE: Part 2, line 1: a second table begins .*report: \{ section: 1 \}.* or name of another \(files: website, channels, traffic\)/s,
    )
    expect(await failureOf(parseFiles('geography', format, files))).toMatch(
      /^BAD_RESPONSE: .* 3 tables \(files: website, channels, traffic\); .*names 'geography'/s,
    )
  })

  test('is one table where all have the same fields: a large report in pieces loads whole', async () => {
    for (const [format, body] of [
      ['csv', own],
      ['json', lines(...ownRecords)],
    ] as const) {
      const { rows: found, report } = await parseFiles(undefined, format, { 'part-1': body, 'part-2': body })
      expect(found).toEqual([...rows, ...rows])
      expect(report).toMatchObject({ read: 4, passedOver: 0 })
    }
  })
})

describe('a second CSV file without a header', () => {
  test('is said to have none, with what stands there and what was expected; `section` would leave its rows out', async () => {
    const files = { 'part-1': own, 'part-2': 'c.com,2026-01,3\nd.com,2026-01,4\n' }
    for (const section of [undefined, 1]) {
      const said = await failureOf(parseFiles(section, 'csv', files))
      expect(said).toMatch(
        /^BAD_RESPONSE: Part 2, line 1: the file has no header: found c\.com, 2026-01, 3; expected domain, date, visits/,
      )
      expect(said).not.toContain('section')
    }
  })

  test('is passed over where the definition names another file', async () => {
    const { rows: found } = await parseFiles('part-1', 'csv', { 'part-1': own, 'part-2': 'c.com,2026-01,3\n' })
    expect(found).toEqual(rows)
  })
})

describe('JSON records of several tables, one after the other', () => {
  test.each([
    ['the second', 2, lines(...ranks, ...ownRecords, ...channels)],
    ['the first, whatever comes between its records', 1, lines(ownRecords[0] ?? {}, ...ranks, ownRecords[1] ?? {})],
    ['the third, in one list', 3, JSON.stringify([...channels, ...ranks, ...ownRecords])],
  ])('give those of the table that the definition names by its place: %s', async (_, section, body) => {
    for (const size of [1, 7, 1_000]) {
      const { rows: found, report } = await parse(section, 'json', body, size)
      expect(found).toEqual(rows)
      expect(report).toMatchObject({ read: 2, rejects: 0, unknownColumns: [], missingColumns: [] })
      expect(report.passedOver).toBeGreaterThan(1)
    }
  })

  test('that say the name of their table are told apart by it, even with the same fields', async () => {
    const body = lines(
      ...ownRecords.map((one) => ({ vtable: 'mobile', ...one, visits: 9 })),
      ...ownRecords.map((one) => ({ vtable: 'all', ...one })),
    )
    for (const section of ['all', 2]) expect((await parse(section, 'json', body)).rows).toEqual(rows)
    expect(await failure(undefined, 'json', body)).toMatch(
      /^BAD_RESPONSE: Part 1, line 3: a second table begins .*such as 'all'/s,
    )
    expect(await failure('desktop', 'json', body)).toMatch(/holds 2 tables; .*names 'desktop'/s)
  })

  test('are refused where none is named, with the fields of both and what to write', async () => {
    expect(await failure(undefined, 'json', lines(...ownRecords, ...channels))).toMatch(
      /^BAD_RESPONSE: Part 1, line 3: a second table begins \(country, channel, channel_visits\) under that of .*visits.*report: \{ section: 1 \}/s,
    )
  })

  test('are one table where records lack what each may lack, and a new field is no table', async () => {
    const body = lines(
      { domain: 'a.com', date: '2026-01', note: 'x' },
      { ...ownRecords[1], note: 'y' },
      { domain: 'a.com', date: '2026-01' },
    )
    expect((await parse(undefined, 'json', body)).rows).toHaveLength(3)
    const first = lines({ domain: 'a.com', date: '2026-01' }, ...ownRecords)
    expect((await parse(undefined, 'json', first)).rows).toEqual([['a.com', '2026-01-01', null], ...rows])
    expect((await parse(undefined, 'json', lines(...ranks))).report).toMatchObject({ read: 2, missingColumns: ['visits'] })
  })
})

test('JSON whose records all lack a part of the key is refused by the name of the column, not record by record', async () => {
  const renamed = ownRecords.map(({ domain, ...rest }) => ({ site: domain, ...rest }))
  for (const body of [lines(...renamed), JSON.stringify(renamed), JSON.stringify({ data: renamed })])
    expect(await failure(undefined, 'json', body)).toMatch(
      /^BAD_RESPONSE: No record of part 1 has 'domain' for key column 'domain'; .*: site\. Nothing was loaded/s,
    )
  const { report } = await parse(undefined, 'json', lines(...renamed, ...ownRecords))
  expect(report).toMatchObject({ read: 4, rejects: 2 })
  // More than are kept before the answer fails for their number.
  expect(await failure(undefined, 'json', lines(...Array.from({ length: 101_000 }, () => renamed[0] ?? {})))).toMatch(
    /^BAD_RESPONSE: No record/,
  )
})
