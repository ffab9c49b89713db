// What a load adds to the dimensions: each keyword once, its words counted as a person counts them.
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { addDimensions } from '../../src/load/load-dimensions.ts'
import { setFiscalYear } from '../../src/publish/attribute-views.ts'
import { shippedDefinition } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const counted: Readonly<Record<string, number>> = {
  shoes: 1,
  'running shoes': 2,
  'best running shoes 2026': 4,
  ' running  shoes ': 2,
  'running   shoes': 2,
  'running shoes ': 2,
  ' shoes': 1,
  'zwei\tWörter': 2,
  'größe äpfel': 2,
  'two\nlines': 2,
  'ideographic\u3000space': 2,
  東京: 1,
  '': 1,
}

test('each loaded keyword is added once with the number of its words', async () => {
  const definition = await shippedDefinition('keywords')
  await sql`create table data.words (keyword text)`.execute(db.database.kysely)
  for (const keyword of [...Object.keys(counted), ...Object.keys(counted)])
    await sql`insert into data.words values (${keyword})`.execute(db.database.kysely)
  for (let load = 1; load <= 2; load += 1)
    await addDimensions(db.database.kysely, definition, {
      slice: new Map([
        ['domain', ['a.com']],
        ['country', ['us']],
      ]),
      rows: sql`data.words`,
    })
  const rows = await db.query<{ keyword: string; words: number }>('select keyword, words::int from bi.dim_keyword')
  expect(Object.fromEntries(rows.map(({ keyword, words }) => [keyword, words]))).toEqual(counted)
  expect(await db.query('select country from bi.dim_country')).toEqual([{ country: 'us' }])
})

test('the calendar has quarters, ISO weeks and labels, and the fiscal year that was chosen', async () => {
  const days = ['2024-12-30', '2025-03-31', '2025-10-01', '2026-09-30']
  const read = async (columns: string): Promise<unknown[][]> =>
    (
      await db.database.pool.query<unknown[]>({
        text: `select ${columns} from bi.dim_date where date = any($1) order by date`,
        values: [days],
        rowMode: 'array',
      })
    ).rows
  expect(await read('quarter_start::text, quarter_name, month_label, iso_year, iso_week, iso_week_name')).toEqual([
    ['2024-10-01', '2024 Q4', 'Dec 2024', 2025, 1, '2025-W01'],
    ['2025-01-01', '2025 Q1', 'Mar 2025', 2025, 14, '2025-W14'],
    ['2025-10-01', '2025 Q4', 'Oct 2025', 2025, 40, '2025-W40'],
    ['2026-07-01', '2026 Q3', 'Sep 2026', 2026, 40, '2026-W40'],
  ])
  const fiscal = 'fiscal_year, fiscal_quarter, fiscal_month, fiscal_year_name, fiscal_quarter_name'
  const byCalendar = await read('year, quarter, month, $$FY$$ || year, $$FY$$ || year || $$ Q$$ || quarter')
  expect(await read(fiscal)).toEqual(byCalendar)
  expect(await setFiscalYear(db.database, 10)).toBeGreaterThan(12_000)
  expect(await read(fiscal)).toEqual([
    [2025, 1, 3, 'FY2025', 'FY2025 Q1'],
    [2025, 2, 6, 'FY2025', 'FY2025 Q2'],
    [2026, 1, 1, 'FY2026', 'FY2026 Q1'],
    [2026, 4, 12, 'FY2026', 'FY2026 Q4'],
  ])
  expect(await setFiscalYear(db.database, 10)).toBe(0)
  await setFiscalYear(db.database, 1)
  expect(await read(fiscal)).toEqual(byCalendar)
})
