// docs/ten-questions.md: each question is one short query on bi that a reader may ask, and its answer is what stands there.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fillAnalystWarehouse } from '../support/analyst-warehouse.ts'
import { runCommand } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

const file = resolve(import.meta.dirname, '..', '..', 'docs', 'ten-questions.md')
const text = readFileSync(file, 'utf8')

interface Question {
  /** Heading and query as they stand in the page. */
  readonly head: string
  readonly sql: string
}

const intro = text.slice(0, text.indexOf('\n## '))
const questions: readonly Question[] = [...text.matchAll(/^## .+?^```sql\n(.+?)^```$/gms)].map(([head, sql = '']) => ({
  head,
  sql,
}))

let db: TestDatabase

beforeAll(async () => {
  db = await createTestDatabase()
  const migrated = await runCommand(['migrate'], { DATABASE_URL: db.url }, resolve(import.meta.dirname, '..', '..'))
  expect(migrated.code, migrated.stderr).toBe(0)
  await fillAnalystWarehouse(db.url, db.database.pool)
})
afterAll(() => db.drop())

/** Asks with the rights of a reader and nothing else. */
const ask = async (sql: string): Promise<{ columns: string[]; rows: unknown[][] }> => {
  const client = await db.database.pool.connect()
  try {
    await client.query('begin read only')
    await client.query('set local role bi_reader')
    const { fields, rows } = await client.query<unknown[]>({ text: sql, rowMode: 'array' })
    return { columns: fields.map(({ name }) => name), rows }
  } finally {
    await client.query('rollback')
    client.release()
  }
}

const line = (cells: readonly unknown[]): string =>
  `| ${cells.map((cell) => (cell === null ? 'NULL' : String(cell))).join(' | ')} |`

test('the page holds ten questions, each a query of at most ten lines on bi alone', () => {
  expect(questions).toHaveLength(10)
  for (const { head, sql } of questions) {
    expect(sql.trimEnd().split('\n').length, head).toBeLessThanOrEqual(10)
    expect(sql, head).not.toMatch(/\b(?:data|etl|staging)\./)
  }
})

test('each is answered as the page says', async () => {
  const answered: string[] = []
  for (const { head, sql } of questions) {
    const { columns, rows } = await ask(sql)
    expect(rows.length, head).toBeGreaterThan(0)
    answered.push([head, '', line(columns), line(columns.map(() => '---')), ...rows.map(line), ''].join('\n'))
  }
  await expect(`${intro}\n${answered.join('\n')}`).toMatchFileSnapshot(file)
})
