// The connection pool, with values as text where JavaScript would lose digits, and errors in our own words.
import type { Writable } from 'node:stream'
import { Kysely } from 'kysely'
import pg from 'pg'
import { type CopyToStreamQuery, from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { EtlError, isEtlError } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import { defaultSilenceMs, watchAnswers } from './answer-watch.ts'
import { databaseError, describeUrl } from './database-error.ts'
import { postgresDialect } from './dialect.ts'
import { type EmbeddedServer, startEmbedded } from './embedded.ts'
import { integersOf, textsOf } from './arrays.ts'
import { sendByName } from './prepared.ts'
import type { Tables } from './tables.ts'

export type DatabaseClient = pg.PoolClient
export type DatabasePool = pg.Pool

export interface Database {
  readonly kysely: Kysely<Tables>
  readonly pool: pg.Pool
  /** Host, port and database; never the password. */
  readonly display: string
  readonly embedded: boolean
  readonly url: Secret
  /** Ends the pool, and the embedded server unless another command uses it. */
  close(options?: { keepRunning?: boolean }): Promise<void>
}

export interface DatabaseOptions {
  /** null: the embedded PostgreSQL under `home`. */
  readonly databaseUrl: Secret | null
  readonly home: string
  readonly applicationName?: string
  /** Default 10. */
  readonly maxConnections?: number
  /** How long a statement may bring nothing before its server is asked whether it still works on it. Default 30 s. */
  readonly silenceMs?: number
}

const oldestVersion = 150_000
const adoptTries = 3

/** bigint, numeric, dates and timestamps as the text PostgreSQL sends; timestamptz as ISO 8601 in UTC. */
const typeParsers: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if ([20, 1700, 1082, 1083, 1114].includes(oid)) return (value: string) => value
    if (oid === 1184) return isoTimestamp
    const parse = pg.types.getTypeParser(oid, format as 'text')
    if (oid === 1007) return (value: string) => integersOf(value) ?? parse(value)
    return oid === 1009 ? (value: string) => textsOf(value) ?? parse(value) : parse
  }) as pg.CustomTypesConfig['getTypeParser'],
}

const isoTimestamp = (value: string): string => {
  const zoned = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)\+00$/.exec(value)
  return zoned === null ? value : `${zoned[1]}T${zoned[2]}Z`
}

/** Opens the warehouse and looks whether it is there, new enough and writable. Throws EtlError with the remedy. */
export const openDatabase = async (options: DatabaseOptions): Promise<Database> => {
  if (options.databaseUrl !== null) return connect(options, options.databaseUrl, null)
  for (let attempt = 1; ; attempt += 1) {
    const server = await startEmbedded(options.home)
    try {
      return await connect(options, server.url, server)
    } catch (error) {
      // The command that had started it may have stopped it between our look and our connection.
      if (attempt >= adoptTries || !isEtlError(error) || error.code !== 'DATABASE_UNREACHABLE') throw error
    }
  }
}

/** What values look like as text does not depend on the server's or the address's own settings. */
const ownOptions = '-c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601 -c client_min_messages=warning -c jit=off'

/** Where libpq, and with it every other PostgreSQL program, does not verify the server's name; this driver would. */
const libpqModes = new Set(['prefer', 'require'])

/**
 * What the address says of the session gives way to ours: their options come first and ours win, and our name stays, by which other
 * processes see that this one lives.
 */
const withOwnSession = (url: Secret): { connectionString: string; options: string } => {
  const address = new URL(url.reveal())
  const { searchParams } = address
  if (searchParams.size === 0) return { connectionString: url.reveal(), options: ownOptions }
  const theirs = searchParams.get('options')
  for (const name of ['options', 'application_name', 'fallback_application_name']) searchParams.delete(name)
  if (libpqModes.has(searchParams.get('sslmode') ?? '') && !searchParams.has('uselibpqcompat'))
    searchParams.set('uselibpqcompat', 'true')
  return { connectionString: address.href, options: theirs === null ? ownOptions : `${theirs} ${ownOptions}` }
}

const connect = async (options: DatabaseOptions, url: Secret, embedded: EmbeddedServer | null): Promise<Database> => {
  const session = withOwnSession(url)
  const watch = { config: session, silenceMs: options.silenceMs ?? defaultSilenceMs }
  const pool = new pg.Pool({
    ...session,
    onConnect: (client) => (client instanceof pg.Client ? watchAnswers(client, watch) : undefined),
    max: options.maxConnections ?? 10,
    application_name: options.applicationName ?? 'millrace',
    connectionTimeoutMillis: 15_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    idleTimeoutMillis: 30_000,
    types: typeParsers,
  })
  // A connection that is cut, idle or between two statements of a transaction, is replaced at the next use; without a listener it would
  // end the process.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => {
    client.on('error', () => undefined)
    sendByName(client)
  })
  const display = describeUrl(url)
  try {
    await assertUsable(pool, display)
  } catch (error) {
    await pool.end()
    throw error
  }
  const kysely = new Kysely<Tables>({ dialect: postgresDialect(pool) })
  return {
    kysely,
    pool,
    display: embedded === null ? display : `${display} (embedded)`,
    embedded: embedded !== null,
    url,
    close: async (choice) => {
      await pool.end()
      await embedded?.release(choice)
    },
  }
}

const assertUsable = async (pool: pg.Pool, display: string): Promise<void> => {
  try {
    const { rows } = await pool.query<{ version: string; standby: boolean; read_only: string }>(
      `select current_setting('server_version_num') as version, pg_is_in_recovery() as standby,
        current_setting('default_transaction_read_only') as read_only`,
    )
    const [server] = rows
    if (Number(server?.version) < oldestVersion) {
      throw new EtlError(
        'CONFIGURATION',
        `The warehouse ${display} is PostgreSQL ${server?.version}; Millrace needs 15 or newer. Upgrade it, or set DATABASE_URL to another.`,
      )
    }
    if (server?.standby === true || server?.read_only === 'on') {
      throw new EtlError(
        'DATABASE_READ_ONLY',
        `The warehouse ${display} accepts no writes (a standby, or default_transaction_read_only is on). Set DATABASE_URL to the primary.`,
      )
    }
  } catch (error) {
    throw isEtlError(error) ? error : databaseError(error, display)
  }
}

/** COPY … TO STDOUT as a stream; `rowCount` is right once it has ended. */
export const copyOutOf = (client: DatabaseClient, statement: string): CopyToStreamQuery => client.query(copyTo(statement))

/** A stream into `copy … from stdin`; ends when PostgreSQL has taken everything. */
export const copyInto = (client: DatabaseClient, statement: string): Writable => client.query(copyFrom(statement))
