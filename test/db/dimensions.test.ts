// What a load adds to the dimensions: each keyword once, its words counted as a person counts them.
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addDimensions } from '../../src/load/dimensions.ts'
import { oneUnit } from '../../src/load/merge-scope.ts'
import { shippedDefinition, unitOf } from '../support/definitions.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

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

test('each staged keyword is added once with the number of its words', async () => {
  const definition = await shippedDefinition('keywords')
  const unit = oneUnit(unitOf(definition, '2026-01', { domain: 'a.com', country: 'us' }), 1)
  await sql`create table staging.words (keyword text)`.execute(db.database.kysely)
  for (const keyword of [...Object.keys(counted), ...Object.keys(counted)])
    await sql`insert into staging.words values (${keyword})`.execute(db.database.kysely)
  for (let load = 1; load <= 2; load += 1)
    await addDimensions(db.database.kysely, definition, unit, Object.keys(counted).length, 'staging."words"')
  const { rows } = await db.database.pool.query<{ keyword: string; words: number }>(
    'select keyword, words::int from bi.dim_keyword',
  )
  expect(Object.fromEntries(rows.map(({ keyword, words }) => [keyword, words]))).toEqual(counted)
  expect((await db.database.pool.query('select country from bi.dim_country')).rows).toEqual([{ country: 'us' }])
})
