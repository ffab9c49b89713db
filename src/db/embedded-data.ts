// The embedded server's files: private folder, data, password, log, the lock for starting and stopping, and postmaster.pid of a running server.
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { systemClock } from '../core/clock.ts'
import { codeOf } from '../core/disk-error.ts'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { type Secret, secret } from '../core/redact.ts'
import { runProgram, type ServerUser } from './embedded-program.ts'
import { processIsAlive } from './process-mark.ts'

/** Owner of the embedded server; it listens on this machine alone. */
export const superuser = 'millrace'

export type ServerFiles = ReturnType<typeof serverFiles>

/** Absolute paths below MILLRACE_HOME. */
export const serverFiles = (home: string) => {
  const folder = join(home, 'postgres')
  const data = join(folder, 'data')
  return { folder, data, log: join(folder, 'server.log'), pidFile: join(data, 'postmaster.pid') }
}

/** Makes the server's folder, private to this user; a server of another user may only pass through it. Throws where another user owns it, or it is a link. */
export const makeFolder = (files: ServerFiles, user: ServerUser | null): void => {
  let folder: number | null = null
  try {
    if (!existsSync(files.folder)) mkdirSync(files.folder, { mode: 0o700 })
    folder = openSync(files.folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    if (fstatSync(folder).uid !== (process.getuid?.() ?? 0)) throw new Error('it belongs to another user')
    fchmodSync(folder, user === null ? 0o700 : 0o711)
  } catch (cause) {
    throw new EtlError(
      'DISK',
      `${files.folder} cannot be a private folder: ${messageOf(cause)}. Set MILLRACE_HOME to a folder of yours, which you may write to.`,
      { cause },
    )
  } finally {
    if (folder !== null) closeSync(folder)
  }
}

/** The password of this data folder, made at the first call, in a file that only this user can read. */
export const serverPassword = (files: ServerFiles): Secret => {
  const file = join(files.folder, 'password')
  try {
    if (!existsSync(file)) writeFileSync(file, randomBytes(24).toString('base64url'), { mode: 0o600, flag: 'wx' })
    return secret('embedded database password', readFileSync(file, 'utf8').trim())
  } catch (cause) {
    throw new EtlError('DISK', `${file} cannot be written or read: ${messageOf(cause)}. Run as the user who made it.`, { cause })
  }
}

/** Whether the data folder is complete. Throws, and deletes nothing, where it holds data that PostgreSQL cannot open. */
const hasData = (files: ServerFiles): boolean => {
  if (existsSync(join(files.data, 'PG_VERSION'))) return true
  if (!existsSync(join(files.data, 'global', 'pg_control'))) return false
  throw new EtlError(
    'DATABASE_UNREACHABLE',
    `${files.data} holds data but no PG_VERSION, so PostgreSQL cannot open it. Restore that folder from a backup, ` +
      'or move it away to begin with an empty warehouse.',
  )
}

/** Runs initdb in a temporary folder and renames it when complete, so that a kill leaves no half-made data. Call under the server's lock. */
export const ensureData = async (files: ServerFiles, user: ServerUser | null, password: Secret): Promise<void> => {
  // Leftovers of a killed set-up.
  for (const name of readdirSync(files.folder))
    if (/^data\.\d+\.[0-9a-f]{8}(\.password)?$/.test(name)) rmSync(join(files.folder, name), { recursive: true, force: true })
  if (hasData(files)) return
  const making = `${files.data}.${process.pid}.${randomBytes(4).toString('hex')}`
  const passwordFile = `${making}.password`
  try {
    mkdirSync(making, { mode: 0o700 })
    writeFileSync(passwordFile, password.reveal(), { mode: 0o600 })
    if (user !== null) for (const path of [making, passwordFile]) chownSync(path, user.uid, user.gid)
    const access = ['-U', superuser, `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '--encoding=UTF8']
    const locale = ['--locale-provider=builtin', '--locale=C.UTF-8', '--no-instructions']
    const failure = await runProgram('initdb', making, [...access, ...locale], user)
    if (failure !== null) {
      throw new EtlError(
        'DATABASE_UNREACHABLE',
        `The embedded PostgreSQL could not be set up in ${files.folder}: ${/(?:FATAL|PANIC|error): .*/.exec(failure)?.[0] ?? failure}. Fix what it says, or set DATABASE_URL to a PostgreSQL of your own.`,
      )
    }
    rmSync(files.data, { recursive: true, force: true })
    renameSync(making, files.data)
  } catch (cause) {
    if (isEtlError(cause)) throw cause
    throw new EtlError('DISK', `The embedded PostgreSQL could not be set up in ${files.folder}: ${messageOf(cause)}.`, { cause })
  } finally {
    for (const path of [passwordFile, making]) rmSync(path, { recursive: true, force: true })
  }
}

/** What postmaster.pid says; null: no file, or no pid in it. Without a port: the server is starting and has not written it yet. */
export const readPostmaster = (files: ServerFiles) => {
  const lines = readIfThere(files.pidFile).split('\n')
  const pid = Number(lines[0])
  const port = Number(lines[3])
  if (!Number.isInteger(pid) || pid <= 0) return null
  return { pid, port: Number.isInteger(port) && port > 0 ? port : null }
}

const readIfThere = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    // A stopping server may delete its file at any moment.
    if (codeOf(error) === 'ENOENT') return ''
    throw new EtlError('DISK', `${file} cannot be read: ${messageOf(error)}. Run as the user who made it.`, { cause: error })
  }
}

/** The server that runs on this data; null: none. A pid file may outlive its server, and the system reuses pids. */
export const runningServer = (files: ServerFiles): ReturnType<typeof readPostmaster> => {
  const written = readPostmaster(files)
  if (written === null || !processIsAlive(written.pid)) return null
  try {
    // A postmaster's working folder is its data folder, however its command line spelled that.
    return realpathSync(`/proc/${written.pid}/cwd`) === realpathSync(files.data) ? written : null
  } catch {
    return commandLine(written.pid).includes(files.data) ? written : null
  }
}

/** For systems that do not show the working folder of another user's process. */
const commandLine = (pid: number): string =>
  process.platform === 'linux'
    ? readIfThere(`/proc/${pid}/cmdline`)
    : (spawnSync('ps', ['-p', String(pid), '-o', 'command='], { encoding: 'utf8' }).stdout ?? '')

const lookEveryMs = 25
/** Longer than a set-up and a recovery take. */
const patienceMs = 600_000
const busy = 5

/** Runs `work` while no other process (and no other work in this one) holds the lock of `folder`, which must exist. */
export const withServerLock = async <T>(folder: string, work: () => Promise<T>): Promise<T> => {
  const until = performance.now() + patienceMs
  let lock = tryLock(folder)
  for (; lock === null; lock = tryLock(folder)) {
    if (performance.now() > until) {
      throw new EtlError(
        'DATABASE_UNREACHABLE',
        `Another command has been starting or stopping the embedded PostgreSQL in ${folder} for ${patienceMs / 60_000} minutes; ` +
          'end that command, then run this one again.',
      )
    }
    await systemClock.sleep(lookEveryMs)
  }
  try {
    return await work()
  } finally {
    lock.close()
  }
}

/** null: another process holds it. Node has no flock(2), but SQLite uses locks of the operating system, which end with a kill -9, unlike a pid file. */
const tryLock = (folder: string): DatabaseSync | null => {
  let lock: DatabaseSync | null = null
  try {
    lock = new DatabaseSync(join(folder, 'lock'), { timeout: 0 })
    lock.exec('begin exclusive')
    return lock
  } catch (cause) {
    lock?.close()
    if (cause instanceof Error && 'errcode' in cause && cause.errcode === busy) return null
    throw new EtlError(
      'DISK',
      `${folder} cannot be locked: ${messageOf(cause)}. Set MILLRACE_HOME to a local folder of yours, which you may write to.`,
      { cause },
    )
  }
}
