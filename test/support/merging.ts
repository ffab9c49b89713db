// Given rows loaded as the answer of a job of their own, and what that came to, for tests of what a load writes.
import { sql } from 'kysely'
import type { Mart } from '../../src/core/mart.ts'
import type { Box, Definition } from '../../src/core/types.ts'
import { parsedColumns } from '../../src/load/table-columns.ts'
import type { LoadResult } from '../../src/run/job-work.ts'
import { type LoadKit, loadBody, openLoading, workOn } from './loading.ts'
import type { TestDatabase } from './postgres.ts'

/** COPY text of: date, domain, country and six metrics, of which the first is given. */
export const trafficRow = (domain: string, visits: string, date = '2026-01-01', country = 'us'): string =>
  [date, domain, country, visits, '1', '2', '3', '4', '\\N'].join('\t')

export interface MergeOptions {
  /** Units that would lose too many rows are held. Default: a person has allowed the answer. */
  readonly mayHold?: boolean
  readonly marts?: readonly Mart[]
  /** So many bytes the answer is said to have, on which its way depends. */
  readonly bytes?: number
  /** Called once all is written and nothing committed. */
  readonly meanwhile?: () => Promise<void>
}

const kits = new WeakMap<TestDatabase, Map<string, Promise<LoadKit>>>()

const kitOf = (db: TestDatabase, definition: Definition, marts: readonly Mart[]): Promise<LoadKit> => {
  const known = kits.get(db) ?? new Map<string, Promise<LoadKit>>()
  kits.set(db, known)
  const name = `${definition.pipeline} ${marts.map((mart) => mart.name).join()}`
  const kit = known.get(name) ?? openLoading(db, { ...definition, limits: { ...definition.limits, rejectShare: 1 } }, marts)
  known.set(name, kit)
  return kit
}

const claims = new WeakMap<LoadKit, Promise<void>>()

const unescaped: Readonly<Record<string, string>> = { '\\\\': '\\', '\\t': '\t', '\\n': '\n', '\\r': '\r' }

const csvCell = (cell: string): string => {
  if (cell === '\\N') return ''
  // A list is written as JSON.
  const text = cell.replaceAll(/\\[\\tnr]/g, (one) => unescaped[one] ?? one).replace(/^\{(".*")\}$/, '[$1]')
  return `"${text.replaceAll('"', '""')}"`
}

/** @param rows COPY text of the columns that come with an answer; a cell may be any word, for a record that is rejected */
export const mergeRows = async (
  db: TestDatabase,
  definition: Definition,
  box: Box,
  rows: readonly string[],
  { mayHold = false, marts = [], bytes, meanwhile }: MergeOptions = {},
): Promise<LoadResult> => {
  const kit = await kitOf(db, definition, marts)
  const header = parsedColumns(definition).map(({ name, from }) => from[0] ?? name)
  const body = [header.join(), ...rows.map((row) => row.split('\t').map(csvCell).join())].map((line) => `${line}\n`).join('')
  // One after the other: each claims what was planned for it.
  const claiming = (claims.get(kit) ?? Promise.resolve()).then(() => workOn(kit, box, { set: { released: !mayHold } }))
  claims.set(
    kit,
    claiming.then(() => undefined),
  )
  const work = await claiming
  const load = () => loadBody(kit, work, { body, ...(bytes === undefined ? {} : { bytes }) })
  return meanwhile === undefined ? load() : stoppedAtItsEnd(db, load, meanwhile)
}

/** Somebody holds the list of those who wait: a load gets there once all else is written. */
export const stoppedAtItsEnd = async <Result>(
  db: TestDatabase,
  load: () => Promise<Result>,
  meanwhile: () => Promise<void>,
): Promise<Result> => {
  const { kysely } = db.database
  const holding = await kysely.startTransaction().execute()
  await sql`lock table etl.run_jobs in exclusive mode`.execute(holding)
  const loading = load()
  loading.catch(() => undefined)
  try {
    for (;;) {
      const { rows } = await sql`select 1 from pg_locks where not granted and relation = 'etl.run_jobs'::regclass`.execute(kysely)
      if (rows.length > 0) break
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    await meanwhile()
  } finally {
    await holding.rollback().execute()
  }
  return loading
}
