// Whatever the casts let through, PostgreSQL takes and gives back: no accepted cell may fail a whole unit's COPY.
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { copyInto } from '../../src/db/connect.ts'
import { withSession } from '../../src/db/session.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { column, parseBody, payloadOf, planOf } from '../unit/parse/parsing.ts'

const columns = [
  column('id', 'integer', { isKey: true }),
  column('word', 'text'),
  column('big', 'bigint'),
  column('exact', 'numeric'),
  column('flag', 'boolean'),
  column('day', 'date'),
  column('at', 'timestamptz'),
  column('tags', 'text[]'),
]

const cells: Readonly<Record<string, readonly string[]>> = {
  word: [
    'null',
    '\\N',
    '\\.',
    'a\tb',
    'a\nb',
    'a\r\nb',
    'back\\slash',
    '"',
    '\b\f\v\u0001\u007f',
    '🙂 é \u2028 \ufeff',
    ' ',
    '{NULL}',
  ],
  big: ['9223372036854775807', '-9223372036854775808', '-0', '12.0', '1e3'],
  exact: ['9'.repeat(400), `0.${'1'.repeat(400)}`, '1e399', '1e-400', '+.5', '5.', '-0.0', '9007199254740993.10'],
  flag: ['YES', 'no', '1', '0', 'true', 'False'],
  day: ['0001-01-01', '9999-12-31', '2024-02-29'],
  at: ['0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999999999+15:59', '2026-01-01 10:00-15', '2026-01-01T00:00:59.5+0530'],
  tags: ['["NULL",null,"a,b","{}","\\"\\\\","\\t\\n",""]', 'a, b', '[]', '[1.0,true]'],
}

test('PostgreSQL takes every extreme that the casts take', { timeout: 60_000 }, async () => {
  const { database, drop } = await createTestDatabase({ empty: true })
  onTestFinished(drop)
  const records = Object.entries(cells).flatMap(([name, texts]) => texts.map((text) => ({ [name]: text })))
  const body = records.map((record, id) => JSON.stringify({ id, ...record })).join('\n')
  const { copy, report } = await parseBody(planOf(columns), payloadOf('json', body))
  expect(report.rejected).toEqual([])
  await withSession(database.pool, async ({ client }) => {
    const list = columns.map(({ name, type }) => `"${name}" ${type}`).join(', ')
    await client.query(`create temporary table taken (${list})`)
    const stream = copyInto(client, 'copy taken from stdin')
    stream.end(copy)
    await once(stream, 'finish')
    const { rows } = await client.query('select word, big::text, exact::text, tags::text[] from taken order by id')
    expect(rows.map((row) => row.word).filter((word) => word !== null)).toEqual(cells['word'])
    expect(rows.map((row) => row.big).filter((big) => big !== null)).toEqual([
      '9223372036854775807',
      '-9223372036854775808',
      '0',
      '12',
      '1000',
    ])
    expect(rows.find((row) => row.exact === '9007199254740993.10')).toBeDefined()
    expect(rows.map((row) => row.tags).filter((tags) => tags !== null)).toEqual([
      ['NULL', null, 'a,b', '{}', '"\\', '\t\n', ''],
      ['a', 'b'],
      [],
      ['1.0', 'true'],
    ])
  })
})
