// An export for lakes: one file a month, only changed months the next time, the same sums in DuckDB and pyarrow, in a folder and in a bucket.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { beforeEach, describe, expect, test } from 'vitest'
import { bucketSetting } from '../../src/core/landing-setting.ts'
import { exportMonths } from '../../src/semantic/export/export-months.ts'
import { exportView, type RowFilter } from '../../src/semantic/export/export-view.ts'
import { folderTarget } from '../../src/semantic/export/export-months.ts'
import { everyRow } from '../support/every-row.ts'
import { openBucketFiles } from '../../src/extract/bucket-upload.ts'
import { testDatabase } from '../support/postgres.ts'
import { startS3Server } from '../support/s3-server.ts'
import { testFolder } from '../support/test-world.ts'

const db = testDatabase({ each: true })
const folder = testFolder({ each: true })

const query = (text: string) => db.database.pool.query(text)

beforeEach(async () => {
  await query(
    `create table bi.facts (month date, domain text, clicks bigint, cpc numeric, share numeric(38, 30), tags text[], at timestamptz)`,
  )
  await query(`insert into bi.facts select ('2026-0' || 1 + n % 3 || '-01')::date, 'd' || n % 7 || '.com', n, case n % 5 when 0 then null else n / 8.0 end,
    1 / (n + 1)::numeric, case n % 4 when 0 then null when 1 then '{}' else array['a', 'b,' || n] end, '2026-01-01T00:00:00Z' from generate_series(1, 3000) n`)
})
const write = (sinceLast = false, filter: RowFilter = everyRow) =>
  exportMonths(db.database, { view: 'facts', filter, sinceLast, target: folderTarget(folder) })
const fileOf = (month: string): string => join(folder, `export_month=${month}`, 'data.parquet')
const rowsOf = async (month: string) => parquetReadObjects({ file: await asyncBufferFromFile(fileOf(month)) })
const january = '2026-01'

describe('an export by month', () => {
  test('has a file for each month and a list of them', async () => {
    expect(await write()).toEqual({ written: [january, '2026-02', '2026-03'], unchanged: 0, removed: [], rows: 3000 })
    expect(readdirSync(folder).sort()).toEqual([
      '_millrace_export.json',
      ...[january, '2026-02', '2026-03'].map((month) => `export_month=${month}`),
    ])
    expect(await rowsOf(january)).toHaveLength(1000)
    expect((await rowsOf('2026-02')).every(({ month }) => month instanceof Date && month.getUTCMonth() === 1)).toBe(true)
  })

  test('is done where a place takes longer for a file than the server lets a transaction be idle', async () => {
    db.database.pool.on('acquire', (client) => void client.query(`set idle_in_transaction_session_timeout = '600ms'`))
    const target = folderTarget(folder)
    const slow = {
      ...target,
      putFile: async (name: string, file: string) => {
        await setTimeout(1500)
        return target.putFile(name, file)
      },
    }
    const done = await exportMonths(db.database, { view: 'facts', filter: everyRow, sinceLast: false, target: slow })
    expect(done).toMatchObject({ rows: 3000 })
  })

  test('writes nothing the next time, and then only the month that changed, whatever way it did', async () => {
    await write()
    expect(await write(true)).toMatchObject({ written: [], unchanged: 3 })
    const before = statSync(fileOf('2026-02')).mtimeMs
    await query(`update bi.facts set clicks = clicks + 1 where month = '2026-01-01' and domain = 'd1.com'`)
    expect(await write(true)).toMatchObject({ written: [january], unchanged: 2 })
    await query(`delete from bi.facts where month = '2026-03-01' and clicks = 5`)
    expect(await write(true)).toMatchObject({ written: ['2026-03'], rows: 999 })
    expect(statSync(fileOf('2026-02')).mtimeMs).toBe(before)
    // Two values that change places leave every sum as it was.
    await query(`update bi.facts set domain = case clicks when 4 then 'd0.com' else 'd4.com' end where clicks in (4, 7)`)
    expect((await write(true)).written).not.toEqual([])
    expect(await write(false)).toMatchObject({ written: [january, '2026-02', '2026-03'] })
  })

  test('takes a month away that is there no more, and writes all of them anew when a column changes', async () => {
    await write()
    await query(`delete from bi.facts where month = '2026-02-01'`)
    expect(await write(true)).toMatchObject({ written: [], removed: ['2026-02'], unchanged: 2 })
    expect(existsSync(join(folder, 'export_month=2026-02'))).toBe(false)
    await query(`alter table bi.facts add column more integer`)
    expect(await write(true)).toMatchObject({ written: [january, '2026-03'] })
    // More digits than the files have room for: all are written, so that they stay one table.
    await query(`update bi.facts set cpc = 0.000000001 where clicks = 3`)
    expect(await write(true)).toMatchObject({ written: [january, '2026-03'] })
  })

  test('keeps to its filters, and refuses a place that holds another export', async () => {
    const filter = { only: new Map([['domain', ['d1.com', "d'2.com"]]]), from: '2026-02-01', to: '2026-02-01' }
    expect(await write(false, filter)).toMatchObject({ written: ['2026-02'] })
    expect(new Set((await rowsOf('2026-02')).map(({ domain }) => domain))).toEqual(new Set(['d1.com']))
    await expect(write(true)).rejects.toThrow(/holds an export with other filters \(_millrace_export\.json\)/)
    writeFileSync(join(folder, '_millrace_export.json'), '{')
    await expect(write()).rejects.toThrow(/a list of files that cannot be read/)
    await expect(write(false, { ...filter, only: new Map([['nosuch', ['1']]]) })).rejects.toThrow(
      /no column 'nosuch' to filter by/,
    )
  })

  test('that was killed leaves whole files and what is hidden, and the next one writes what it had not', async () => {
    await write()
    const before = readFileSync(fileOf(january))
    await query(`update bi.facts set clicks = clicks + 1`)
    const target = folderTarget(folder)
    let written = 0
    // Killed before the second month, when the first is written and the list is not.
    const putFile = async (name: string, file: string): Promise<void> => {
      if (++written === 2) throw new Error('killed')
      await target.putFile(name, file)
    }
    await expect(
      exportMonths(db.database, { view: 'facts', filter: everyRow, sinceLast: true, target: { ...target, putFile } }),
    ).rejects.toThrow('killed')
    expect(readFileSync(fileOf(january)).equals(before)).toBe(false)
    for (const month of [january, '2026-02', '2026-03']) expect(await rowsOf(month)).toHaveLength(1000)
    // As one leaves it that was killed while it copied, a day ago.
    const left = join(folder, 'export_month=2026-01', '.millrace-export-1.partial')
    writeFileSync(left, 'PAR1 and then nothing')
    const yesterday = Date.now() / 1_000 - 25 * 3_600
    utimesSync(left, yesterday, yesterday)
    expect(await write(true)).toMatchObject({ written: [january, '2026-02', '2026-03'], unchanged: 0 })
    expect(readdirSync(join(folder, 'export_month=2026-01'))).toEqual(['data.parquet'])
    await expect(target.putFile('export_month=2026-01/data.parquet', join(folder, 'gone'))).rejects.toThrow(/ENOENT/)
    expect(await rowsOf(january)).toHaveLength(1000)
    expect(readdirSync(join(folder, 'export_month=2026-01')).filter((name) => !name.startsWith('.'))).toEqual(['data.parquet'])
  })

  test('goes to a bucket the same way', async () => {
    const server = await startS3Server()
    const target = openBucketFiles(
      bucketSetting(server.environment('facts'), `s3://${server.bucket}/facts`, '--out'),
      AbortSignal.timeout(20_000),
    )
    expect(await exportMonths(db.database, { view: 'facts', filter: everyRow, sinceLast: true, target })).toMatchObject({
      rows: 3000,
    })
    await query(`delete from bi.facts where month = '2026-03-01'`)
    expect(await exportMonths(db.database, { view: 'facts', filter: everyRow, sinceLast: true, target })).toMatchObject({
      written: [],
      removed: ['2026-03'],
    })
    await server.close()
  })
})

const python = process.env['MILLRACE_CLIENTS_LAKE']
const reader = `
import sys, json, duckdb, pyarrow as pa, pyarrow.compute as pc, pyarrow.dataset as ds
path = sys.argv[1]
con = duckdb.connect()
row = con.execute(f"select count(*), sum(clicks), sum(cpc), sum(share), max(cpc), avg(cpc), sum(len(tags)), max(month), sum(hits) from read_parquet('{path}/*/*.parquet')").fetchone()
table = ds.dataset(path, format='parquet').to_table()
arrow = [table.num_rows, pc.sum(table['clicks']).as_py(), pc.sum(table['cpc']).as_py(), pc.sum(table['share']).as_py(), pc.max(table['cpc']).as_py(), pc.sum(table['hits'].cast(pa.decimal128(38, 0))).as_py()]
print(json.dumps([[str(v) for v in row], [str(v) for v in arrow], [str(table.schema.field(n).type) for n in ('month', 'cpc', 'tags', 'hits')]]))
`

describe.skipIf(python === undefined)('DuckDB and pyarrow', () => {
  test('read the same sums to the last digit, with the types of a lake', async () => {
    await query(
      `insert into bi.facts values ('2026-03-01', 'big.com', 9007199254740993, 12345678901234567890.123, null, null, null)`,
    )
    // Each is a bigint, their sum is none.
    await query(`alter table bi.facts add column hits bigint`)
    await query(`update bi.facts set hits = 9223372036854775807 - clicks where clicks <= 3`)
    await write()
    // As an export leaves it that was killed while it wrote.
    writeFileSync(join(folder, 'export_month=2026-01', '.millrace-export-1.partial'), 'PAR1 and then nothing')
    const script = join(folder, '..', 'read-months.py')
    writeFileSync(script, reader)
    const [duck, arrow, types] = JSON.parse(execFileSync(python ?? '', [script, folder], { encoding: 'utf8' })) as string[][]
    const { rows } =
      await query(`select count(*)::text as n, sum(clicks)::text as clicks, sum(cpc)::text as cpc, trim_scale(sum(share))::text as share,
      max(cpc)::text as most, sum(cardinality(tags))::text as tags, sum(hits)::text as hits from bi.facts`)
    const truth = rows[0] as Record<string, string>
    const plain = (text: string | undefined): string =>
      String(text)
        .replace(/(\.\d*?)0+$/, '$1')
        .replace(/\.$/, '')
    for (const found of [duck, arrow]) {
      expect(found?.slice(0, 2)).toEqual([truth['n'], truth['clicks']])
      expect(found?.slice(2, 5).map(plain)).toEqual([truth['cpc'], truth['share'], truth['most']].map(plain))
    }
    expect(duck?.slice(6)).toEqual([truth['tags'], '2026-03-01', truth['hits']])
    expect(arrow?.[5]).toBe(truth['hits'])
    expect(truth['hits']).toBe('27670116110564327415')
    expect(types).toEqual(['date32[day]', 'decimal128(38, 3)', 'list<element: string>', 'int64'])
  })
})

test('a number with more digits than any DECIMAL takes makes its column text, and nothing is rounded', async () => {
  await query(`insert into bi.facts (month, cpc) values ('2026-01-01', 1e37 + 0.001)`)
  const file = join(folder, 'facts.parquet')
  await exportView(db.database, { view: 'facts', format: 'parquet', file, filter: everyRow })
  const found = await parquetReadObjects({ file: await asyncBufferFromFile(file), columns: ['cpc'] })
  expect(found.map(({ cpc }) => cpc)).toContain('10000000000000000000000000000000000000.001')
  expect(readFileSync(file).subarray(0, 4).toString()).toBe('PAR1')
})
