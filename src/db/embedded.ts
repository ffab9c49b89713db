// The default warehouse: a PostgreSQL of our own under MILLRACE_HOME, shared by the commands that run at the same time.
import { spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { totalmem } from 'node:os'
import pg from 'pg'
import { systemClock } from '../core/clock.ts'
import { EtlError, messageOf } from '../core/errors.ts'
import { type Secret, secret } from '../core/redact.ts'
import { findBinaries } from './embedded-binaries.ts'
import {
  asUser,
  ensureData,
  makeFolders,
  prepareLog,
  readPostmaster,
  type ServerFiles,
  serverFiles,
  serverPassword,
  superuser,
} from './embedded-data.ts'
import { canReach, type ServerUser, serverUser } from './embedded-user.ts'
import { processIsAlive } from './process-alive.ts'

export interface EmbeddedServer {
  readonly url: Secret
  readonly port: number
  /** Another command had started it. */
  readonly adopted: boolean
  /** Stops the server unless another command is connected or `keepRunning` is set. */
  release(options?: { keepRunning?: boolean }): Promise<void>
}

const databaseName = 'warehouse'
const startTries = 5
const readyMs = 60_000
const pollMs = 20

/** Adopts the server of `home`, or starts it; sets it up at the first call. Throws EtlError with the server's own words. */
export const startEmbedded = async (home: string): Promise<EmbeddedServer> => {
  const files = serverFiles(home)
  makeFolders(files)
  const password = serverPassword(files)
  const running = await adopt(files, password)
  if (running !== null) return server(files, password, running, true)
  const user = serverUser()
  const binaries = findBinaries((path) => canReach(user, path))
  ensureData(files, binaries, user, password)
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort()
    const failure = await start(files, binaries.postgres, user, password, port)
    if (failure === null) return server(files, password, port, false)
    const other = await adopt(files, password)
    if (other !== null) return server(files, password, other, true)
    if (attempt >= startTries || !mendable(files, failure)) {
      throw new EtlError('DATABASE_UNREACHABLE', `The embedded PostgreSQL under ${files.folder} did not start: ${failure.trim()}`)
    }
  }
}

const urlOf = (password: Secret, port: number, database: string): string =>
  `postgres://${superuser}:${password.reveal()}@127.0.0.1:${port}/${database}`

const server = async (files: ServerFiles, password: Secret, port: number, adopted: boolean): Promise<EmbeddedServer> => {
  await ensureDatabase(password, port)
  return {
    url: secret('embedded database', urlOf(password, port, databaseName)),
    port,
    adopted,
    release: async (options) => {
      if (options?.keepRunning !== true) await stopWhenAlone(files, password, port)
    },
  }
}

/** One statement on a connection of its own; the connection is closed whatever happens. */
const query = async (url: string, text: string, values: unknown[] = []): Promise<pg.QueryResult<Record<string, unknown>>> => {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000, application_name: 'millrace-embedded' })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await client.query(text, values)
  } finally {
    await client.end().catch(() => undefined)
  }
}

const ensureDatabase = async (password: Secret, port: number): Promise<void> => {
  const admin = urlOf(password, port, 'postgres')
  const found = await query(admin, 'select 1 from pg_database where datname = $1', [databaseName])
  if (found.rows.length > 0) return
  await query(admin, `create database ${databaseName}`).catch((error: unknown) => {
    // A twin made it in between.
    if (!/already exists|duplicate key/.test(messageOf(error))) throw error
  })
}

/** Port of a live server of this data folder, or null. Waits while it is starting up or shutting down. */
const adopt = async (files: ServerFiles, password: Secret): Promise<number | null> => {
  const until = Date.now() + readyMs
  while (Date.now() < until) {
    const written = readPostmaster(files)
    if (written === null || !isPostgres(written.pid)) return null
    const state = written.port === null ? 'busy' : await probe(password, written.port)
    if (state === 'ready') return written.port
    if (state === 'foreign') return null
    await systemClock.sleep(pollMs * 2)
  }
  return null
}

/** `busy`: not listening yet, starting up, shutting down or recovering. `foreign`: somebody who does not know our password. */
const probe = async (password: Secret, port: number): Promise<'ready' | 'busy' | 'foreign'> => {
  try {
    await query(urlOf(password, port, 'postgres'), 'select 1')
    return 'ready'
  } catch (error) {
    return /^28/.test((error as { code?: string }).code ?? '') ? 'foreign' : 'busy'
  }
}

/** Settings for bulk loads on one machine; durability is not touched. */
const serverSettings = (): string[] => {
  const megabytes = Math.floor(totalmem() / 8 / 1024 / 1024)
  const settings: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    shared_buffers: `${Math.max(64, Math.min(512, megabytes))}MB`,
    max_wal_size: '4GB',
    checkpoint_timeout: '15min',
    // No replica hangs on this server, so a table filled in the transaction that made it needs no WAL.
    wal_level: 'minimal',
    max_wal_senders: '0',
    maintenance_work_mem: '128MB',
    jit: 'off',
    log_timezone: 'UTC',
    timezone: 'UTC',
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

/** Starts the server; null when it answers, else what it wrote before it gave up. */
const start = async (
  files: ServerFiles,
  program: string,
  user: ServerUser | null,
  password: Secret,
  port: number,
): Promise<string | null> => {
  prepareLog(files, user)
  const logStart = statSync(files.log).size
  const log = openSync(files.log, 'a')
  const [command, args, options] = asUser(user, files, program, ['-D', files.data, '-p', String(port), ...serverSettings()])
  // A process group of its own: Ctrl-C in a terminal is for the command, which then stops the server in order.
  const child = spawn(command, args, {
    ...options,
    cwd: '/',
    detached: true,
    stdio: ['ignore', log, log],
    env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C' },
  })
  closeSync(log)
  child.unref()
  let ended: string | null = null
  child.once('error', (error) => {
    ended = messageOf(error)
  })
  child.once('exit', (code, signal) => {
    ended ??= `exit ${code ?? signal}`
  })
  const until = Date.now() + readyMs
  while (ended === null && Date.now() < until) {
    const written = readPostmaster(files)
    if (written?.pid === child.pid && (await probe(password, port)) === 'ready') return null
    await systemClock.sleep(pollMs)
  }
  const said = readFileSync(files.log, 'utf8').slice(logStart)
  return `${said}${ended ?? 'it does not answer'}`
}

/** Whether another try can help: the port was taken, or a dead server left its pid file behind. */
const mendable = (files: ServerFiles, failure: string): boolean => {
  if (/could not bind|Address already in use|could not create any TCP/.test(failure)) return true
  if (!/lock file ".*postmaster\.pid"/.test(failure) || !existsSync(files.pidFile)) return false
  const written = readPostmaster(files)
  // The pid was given to another program since, or the file was cut short.
  if (written !== null && isPostgres(written.pid)) return false
  rmSync(files.pidFile, { force: true })
  return true
}

const isPostgres = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('postgres')
  } catch {
    // No /proc (macOS): believe the pid file as long as the process lives.
    return process.platform !== 'linux' && processIsAlive(pid)
  }
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const listener = createServer()
    listener.once('error', reject)
    listener.listen(0, '127.0.0.1', () => {
      const address = listener.address()
      listener.close(() =>
        typeof address === 'object' && address !== null ? resolve(address.port) : reject(new Error('no port')),
      )
    })
  })

const stopWhenAlone = async (files: ServerFiles, password: Secret, port: number): Promise<void> => {
  const written = readPostmaster(files)
  if (written === null || written.port !== port) return
  const others = await query(
    urlOf(password, port, 'postgres'),
    `select count(*)::int as n from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`,
  ).catch(() => null)
  if (others === null || Number(others.rows[0]?.['n']) > 0) return
  // SIGINT is PostgreSQL's fast shutdown.
  process.kill(written.pid, 'SIGINT')
  const until = Date.now() + 30_000
  while (processIsAlive(written.pid) && existsSync(files.pidFile) && Date.now() < until) await systemClock.sleep(pollMs)
}
