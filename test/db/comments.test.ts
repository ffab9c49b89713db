// Whoever opens the warehouse in a tool is told what each thing is: no table, view, column or function of ours goes without a comment.
import { readFileSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import { loadMarts } from '../../src/definition/marts.ts'
import { generatedFile, tableTypes } from '../../scripts/table-types.ts'
import { publish } from '../../src/publish/publish.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

beforeAll(async () => {
  await db.database.pool.query(`create table data.keywords_v1_p202609 partition of data.keywords_v1
    for values from ('2026-09-01') to ('2026-10-01')`)
  await publish(db.database, await shippedDefinitions(), await loadMarts([]))
})

const query = (text: string): Promise<Record<string, unknown>[]> => db.query<Record<string, unknown>>(text)

const schemas = `('etl', 'bi', 'data')`

/** A partition is a part of the table it stands under, which explains it. */
const relations = `select c.oid, n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname in ${schemas} and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition`

test('every schema, table, view and function of etl, data and bi is explained', async () => {
  expect(
    await query(`select nspname as bare from pg_namespace where nspname in ('etl', 'bi', 'data', 'staging') and obj_description(oid, 'pg_namespace') is null
      union all select name from (${relations}) r where coalesce(btrim(obj_description(oid, 'pg_class')), '') = ''
      union all select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname in ${schemas} and obj_description(p.oid, 'pg_proc') is null`),
  ).toEqual([])
})

test('so is every column', async () => {
  expect(
    await query(`select r.name || '.' || a.attname as bare from (${relations}) r
      join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
      where coalesce(btrim(col_description(r.oid, a.attnum)), '') = '' order by 1`),
  ).toEqual([])
})

test('a mart explains a column in the words of the pipeline it reads, not of another with the same name', async () => {
  expect(
    await query(`select c.relname, col_description(c.oid, a.attnum) as about from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'country'
      where c.relnamespace = 'bi'::regnamespace and c.relname in ('keyword_months', 'traffic_comparison') order by 1`),
  ).toMatchObject([{ about: expect.stringContaining('of the searchers') }, { about: expect.stringContaining('of the visitors') }])
})

test('what is counted or weighed names its unit', async () => {
  expect(
    await query(`select r.name || '.' || a.attname as without_unit from (${relations}) r
      join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
      where (a.attname ~ '(_bytes|_quota|_share|_rows|_visits|_views)$' or a.attname ~ '^rows_' or a.attname in ('clicks', 'milliseconds', 'bytes', 'revenue', 'volume'))
        and coalesce(col_description(r.oid, a.attnum), '') !~ 'Unit: ' order by 1`),
  ).toEqual([])
})

test('a figure that is 0 where the service leaves it out says so beside what NULL means', async () => {
  const absent = (await shippedDefinitions()).flatMap(({ pipeline, columns }) =>
    columns.filter(({ ifAbsent }) => ifAbsent !== null).map(({ name }) => `bi.${pipeline}.${name}`),
  )
  expect(absent).toContain('bi.keywords.cpc_low_bid')
  expect(
    (
      await query(`select r.name || '.' || a.attname as column from (${relations}) r
        join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
        where r.name like 'bi.%' and r.name !~ '_history$' and col_description(r.oid, a.attnum) like '%. 0 where the record lacks the field, NULL where it is null.%'`)
    )
      .map((row) => row['column'])
      .filter((name) => absent.includes(String(name)))
      .sort(),
  ).toEqual([...absent].sort())
})

test('the table types are what the migrations say; if not: node scripts/table-types.ts', async () => {
  expect(await tableTypes(db.database.pool)).toBe(readFileSync(generatedFile, 'utf8'))
})
