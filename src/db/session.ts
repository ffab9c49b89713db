// A database session: its settings, its Kysely dialect, and one connection held for COPY, temporary tables and the statements of one transaction.
import {
  type Dialect,
  type DialectAdapter,
  type Driver,
  Kysely,
  PostgresDialect,
  type PostgresPool,
  type PostgresPoolClient,
  sql,
} from 'kysely'
import type { ClientBase, Pool, PoolClient, QueryConfig } from 'pg'
import { type Numbers, query, queryValue } from './typed-row.ts'
import type { Db, Tables } from './tables.ts'

/** One connection for several statements that belong together: temporary tables, a COPY, a transaction. `kysely` speaks over `client`, in its transaction. */
export type Session = ReturnType<typeof sessionOf>

/** Runs `work` on a connection of its own. A session that ended in an error is thrown away, not reused. */
export const withSession = async <T>(pool: Pool, work: (session: Session) => Promise<T>): Promise<T> => {
  const client = await pool.connect()
  // A connection that breaks between two statements raises an event; without a listener the event ends the process.
  const onError = (): void => undefined
  client.on('error', onError)
  let broken = true
  try {
    const result = await work(sessionOf(client))
    broken = false
    return result
  } finally {
    client.off('error', onError)
    client.release(broken)
  }
}

const kyselyByClient = new WeakMap<PoolClient, Db>()

const sessionOf = (client: PoolClient): { readonly client: PoolClient; readonly kysely: Db } => {
  const existing = kyselyByClient.get(client)
  if (existing !== undefined) return { client, kysely: existing }
  // Kysely releases the client after every statement; `withSession` alone returns it to the pool.
  const borrowed: PostgresPoolClient = { query: client.query.bind(client), release: () => undefined }
  const pool = { connect: async () => borrowed, end: async () => undefined, options: {} }
  const kysely = new Kysely<Tables>({ dialect: postgresDialect(pool) })
  kyselyByClient.set(client, kysely)
  return { client, kysely }
}

export const postgresDialect = (pool: PostgresPool): Dialect => {
  const dialect = new PostgresDialect({ pool })
  return {
    createDriver: () => keepFirstError(dialect.createDriver()),
    createAdapter: () => lockRow(dialect.createAdapter()),
    createIntrospector: (database) => dialect.createIntrospector(database),
    createQueryCompiler: () => dialect.createQueryCompiler(),
  }
}

/** Kysely rolls back only after an error: a failing rollback must not hide that error. The driver discards the broken connection. */
const keepFirstError = (driver: Driver): Driver => {
  const rollback = driver.rollbackTransaction.bind(driver)
  return Object.assign(driver, {
    rollbackTransaction: (...asked: Parameters<Driver['rollbackTransaction']>) => rollback(...asked).catch(() => undefined),
  })
}

/** In place of Kysely's advisory lock, which any login could hold: a row lock needs the right to write. It ends with the transaction; a release in a failed transaction would hide the error. */
const lockRow = (adapter: DialectAdapter): DialectAdapter =>
  Object.assign(adapter, {
    acquireMigrationLock: async (
      ...[db, { lockTable, lockTableSchema = 'public' }]: Parameters<DialectAdapter['acquireMigrationLock']>
    ) => {
      await query(db)`select id from ${sql.table(`${lockTableSchema}.${lockTable}`)} for update`
    },
    releaseMigrationLock: async () => undefined,
  })

/**
 * Settings that every session has, so that server, database, login and address change nothing: SQL and texts read alike everywhere; a name without a schema means PostgreSQL's own, never one
 * in `public`; a confirmed commit is on disk. A process that sleeps inside a transaction (a suspended machine) loses the transaction and its locks: else every command that needs
 * them would wait as long. The same after a lost machine or network, which a server with the
 * system's own keepalive notices only after two hours.
 */
const ownSettings: readonly SessionSetting[] = [
  ['TimeZone', 'UTC'],
  ['DateStyle', 'ISO'],
  ['IntervalStyle', 'iso_8601'],
  ['extra_float_digits', '1'],
  ['bytea_output', 'hex'],
  ['quote_all_identifiers', 'off'],
  ['standard_conforming_strings', 'on'],
  ['array_nulls', 'on'],
  ['transform_null_equals', 'off'],
  ['default_transaction_isolation', 'read committed'],
  ['client_min_messages', 'warning'],
  ['jit', 'off'],
  ['idle_in_transaction_session_timeout', '60s'],
  ['tcp_keepalives_idle', '30'],
  ['tcp_keepalives_interval', '10'],
  ['tcp_keepalives_count', '3'],
]

/** The server's own pid of the session; names of objects that only this session uses contain it. */
export const ownPid = ({ kysely }: Session): Promise<number> => queryValue<Numbers<'pid'>>(kysely)`select pg_backend_pid() as pid`

/** Settings that an address may override: a user's migrations may name tables without a schema. */
const unlessTheirs: readonly SessionSetting[] = [['search_path', '']]

/** Only `off` is replaced, which can lose confirmed commits; the other values concern standbys, and the server's owner decides them. */
const neverOff = `case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', false) end`

/** Name and value as SET takes them. */
export type SessionSetting = readonly [name: string, value: string]

/**
 * Reads libpq's `options`: `-c name=value`, `-cname=value` and `--name=value`, with a backslash before blanks in a value. `rest`: words that are no settings,
 * which only the start of a session can take; may be empty. @param options of the address (`?options=…`); null: none.
 */
export const readStartOptions = (options: string | null) => {
  const words = (options ?? '').match(/(?:\\.|[^\s\\])+/gs) ?? []
  const settings: SessionSetting[] = []
  const rest: string[] = []
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? ''
    const next = word === '-c' ? words[at + 1] : undefined
    const [, name, value] = /^(?:-c|--)?([\w.-]+)=(.*)$/s.exec(next ?? (/^(?:-c|--)/.test(word) ? word : '')) ?? []
    if (next !== undefined) at += 1
    if (name === undefined || value === undefined) rest.push(word, ...(next === undefined ? [] : [next]))
    else settings.push([name.replaceAll('-', '_'), value.replace(/\\(.)/gs, '$1')])
  }
  return { settings, rest: rest.join(' ') }
}

/** Sets, in one statement, the settings of the address, then ours, which win. Throws on timeout. @returns the server's own pid of the session; a pooler reports another. */
export const setUpSession = async (client: ClientBase, theirs: readonly SessionSetting[], limitMs: number): Promise<number> => {
  const all = [...unlessTheirs, ...theirs, ...ownSettings]
  const set = all.map((_, index) => `set_config($${index * 2 + 1}, $${index * 2 + 2}, false)`)
  const text = `select pg_backend_pid() as pid, ${set.join(', ')}, ${neverOff}`
  const asked: QueryConfig & { query_timeout: number } = { text, values: all.flat(), query_timeout: limitMs }
  const { rows } = await client.query<Numbers<'pid'>>(asked)
  return rows[0]?.pid ?? 0
}
