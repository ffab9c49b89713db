// All that a ledger holds, for comparisons of before and after.
import type { TestDatabase } from './postgres.ts'

const tables = [
  'runs',
  'processes',
  'units',
  'jobs',
  'run_jobs',
  'answers',
  'requests',
  'loads',
  'quarantine',
  'events',
  'windows',
]

export const wholeLedger = async (db: TestDatabase): Promise<Readonly<Record<string, unknown>>> => {
  const contents: Record<string, unknown> = {}
  for (const table of tables) {
    const { rows } = await db.database.pool.query(
      `select to_jsonb(t) as row from etl.${table} t order by to_jsonb(t)::text collate "C"`,
    )
    contents[table] = rows
  }
  return contents
}
