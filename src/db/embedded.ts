// The default warehouse: a PostgreSQL of our own under MILLRACE_HOME, shared by the commands that run at the same time.
import { chmodSync, chownSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { systemClock } from '../core/clock.ts'
import { EtlError, messageOf, settingError } from '../core/errors.ts'
import { makeFolders } from '../core/disk-error.ts'
import { type Secret, secret } from '../core/redact.ts'
import { databaseError, sqlStateOf } from './database-error.ts'
import {
  ensureData,
  makeFolder,
  runningServer,
  type ServerFiles,
  serverFiles,
  serverPassword,
  superuser,
  withServerLock,
} from './embedded-data.ts'
import { runProgram, serverUser, type ServerUser } from './embedded-program.ts'

const databaseName = 'warehouse'
const portTries = 5
const adoptMs = 300_000
/** How long backends of a killed server may still hold its shared memory. */
const leftoverMs = 30_000
const pollMs = 50
/** Long enough for a recovery after a crash in the middle of a large load. */
const readySeconds = '300'
const stoppedSeconds = '60'

/** Whether a command has the server of `home` running. */
export const isEmbeddedRunning = (home: string): boolean => runningServer(serverFiles(home)) !== null

/** Throws CONFIGURATION where no command has made the warehouse of `home` yet. */
const assertMade = (home: string): void => {
  if (existsSync(serverFiles(home).data)) return
  throw settingError(
    `There is no warehouse here yet: DATABASE_URL is not set, and ${home} holds none. Run \`millrace migrate\` in the folder with your pipelines; ` +
      '`millrace init NAME` makes such a folder, `millrace demo` shows rows. Nothing was started.',
  )
}

/** Adopts the server of `home`, or starts it; sets it up at the first call, unless `mustExist`. Throws EtlError with the server's own words. */
export const startEmbedded = async (home: string, mustExist = false): Promise<EmbeddedServer> => {
  if (mustExist) assertMade(home)
  const files = serverFiles(home)
  const user = serverUser()
  await makeFolders(home)
  makeFolder(files, user)
  return withServerLock(files.folder, async () => {
    const password = serverPassword(files)
    const running = await adopt(files, password)
    const port = running ?? (await startAnew(files, user, password))
    // Connect before releasing the lock: from then on no other command stops the server.
    const presence = await connectPresence(password, port)
    return serverOf(files, password, port, running !== null, presence)
  })
}

const urlOf = (password: Secret, port: number, database: string): string =>
  `postgres://${superuser}:${password.reveal()}@127.0.0.1:${port}/${database}`

/** The PostgreSQL of a warehouse that has no DATABASE_URL. */
export type EmbeddedServer = ReturnType<typeof serverOf>

/** @param adopted another command had started it */
const serverOf = (files: ServerFiles, password: Secret, port: number, adopted: boolean, presence: pg.Client) => ({
  url: secret('embedded database', urlOf(password, port, databaseName)),
  ...{ port, adopted },
  /** The psql command, for people; reads the password from its file. */
  psql: `PGPASSWORD=$(cat '${join(files.folder, 'password')}') psql -h 127.0.0.1 -p ${port} -U ${superuser} ${databaseName}`,
  /** Stops the server unless another session is connected. */
  release: async (): Promise<void> => {
    setRef(presence, 'ref')
    await presence.end().catch(() => undefined)
    await withServerLock(files.folder, () => stopWhenAlone(files, password, port))
  },
})

const newClient = (password: Secret, port: number): pg.Client => {
  const client = new pg.Client({
    connectionString: urlOf(password, port, 'postgres'),
    connectionTimeoutMillis: 5_000,
    application_name: 'millrace-embedded',
  })
  // If the server stops, the next statement fails; the event itself must not end the process.
  client.on('error', () => undefined)
  return client
}

/** A connection held open while this command runs, so that no other command stops the server. It does not keep the process alive. */
const connectPresence = async (password: Secret, port: number): Promise<pg.Client> => {
  const client = newClient(password, port)
  try {
    await client.connect()
    const found = await client.query('select 1 from pg_database where datname = $1', [databaseName])
    if (found.rows.length === 0) await client.query(`create database ${databaseName}`)
    setRef(client, 'unref')
    return client
  } catch (error) {
    await client.end().catch(() => undefined)
    throw databaseError(error, `127.0.0.1:${port} (embedded)`)
  }
}

/** Sets whether the connection keeps the process alive; pg's types lack both methods. */
const setRef = (client: pg.Client, name: 'ref' | 'unref'): void => {
  const change: unknown = Reflect.get(client, name)
  if (typeof change === 'function') change.call(client)
}

/** Port of a live server of this data folder, or null. Waits while it is starting up, recovering or shutting down. */
const adopt = async (files: ServerFiles, password: Secret): Promise<number | null> => {
  const until = performance.now() + adoptMs
  while (performance.now() < until) {
    const running = runningServer(files)
    if (running === null) return null
    const state = running.port === null ? 'busy' : await probe(password, running.port)
    if (state === 'ready') return running.port
    if (state === 'foreign') {
      throw settingError(
        `The PostgreSQL of ${files.data} (process ${running.pid}) does not accept the password in ${files.folder}/password. ` +
          'Put the right one back, or stop that server, or set MILLRACE_HOME to another folder.',
      )
    }
    await systemClock.sleep(pollMs)
  }
  throw new EtlError(
    'DATABASE_UNREACHABLE',
    `The embedded PostgreSQL of ${files.folder} runs (process ${runningServer(files)?.pid}) but does not answer; see ${files.log}.`,
  )
}

/** `busy`: not listening yet, starting up, shutting down or recovering. `foreign`: it does not accept our password. */
const probe = async (password: Secret, port: number): Promise<'ready' | 'busy' | 'foreign'> => {
  const client = newClient(password, port)
  try {
    await client.connect()
    await client.query('select 1')
    return 'ready'
  } catch (error) {
    return sqlStateOf(error).startsWith('28') ? 'foreign' : 'busy'
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Sets the data up where there is none and starts a server on a free port; returns the port. */
const startAnew = async (files: ServerFiles, user: ServerUser | null, password: Secret): Promise<number> => {
  await ensureData(files, user, password)
  const leftoversUntil = performance.now() + leftoverMs
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort()
    const failure = await startServer(files, user, port)
    if (failure === null) return port
    const next = remedy(files, failure)
    if (next === 'wait' && performance.now() < leftoversUntil) await systemClock.sleep(pollMs * 4)
    else if (next !== 'again' || attempt >= portTries) {
      throw new EtlError(
        'DATABASE_UNREACHABLE',
        `The embedded PostgreSQL under ${files.folder} did not start: ${failure}\n` +
          `Fix what it says (its log is ${files.log}), or set DATABASE_URL to a PostgreSQL of your own.`,
      )
    }
  }
}

/** Settings for bulk loads on one machine; durability is not touched. */
const serverSettings = (): string => {
  const megabytes = Math.floor(totalmem() / 8 / 1024 / 1024)
  const settings: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    shared_buffers: `${Math.max(64, Math.min(512, megabytes))}MB`,
    max_wal_size: '4GB',
    checkpoint_timeout: '15min',
    // The server has no replica, so a table filled in the transaction that made it needs no WAL.
    wal_level: 'minimal',
    max_wal_senders: '0',
    maintenance_work_mem: '128MB',
    jit: 'off',
    log_timezone: 'UTC',
    timezone: 'UTC',
  }
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ')
}

/** Starts the server; null: it runs; else its error output. Exported for tests. */
export const startServer = async (files: ServerFiles, user: ServerUser | null, port: number): Promise<string | null> => {
  if (!existsSync(files.log)) writeFileSync(files.log, '')
  chmodSync(files.log, 0o600)
  if (user !== null) chownSync(files.log, user.uid, user.gid)
  const logStart = statSync(files.log).size
  const options = `-p ${port} ${serverSettings()}`
  const failure = await runProgram(
    'pg_ctl',
    files.data,
    ['-w', '-t', readySeconds, '-l', files.log, '-o', options, 'start'],
    user,
  )
  return failure && (readFileSync(files.log).subarray(logStart).toString().trim() || failure)
}

/** A port that was free a moment ago; the caller must handle that it is taken by now. */
export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const listener = createServer()
    listener.once('error', (cause) =>
      reject(
        new EtlError(
          'DATABASE_UNREACHABLE',
          `No port on 127.0.0.1 is free: ${messageOf(cause)}. Set DATABASE_URL to a PostgreSQL of your own.`,
          { cause },
        ),
      ),
    )
    listener.listen(0, '127.0.0.1', () => {
      const address = listener.address()
      listener.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })

/** How to fix the failure: try again at once (the port was taken, a dead server left its pid file) or after a wait. */
const remedy = (files: ServerFiles, failure: string): 'again' | 'wait' | 'nothing' => {
  if (/could not bind|Address already in use|could not create any TCP/.test(failure)) return 'again'
  // Backends of a killed postmaster need a moment to notice and end.
  if (/shared memory block.*still in use/.test(failure)) return 'wait'
  if (!/(?:lock|PID) file ".*postmaster\.pid"/.test(failure) || runningServer(files) !== null) return 'nothing'
  // Another program has the pid by now, or the file is truncated.
  rmSync(files.pidFile, { force: true })
  return 'again'
}

/** Call under the server's lock. Any other connection, also of another program, keeps the server running. */
const stopWhenAlone = async (files: ServerFiles, password: Secret, port: number): Promise<void> => {
  if (runningServer(files)?.port !== port) return
  const client = newClient(password, port)
  try {
    await client.connect()
    // A connection just closed may be counted for a moment longer.
    for (let look = 0; (await otherClients(client)) > 0; look += 1) {
      if (look >= 5) return
      await systemClock.sleep(pollMs)
    }
  } catch {
    // No answer: the server is stopping already, or recovers, and the next command will find it.
    return
  } finally {
    await client.end().catch(() => undefined)
  }
  // Mode fast: rolls back open transactions, writes all commits. After the timeout the server continues to shut down by itself.
  await runProgram('pg_ctl', files.data, ['-w', '-t', stoppedSeconds, '-m', 'fast', 'stop'], serverUser())
}

const otherClients = async (client: pg.Client): Promise<number> => {
  const { rows } = await client.query<{ n: number }>(
    `select count(*)::int as n from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`,
  )
  return rows[0]?.n ?? 0
}
