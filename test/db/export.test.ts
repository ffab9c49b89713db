// A view as a file: every value comes back from CSV and Parquet, formulas are words, and a file is whole or not there.
import {
  chmodSync,
  chownSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { beforeAll, expect, test } from 'vitest'
import { exportView } from '../../src/semantic/export/export-view.ts'
import { everyRow } from '../support/every-row.ts'
import { testDatabase } from '../support/postgres.ts'
import { testFolder } from '../support/test-world.ts'

const db = testDatabase()
const folder = testFolder()

beforeAll(async () => {
  await db.database.pool.query(`create view bi.edges as select * from (values
    (1::bigint, 'plain', 9007199254740993::bigint, 0.10::numeric, true, '2024-02-29'::date, '2026-01-01T00:00:00.123456Z'::timestamptz, array['a', 'b,c']),
    (2, '=cmd()|x', null, 12345678901234567890.5, false, null, null, null),
    (3, E'-2+3\\nline "q"', -1, null, null, '1969-12-31', '1969-12-31T23:59:59Z', '{}'),
    (4, '@x', 0, -1.5, null, '9999-12-31', null, array['=1'])) as v (id, word, big, exact, flag, day, at, tags)`)
})

test('CSV holds every value, and no cell that a spreadsheet would run', async () => {
  const file = join(folder, 'edges.csv')
  expect(await exportView(db.database, { view: 'edges', format: 'csv', file, filter: everyRow })).toBe(4)
  const rows = parse(readFileSync(file), { columns: true }) as Record<string, string>[]
  expect(rows.map((row) => row['word'])).toEqual(['plain', "'=cmd()|x", `'-2+3\nline "q"`, "'@x"])
  expect(rows.map((row) => row['big'])).toEqual(['9007199254740993', '', '-1', '0'])
  expect(rows.map((row) => row['exact'])).toEqual(['0.10', '12345678901234567890.5', '', '-1.5'])
})

test('Parquet holds every value with its type', async () => {
  const file = join(folder, 'edges.parquet')
  expect(await exportView(db.database, { view: 'edges', format: 'parquet', file, filter: everyRow })).toBe(4)
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(file) })
  expect(rows.map((row) => row['word'])).toEqual(['plain', '=cmd()|x', '-2+3\nline "q"', '@x'])
  expect(rows.map((row) => row['big'])).toEqual([9007199254740993n, null, -1n, 0n])
  // This reader makes floats of them; the file holds every digit (export-months.test.ts).
  expect(rows.map((row) => row['exact'])).toEqual([0.1, expect.closeTo(1.2345678901234567e19, -5), null, -1.5])
  expect(rows.map((row) => row['flag'])).toEqual([true, false, null, null])
  const days = rows.map(({ day }) => (day instanceof Date ? day.toISOString().slice(0, 10) : day))
  expect(days).toEqual(['2024-02-29', null, '1969-12-31', '9999-12-31'])
  expect(rows.map((row) => row['tags'])).toEqual([['a', 'b,c'], undefined, [], ['=1']])
})

test('a link stays one, and what it names gets the rows, also where that is not there yet', async () => {
  for (const target of ['target.csv', 'later.csv']) {
    const link = join(folder, `link-to-${target}`)
    if (target === 'target.csv') writeFileSync(join(folder, target), 'old')
    symlinkSync(target, link)
    await exportView(db.database, { view: 'edges', format: 'csv', file: link, filter: everyRow })
    expect(readlinkSync(link)).toBe(target)
    expect(readFileSync(join(folder, target), 'utf8')).toContain('plain')
  }
})

test.each(['csv', 'parquet'] as const)(
  'a file keeps its owner and its rights, also where nobody may write to it: %s',
  async (format) => {
    for (const mode of [0o600, 0o444, 0o664]) {
      const file = join(folder, `mode-${mode}.${format}`)
      writeFileSync(file, 'old')
      const owner = process.getuid?.() === 0 ? 1_234 : statSync(file).uid
      chownSync(file, owner, owner === 1_234 ? 1_234 : statSync(file).gid)
      chmodSync(file, mode)
      await exportView(db.database, { view: 'edges', format, file, filter: everyRow })
      expect([statSync(file).mode & 0o777, statSync(file).uid, readFileSync(file, 'utf8') === 'old']).toEqual([
        mode,
        owner,
        false,
      ])
    }
  },
)

test('a view that fails halfway leaves no file', async () => {
  await db.database.pool.query(`create view bi.broken as select 1 / (n - 30000) as x from generate_series(1, 60000) n`)
  for (const format of ['csv', 'parquet'] as const) {
    const file = join(folder, `broken.${format}`)
    await expect(exportView(db.database, { view: 'broken', format, file, filter: everyRow })).rejects.toThrow(/division by zero/)
    expect(existsSync(file)).toBe(false)
  }
  expect(readdirSync(folder).filter((name) => name.includes('partial'))).toEqual([])
  await expect(
    exportView(db.database, { view: 'nothing', format: 'csv', file: join(folder, 'x'), filter: everyRow }),
  ).rejects.toThrow(/There is no bi.nothing\. (?:Known: .*edges|Did you mean)/)
})
