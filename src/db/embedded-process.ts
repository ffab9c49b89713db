// The embedded server's process: started with settings for bulk loads, recognised by the data folder it serves, stopped.
import { spawn, spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { totalmem } from 'node:os'
import { systemClock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import { asUser, prepareLog, readPostmaster, type ServerFiles } from './embedded-data.ts'
import type { ServerUser } from './embedded-user.ts'
import { processIsAlive } from './process-mark.ts'

/** Long enough for a recovery after a crash in the middle of a large load. */
const readyMs = 300_000
const stoppedMs = 60_000
const pollMs = 20

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

/** How the server is started, and how it shows that it is up. */
export interface ServerStart {
  readonly files: ServerFiles
  readonly program: string
  readonly user: ServerUser | null
  readonly port: number
  /** Whether the server on that port answers. */
  readonly answers: () => Promise<boolean>
}

/** Starts the server; null when it answers, else what it wrote before it gave up. */
export const startServer = async ({ files, program, user, port, answers }: ServerStart): Promise<string | null> => {
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
  const until = performance.now() + readyMs
  while (ended === null && performance.now() < until) {
    if (readPostmaster(files)?.pid === child.pid && (await answers())) return null
    await systemClock.sleep(pollMs)
  }
  if (ended === null) child.kill('SIGQUIT')
  const said = readFileSync(files.log).subarray(logStart).toString()
  return `${said}${ended ?? `it does not answer after ${readyMs / 1000} seconds`}`.trim()
}

/** Whether process `pid` is a PostgreSQL of this data folder: a pid file may outlive its server, and pids are given out again. */
export const servesData = (pid: number, files: ServerFiles): boolean => {
  if (!processIsAlive(pid)) return false
  if (process.platform !== 'linux') return describeProcess(pid).includes(files.data)
  try {
    // A postmaster's working folder is its data folder, however its command line spelled that.
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(files.data)
  } catch {
    return commandLine(pid).includes(files.data)
  }
}

const commandLine = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    // It ended between two looks.
    return ''
  }
}

const describeProcess = (pid: number): string =>
  spawnSync('ps', ['-p', String(pid), '-o', 'command='], { encoding: 'utf8' }).stdout ?? ''

/** Fast shutdown: transactions are rolled back, everything committed is written. Returns when the server is gone. */
export const stopServer = async (pid: number): Promise<void> => {
  try {
    process.kill(pid, 'SIGINT')
  } catch {
    // It went by itself.
    return
  }
  const until = performance.now() + stoppedMs
  while (processIsAlive(pid) && performance.now() < until) await systemClock.sleep(pollMs)
}

/** A port that was free a moment ago; whoever takes it must be ready to find it taken. */
export const freePort = (): Promise<number> =>
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
