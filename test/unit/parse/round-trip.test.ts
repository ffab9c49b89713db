// Any row survives: written as CSV or JSON, parsed, and read back from COPY text.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { column, decodeArray, parseBody, payloadOf, planOf } from './parsing.ts'

/** More of them where someone has the time: PROPERTY_RUNS=20000. */
const runs = Number(process.env['PROPERTY_RUNS'] ?? 60)

const columns = [
  column('id', 'integer', { isKey: true }),
  column('word', 'text', { isKey: true }),
  column('note', 'text'),
  column('big', 'bigint'),
  column('exact', 'numeric'),
  column('flag', 'boolean'),
  column('tags', 'text[]'),
]
const plan = planOf(columns)

const hostile = [
  'null',
  'NULL',
  'NA',
  'N/A',
  '-',
  'none',
  '',
  ' ',
  '007',
  '\\N',
  '\\.',
  '"',
  '""',
  ',',
  '\n',
  '\r\n',
  '\t',
  '1e5',
  '{a}',
  '[1]',
  '\ufeff',
  'x\ny',
]
const words = fc
  .oneof(
    fc.constantFrom(...hostile),
    fc.string({ unit: 'binary', maxLength: 30 }),
    fc.string({ unit: 'grapheme', maxLength: 30 }),
  )
  .filter((text) => text.isWellFormed() && !text.includes('\0'))
const exact = fc.oneof(
  fc.constantFrom('9007199254740993', '0.10', '-0.0', '1e-30', '1E+5', '0', `${'9'.repeat(40)}.${'1'.repeat(40)}`),
  fc
    .tuple(fc.bigInt(), fc.stringMatching(/^\d{0,25}$/))
    .map(([whole, fraction]) => (fraction === '' ? `${whole}` : `${whole}.${fraction}`)),
)
const rows = fc.array(
  fc.record({
    word: words,
    note: fc.option(words),
    big: fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
    exact: fc.option(exact),
    flag: fc.option(fc.boolean()),
    tags: fc.option(fc.array(fc.option(words, { freq: 9 }), { maxLength: 5 })),
  }),
  { minLength: 1, maxLength: 10 },
)

type Row = typeof rows extends fc.Arbitrary<(infer One)[]> ? One : never

const expected = (row: Row, at: number): unknown[] => [
  String(at),
  row.word,
  row.note,
  row.big === null ? null : String(row.big),
  row.exact,
  row.flag === null ? null : row.flag ? 't' : 'f',
  row.tags,
]

const decoded = (row: readonly (string | null)[]): unknown[] => [...row.slice(0, 6), row[6] == null ? null : decodeArray(row[6])]

const json = (row: Row, at: number): string =>
  `{"id":${at},"word":${JSON.stringify(row.word)},"note":${JSON.stringify(row.note)},"big":${row.big},"exact":${row.exact},` +
  `"flag":${row.flag},"tags":${JSON.stringify(row.tags)}}`

const layouts: Readonly<Record<string, (records: string[]) => string>> = {
  'a page': (records) => `{"meta":{"list":[{"a":1}]},"keywords":[${records.join(',')}],"keywords_count":${records.length}}`,
  'a list': (records) => `[\n${records.join(',\n')}\n]\n`,
  lines: (records) => records.join('\n'),
}

test.each(Object.entries(layouts))(
  'every row survives JSON as %s',
  async (_name, layout) => {
    await fc.assert(
      fc.asyncProperty(rows, fc.integer({ min: 1, max: 500 }), async (written, size) => {
        const body = layout(written.map(json))
        const { rows: read, report } = await parseBody(plan, payloadOf('json', body, size))
        expect(report.rejected).toEqual([])
        expect(read.map(decoded)).toEqual(written.map(expected))
      }),
      { numRuns: runs },
    )
  },
  600_000,
)

const csvCell = (cell: string): string => (/[",\r\n]|^$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

test('every row survives CSV', async () => {
  await fc.assert(
    fc.asyncProperty(rows, fc.integer({ min: 1, max: 500 }), fc.constantFrom('\n', '\r\n', '\r'), async (written, size, end) => {
      const lines = written.map((row, at) =>
        [
          String(at),
          csvCell(row.word),
          csvCell(row.note ?? ''),
          row.big ?? '',
          row.exact ?? '',
          row.flag ?? '',
          row.tags === null ? '' : csvCell(JSON.stringify(row.tags)),
        ].join(','),
      )
      const body = ['id,word,note,big,exact,flag,tags', ...lines].join(end) + end
      const { rows: read, report } = await parseBody(plan, payloadOf('csv', body, size))
      expect(report.rejected).toEqual([])
      // CSV has one spelling for an empty text and none at all.
      expect(read.map(decoded)).toEqual(
        written.map((row, at) => expected({ ...row, note: row.note === '' ? null : row.note }, at)),
      )
    }),
    { numRuns: runs },
  )
}, 600_000)
