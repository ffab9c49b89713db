// Opens the warehouse: a connection pool that reads values as text where JavaScript would lose digits; errors say what to do.
import { Kysely } from 'kysely'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { type CopyStreamQuery, type CopyToStreamQuery, from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { EtlError, isEtlError, messageOf, settingError } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import { type Flags, integersOf, type Numbers, type Texts, textsOf } from './typed-row.ts'
import { databaseError, describeUrl } from './database-error.ts'
import { type EmbeddedServer, startEmbedded } from './embedded.ts'
import { postgresDialect, readStartOptions, type SessionSetting, setUpSession } from './session.ts'
import { defaultSilenceMs, WatchedClient, watchStatements } from './stoppable.ts'
import type { Db, Tables } from './tables.ts'

/** One connection. Other folders use pg only through these two types. */
export type DatabaseClient = pg.PoolClient
/** For what Kysely cannot express: LISTEN, COPY, libraries that take a pool. */
export type DatabasePool = pg.Pool

/** The warehouse, connected. */
export type Database = Awaited<ReturnType<typeof connect>>

/** Which warehouse, and how patient its connections are. */
interface DatabaseOptions {
  /** null: the embedded PostgreSQL under `home`. */
  readonly databaseUrl: Secret | null
  readonly home: string
  readonly applicationName?: string
  /** Default 10. */
  readonly maxConnections?: number
  /** Only reads, so a standby or a read-only login is accepted. Default false. */
  readonly readsOnly?: boolean
  /** Whether an embedded warehouse that does not exist yet is refused. Default false: it is made. */
  readonly mustExist?: boolean
  /** How long a statement may stay without an answer before the server is asked whether it still works on it. Default 30 s. */
  readonly silenceMs?: number
}

const oldestVersion = 150_000
/** A process that ends waits so long for its statements; one that waits for a lock is left to the server. */
const farewellMs = 1_000
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

/** Opens the warehouse and checks that it is reachable, new enough and writable. Throws EtlError with the remedy. */
export const openDatabase = async (options: DatabaseOptions): Promise<Database> => {
  if (options.databaseUrl !== null) return connect(options, options.databaseUrl, null)
  for (let attempt = 1; ; attempt += 1) {
    const server = await startEmbedded(options.home, options.mustExist)
    try {
      return await connect(options, server.url, server)
    } catch (error) {
      // The command that started the server may have stopped it just before this connection.
      if (attempt >= adoptTries || !isEtlError(error) || error.code !== 'DATABASE_UNREACHABLE') throw error
    }
  }
}

/** With these modes libpq, and so every other PostgreSQL program, does not verify the server's name; this driver would. */
const libpqModes = new Set(['prefer', 'require'])

/** Exported for tests, which check what the docs say about sslmode. */
export const withLibpqMeaning = ({ searchParams }: URL): void => {
  if (libpqModes.has(searchParams.get('sslmode') ?? '') && !searchParams.has('uselibpqcompat'))
    searchParams.set('uselibpqcompat', 'true')
}

/**
 * The address with session options taken out: `settings` of the address are set after connecting, before ours, which win; our application name
 * stays, because other processes see by it that this one is alive.
 */
const withOwnSession = (url: Secret): { readonly config: pg.ClientConfig; readonly settings: readonly SessionSetting[] } => {
  const address = new URL(url.reveal())
  const { searchParams } = address
  // The driver does not decode these characters in a database's name; they are valid in a path, so decode them here.
  const pathname = address.pathname.replace(/%(?:2[46BCF]|3[ABD]|40)/gi, decodeURIComponent)
  if (searchParams.size === 0 && pathname === address.pathname)
    return { config: { connectionString: url.reveal() }, settings: [] }
  const { settings, rest } = readStartOptions(searchParams.get('options'))
  for (const name of ['options', 'application_name', 'fallback_application_name']) searchParams.delete(name)
  withLibpqMeaning(address)
  address.pathname = pathname
  return { config: { connectionString: address.href, ...(rest === '' ? {} : { options: rest }) }, settings }
}

const connect = async (options: DatabaseOptions, url: Secret, embedded: EmbeddedServer | null) => {
  const session = withOwnSession(url)
  const silenceMs = options.silenceMs ?? defaultSilenceMs
  const display = describeUrl(url)
  const watch = watchStatements(() => withOwnSession(url).config, silenceMs, display)
  // A password may be rotated while the process lives.
  const now = (): pg.ClientConfig => {
    url.renew()
    return withOwnSession(url).config
  }
  const begin = async (client: pg.ClientBase): Promise<void> => {
    const pid = await setUpSession(client, session.settings, silenceMs)
    if (client instanceof WatchedClient) watch.add(Object.assign(client, { pid }))
  }
  const pool = new pg.Pool({
    ...session.config,
    ...{ Client: WatchedClient, now },
    onConnect: begin,
    max: options.maxConnections ?? 10,
    application_name: options.applicationName ?? 'millrace',
    connectionTimeoutMillis: 15_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    idleTimeoutMillis: 30_000,
    types: typeParsers,
  })
  // A connection that breaks while idle or between two statements is replaced at the next use; without a listener its error event would
  // end the process.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
  try {
    await assertUsable(pool, session.config, display, options.readsOnly === true)
  } catch (error) {
    await pool.end()
    await watch.end()
    throw error
  }
  const kysely: Db = new Kysely<Tables>({ dialect: postgresDialect(pool) })
  return {
    kysely,
    pool,
    /** Host, port and database; never the password. */
    display: embedded === null ? display : `${display} (embedded)`,
    embedded: embedded !== null,
    /** The psql command of the embedded server; null: DATABASE_URL names the server. */
    psql: embedded?.psql ?? null,
    url,
    /** Ends the pool, and the embedded server unless another command uses it. */
    close: async (): Promise<void> => {
      await Promise.race([pool.end(), setTimeout(farewellMs, undefined, { ref: false })])
      await watch.end()
      await embedded?.release()
    },
  }
}

type ServerFacts = Texts<'version' | 'read_only' | 'encoding'> & Flags<'standby'> & Numbers<'pid'>

const assertUsable = async (pool: pg.Pool, config: pg.ClientConfig, display: string, readsOnly: boolean): Promise<void> => {
  try {
    const client = await pool.connect()
    try {
      const { rows } = await client.query<ServerFacts>(
        `select current_setting('server_version_num') as version, pg_is_in_recovery() as standby,
          current_setting('default_transaction_read_only') as read_only, current_setting('server_encoding') as encoding, pg_backend_pid() as pid`,
      )
      const [server] = rows
      if (server !== undefined) assertFit(server, display, readsOnly)
      if (server !== undefined && isPooled(client, server.pid)) await assertOwnSession(client, config, display)
    } finally {
      client.release()
    }
  } catch (error) {
    throw isEtlError(error) ? error : databaseError(error, display)
  }
}

const assertFit = ({ version, standby, read_only, encoding }: ServerFacts, display: string, readsOnly: boolean): void => {
  if (Number(version) < oldestVersion) {
    throw settingError(
      `The warehouse ${display} is PostgreSQL ${version}; Millrace needs 15 or newer. Upgrade it, or set DATABASE_URL to another.`,
    )
  }
  // SQL_ASCII stores any bytes.
  if (!['UTF8', 'SQL_ASCII'].includes(encoding)) {
    throw settingError(
      `The warehouse ${display} has the encoding ${encoding}, which lacks characters that answers hold. Make a database with ENCODING 'UTF8' and set DATABASE_URL to it.`,
    )
  }
  if (!readsOnly && (standby || read_only === 'on')) {
    throw new EtlError(
      'DATABASE_READ_ONLY',
      `The warehouse ${display} accepts no writes (a standby, or default_transaction_read_only is on). Set DATABASE_URL to the primary.`,
    )
  }
}

/** COPY … TO STDOUT as a stream; `rowCount` is right once it has ended. */
export const copyOutOf = (client: DatabaseClient, statement: string): CopyToStreamQuery => client.query(copyTo(statement))

/** A stream into `copy … from stdin`; ends when PostgreSQL has taken everything. */
export const copyInto = (client: DatabaseClient, statement: string): CopyStreamQuery => client.query(copyFrom(statement))

const answerMs = 10_000
/** Several rounds: another client of the pooler can make one round look right by chance. */
const rounds = 3

const pidOf = async (client: pg.ClientBase): Promise<number | undefined> =>
  (await client.query<Numbers<'pid'>>('select pg_backend_pid() as pid')).rows[0]?.pid

/** Whether a pooler is between: it sends an invented pid at the start of a session. @param pid the server's own pid of the session */
const isPooled = (client: pg.ClientBase, pid: number): boolean =>
  'processID' in client && typeof client.processID === 'number' && client.processID !== pid

/**
 * Throws CONFIGURATION where one client's statements reach different sessions (transaction or statement pooling): prepared statements, settings and
 * temporary tables would mix. While a second client is inside a transaction, the first must keep its session and not share it.
 * @param display the database as people know it
 */
const assertOwnSession = async (client: pg.ClientBase, config: pg.ClientConfig, display: string): Promise<void> => {
  const other = new pg.Client({
    ...config,
    application_name: 'millrace pooler check',
    connectionTimeoutMillis: answerMs,
    query_timeout: answerMs,
  })
  other.on('error', () => undefined)
  try {
    await other.connect()
    for (let round = 0; round < rounds; round += 1) {
      const before = await pidOf(client)
      await other.query('begin')
      const isShared = (await pidOf(other)) === before || (await pidOf(client)) !== before
      await other.query('rollback')
      if (isShared) throw transactionPooling(display)
    }
  } catch (error) {
    throw /statement pooling/i.test(messageOf(error)) ? transactionPooling(display) : error
  } finally {
    other.end().catch(() => undefined)
  }
}

const transactionPooling = (display: string): EtlError =>
  settingError(
    `The warehouse ${display} is behind a pooler that gives each transaction another session (transaction or statement pooling, such as PgBouncer with ` +
      'pool_mode = transaction). Millrace needs sessions of its own: set pool_mode = session for this database in the pooler, or let DATABASE_URL name ' +
      'PostgreSQL itself. Readers of bi may use either.',
  )
