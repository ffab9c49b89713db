// Reads bi with a login or role that can read nothing else: one read-only transaction an answer, with a time limit.
import type { RawBuilder } from 'kysely'
import { z } from 'zod'
import { messageOf, settingError } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import { type Database, type DatabaseClient, openDatabase } from '../db/connect.ts'
import { sqlStateOf } from '../db/database-error.ts'
import { readerRole } from '../db/read-list.ts'
import { type Session, withSession } from '../db/session.ts'
import type { Db } from '../db/tables.ts'
import { refuse } from './query.ts'

/** How long a person waits. A limit on the planner's estimate would not help: for questions of milliseconds it is wrong by a factor of a thousand. */
const usualTimeoutMs = 10_000

/** How to read the warehouse. */
interface ReaderOptions {
  /** Login of a reader; null: the warehouse's own login, which takes the reader's role in every transaction. */
  readonly readerUrl: Secret | null
  readonly databaseUrl: Secret | null
  readonly home: string
  /** Time limit for all statements of one answer together. Default 10 s. */
  readonly timeoutMs?: number
}

/** Rows as PostgreSQL sends them, and the names of their columns. */
export interface Rows {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly unknown[])[]
}

/** Access to the database within one answer: all statements see one snapshot. */
export interface Reading {
  readonly db: Db
  /** One statement with its values. Throws QueryRefusedError where the answer takes too long. */
  read(statement: { readonly sql: string; readonly parameters: readonly unknown[] }): Promise<Rows>
}

/** Rows of one of our statements, checked. @param row schema of each row */
export const rowsOf = async <Row>({ db, read }: Reading, statement: RawBuilder<unknown>, row: z.ZodType<Row>): Promise<Row[]> =>
  z.array(row).parse((await read(statement.compile(db))).rows)

/** The warehouse as a reader. */
export type Reader = Awaited<ReturnType<typeof openReader>>

/** Throws CONFIGURATION where the login has more rights than reading bi. */
export const openReader = async ({ readerUrl, databaseUrl, home, timeoutMs = usualTimeoutMs }: ReaderOptions) => {
  const database = await openDatabase({
    databaseUrl: readerUrl ?? databaseUrl,
    home,
    applicationName: 'millrace reader',
    maxConnections: 4,
    readsOnly: true,
    mustExist: true,
  })
  const role = readerUrl === null ? readerRole : null
  try {
    if (role === null) await assertReader(database)
    await inReading(database, role, timeoutMs, async () => undefined)
  } catch (error) {
    await database.close()
    throw error
  }
  return {
    db: database.kysely,
    display: database.display,
    answer: <T>(work: (reading: Reading) => Promise<T>): Promise<T> => inReading(database, role, timeoutMs, work),
    close: () => database.close(),
  }
}

const rightsRow = z.object({ is_super: z.boolean(), others: z.array(z.string()) })

const assertReader = async ({ pool, display }: Database): Promise<void> => {
  const { rows } = await pool.query(`select (select rolsuper from pg_roles where rolname = current_user) as is_super,
    array(select nspname::text from pg_namespace where nspname in ('etl', 'data', 'staging') and has_schema_privilege(oid, 'usage')) as others`)
  const { is_super, others } = rightsRow.parse(rows[0])
  if (!is_super && others.length === 0) return
  throw settingError(
    `MILLRACE_READER_URL (${display}) ${is_super ? 'is a superuser' : `may use the schema ${others[0]}`}; name a login that reads bi alone: ` +
      `create role assistant login password '…' in role ${readerRole}.`,
  )
}

const inReading = <T>(database: Database, role: string | null, timeoutMs: number, work: (reading: Reading) => Promise<T>) =>
  withSession(database.pool, async (session) => {
    const { client } = session
    await client.query('begin transaction isolation level repeatable read read only')
    try {
      await client.query(`set local search_path = ''`)
      if (role !== null) await takeRole(client, role)
      return await work(readingOf(session, timeoutMs, performance.now() + timeoutMs))
    } finally {
      await client.query('rollback').catch(() => undefined)
    }
  })

const takeRole = async (client: DatabaseClient, role: string): Promise<void> => {
  try {
    await client.query(`set local role ${role}`)
  } catch (cause) {
    throw settingError(
      `The login of the warehouse cannot read as ${role} (${messageOf(cause)}). Set MILLRACE_READER_URL to a login in that role, or run \`millrace migrate\`, which makes it.`,
      cause,
    )
  }
}

const readingOf = ({ client, kysely }: Session, timeoutMs: number, until: number): Reading => ({
  db: kysely,
  read: async ({ sql, parameters }) => {
    try {
      const left = Math.max(1, Math.ceil(until - performance.now()))
      await client.query(`set local statement_timeout = ${left}; set local lock_timeout = ${left}`)
      const { rows, fields } = await client.query<unknown[]>({ text: sql, values: [...parameters], rowMode: 'array' })
      return { columns: fields.map(({ name }) => name), rows }
    } catch (error) {
      return refuseRead(error, timeoutMs)
    }
  },
})

const narrower = ['name a shorter period', 'filter by the first columns of the grain', 'query a subject with fewer rows']

/** Turns errors that the question caused into refusals; throws all others. */
const refuseRead = (error: unknown, timeoutMs: number): never => {
  const state = sqlStateOf(error)
  if (state === '57014') return refuse(`The question took longer than ${timeoutMs / 1000} s.`, narrower)
  if (state.startsWith('22'))
    return refuse(`A value is not valid for its column: ${messageOf(error)}.`, ['write the value as the column has it'])
  if (['42P01', '42703', '42883', '42804'].includes(state))
    return refuse(`The warehouse does not have what the semantic files name: ${messageOf(error)}.`, [
      'run `millrace migrate`, which publishes what is missing',
      'run `millrace check`, which names file and line',
    ])
  throw error
}
