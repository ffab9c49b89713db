// A session of ours: its settings, its dialect, and one connection held for a while for COPY, temporary tables and Kysely statements of one transaction.
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
  // A connection cut while no statement is under way raises an event that would end the process.
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
  // Kysely releases after every statement; the client stays ours until withSession gives it back.
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

/** Kysely asks for a rollback only with an error in hand; the driver has marked the connection, so it is not used again. */
const keepFirstError = (driver: Driver): Driver => {
  const rollback = driver.rollbackTransaction.bind(driver)
  return Object.assign(driver, {
    rollbackTransaction: (...asked: Parameters<Driver['rollbackTransaction']>) => rollback(...asked).catch(() => undefined),
  })
}

/** Kysely takes an advisory lock, which anybody who may connect could hold. The row needs the right to write it; it ends with the transaction: given back in one that failed, it would hide why. */
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
 * Nothing of ours depends on settings of the server, the database, the login or the address. SQL is read and texts look alike everywhere; a name without a schema is PostgreSQL's own, never what
 * somebody put into `public`; a commit that was told is on disk. A process that sleeps inside a transaction, as on a suspended machine, loses it and its locks: else every other
 * command that needs them would wait as long as it sleeps. So does one whose machine or
 * network is gone: by the system's own settings the server notices that after two hours.
 */
const ownSettings: readonly Setting[] = [
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

/** The server's own number of the session, which names what is made for it alone. */
export const ownPid = ({ kysely }: Session): Promise<number> => queryValue<Numbers<'pid'>>(kysely)`select pg_backend_pid() as pid`

/** What an address may set otherwise: its migrations may name tables without their schema. */
const unlessTheirs: readonly Setting[] = [['search_path', '']]

/** Other values say what a standby has seen, which is its owner's to decide. */
const neverOff = `case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', false) end`

/** Name and value as SET takes them. */
export type Setting = readonly [name: string, value: string]

/**
 * `-c name=value`, `-cname=value` and `--name=value`, blanks in a value behind a backslash, as libpq's `options`. `rest`: what is no setting, which only the
 * server's start-up takes; empty: nothing. @param options of the address (`?options=…`); null: none.
 */
export const readStartOptions = (options: string | null) => {
  const words = (options ?? '').match(/(?:\\.|[^\s\\])+/gs) ?? []
  const settings: Setting[] = []
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

/** One statement: the settings of the address, then ours, which win. Throws where it is not answered in time. @returns the server's own number of the session; a pooler in between tells another. */
export const setUpSession = async (client: ClientBase, theirs: readonly Setting[], limitMs: number): Promise<number> => {
  const all = [...unlessTheirs, ...theirs, ...ownSettings]
  const set = all.map((_, index) => `set_config($${index * 2 + 1}, $${index * 2 + 2}, false)`)
  const text = `select pg_backend_pid() as pid, ${set.join(', ')}, ${neverOff}`
  const asked: QueryConfig & { query_timeout: number } = { text, values: all.flat(), query_timeout: limitMs }
  const { rows } = await client.query<Numbers<'pid'>>(asked)
  return rows[0]?.pid ?? 0
}
