// The connection pool, with values as text where JavaScript would lose digits, and errors in our own words.
import type { Writable } from 'node:stream'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { EtlError, isEtlError } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import { databaseError, describeUrl } from './database-error.ts'
import { type EmbeddedServer, startEmbedded } from './embedded.ts'
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
}

const oldestVersion = 150_000
const adoptTries = 3

/** bigint, numeric, dates and timestamps as the text PostgreSQL sends; timestamptz as ISO 8601 in UTC. */
const typeParsers: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if ([20, 1700, 1082, 1083, 1114].includes(oid)) return (value: string) => value
    if (oid === 1184) return isoTimestamp
    return pg.types.getTypeParser(oid, format as 'text')
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

const connect = async (options: DatabaseOptions, url: Secret, embedded: EmbeddedServer | null): Promise<Database> => {
  const pool = new pg.Pool({
    connectionString: url.reveal(),
    max: options.maxConnections ?? 10,
    application_name: options.applicationName ?? 'millrace',
    connectionTimeoutMillis: 15_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    idleTimeoutMillis: 30_000,
    types: typeParsers,
    options: '-c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601 -c client_min_messages=warning',
  })
  // An idle connection that is cut is replaced at the next use; without a listener it would end the process.
  pool.on('error', () => undefined)
  const display = describeUrl(url)
  try {
    await assertUsable(pool, display)
  } catch (error) {
    await pool.end()
    throw error
  }
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
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

/** Runs `work` in one transaction of its own connection. */
export const withTransaction = async <T>(database: Database, work: (client: DatabaseClient) => Promise<T>): Promise<T> =>
  withClient(database, async (client) => {
    await client.query('begin')
    try {
      const result = await work(client)
      await client.query('commit')
      return result
    } catch (error) {
      await client.query('rollback')
      throw error
    }
  })

/** Runs `work` on a connection of its own; one that broke is not given back. */
export const withClient = async <T>(database: Database, work: (client: DatabaseClient) => Promise<T>): Promise<T> => {
  const client = await database.pool.connect()
  const onError = (): void => undefined
  client.on('error', onError)
  let broken = true
  try {
    const result = await work(client)
    broken = false
    return result
  } finally {
    client.off('error', onError)
    client.release(broken)
  }
}

/** A stream into `copy … from stdin`; ends when PostgreSQL has taken everything. */
export const copyInto = (client: DatabaseClient, statement: string): Writable => client.query(copyFrom(statement))
