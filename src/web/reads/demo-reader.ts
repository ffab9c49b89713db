// What the demo shows of the warehouse: a login that reads bi and nothing else, and a few rows of a published view.
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { Definition } from '../../core/types.ts'
import { roleExists } from '../../db/catalog.ts'
import type { Database } from '../../db/connect.ts'
import { sessionLimits } from '../../db/role-statements.ts'
import type { Numbers } from '../../db/typed-row.ts'
import type { Db } from '../../db/tables.ts'

const role = 'bi_demo'

/** The address to connect with. Its password is made anew each time and guards synthetic rows on this machine. */
export const demoReader = async (database: Database): Promise<string> => {
  const password = randomBytes(9).toString('base64url')
  if (!(await roleExists(database.kysely, role)))
    await sql`create role ${sql.id(role)} login in role bi_reader`.execute(database.kysely)
  for (const [name, value] of Object.entries(sessionLimits.reader))
    await sql`alter role ${sql.id(role)} set ${sql.raw(name)} = ${sql.lit(value)}`.execute(database.kysely)
  await sql`alter role ${sql.id(role)} password ${sql.lit(password)}`.execute(database.kysely)
  const url = new URL(database.url.reveal())
  url.username = role
  url.password = password
  return url.href
}

export interface Sample {
  readonly columns: readonly string[]
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly total: number
}

/** Key columns that differ and the measures, newest period first. @param limit rows at most. */
export const sampleRows = async (kysely: Db, definition: Definition, limit: number): Promise<Sample> => {
  const columns = definition.columns
    .filter((column) => column.origin !== 'param')
    .map((column) => column.name)
    .slice(0, 8)
  const view = sql.table(`bi.${definition.pipeline}`)
  const period = sql.ref(definition.key[0] ?? '_loaded_at')
  const { rows } = await sql<Record<string, unknown>>`
    select ${sql.join(columns.map((column) => sql.ref(column)))} from ${view} order by ${period} desc limit ${limit}`.execute(
    kysely,
  )
  const count = await sql<Numbers<'total'>>`select count(*)::float8 as total from ${view}`.execute(kysely)
  return { columns, rows, total: count.rows[0]?.total ?? 0 }
}
