// The embedded server's files: data folder, password, and what postmaster.pid says of a running server.
import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { type Secret, secret } from '../core/redact.ts'
import type { Binaries } from './embedded-binaries.ts'
import { canReach, enteringPrivateFolders, type ServerUser } from './embedded-user.ts'

/** Absolute paths below MILLRACE_HOME. */
export interface ServerFiles {
  readonly folder: string
  readonly data: string
  readonly log: string
  readonly pidFile: string
}

/** Owner of the embedded server; it listens on this machine alone. */
export const superuser = 'millrace'

/** @param home MILLRACE_HOME */
export const serverFiles = (home: string): ServerFiles => {
  const folder = join(home, 'postgres')
  const data = join(folder, 'data')
  return { folder, data, log: join(folder, 'server.log'), pidFile: join(data, 'postmaster.pid') }
}

/** Makes the folders. Throws DISK with the remedy where it may not. */
export const makeFolders = (files: ServerFiles): void => {
  try {
    mkdirSync(files.folder, { recursive: true, mode: 0o755 })
  } catch (cause) {
    throw new EtlError(
      'DISK',
      `${files.folder} cannot be made: ${messageOf(cause)}. Set MILLRACE_HOME to a folder you may write to.`,
      { cause },
    )
  }
}

/** The password of this data folder, made at the first call; a file only we can read. */
export const serverPassword = (files: ServerFiles): Secret => {
  const file = join(files.folder, 'password')
  try {
    writeFileSync(file, randomBytes(24).toString('base64url'), { mode: 0o600, flag: 'wx' })
  } catch (error) {
    if (!existsSync(file)) throw new EtlError('DISK', `${file} cannot be written: ${messageOf(error)}.`, { cause: error })
  }
  try {
    return secret('embedded database password', readFileSync(file, 'utf8').trim())
  } catch (cause) {
    throw new EtlError(
      'CONFIGURATION',
      `${file} cannot be read: ${messageOf(cause)}. The embedded database belongs to the user who made it; ` +
        'run as that user, or set MILLRACE_HOME to a folder of your own.',
      { cause },
    )
  }
}

/** Command line and spawn options that run `program` as the server's user. */
export const asUser = (
  user: ServerUser | null,
  files: ServerFiles,
  program: string,
  args: readonly string[],
): [string, string[], object] => {
  if (user === null) return [program, [...args], {}]
  const closed = [files.data, program].find((path) => !canReach(user, path))
  if (closed === undefined) return [program, [...args], { uid: user.uid, gid: user.gid }]
  return [...enteringPrivateFolders(user, closed, program, args), {}]
}

/** Whether the data folder is whole. Throws where it holds data that PostgreSQL cannot open as it is: nothing is deleted then. */
const hasData = (files: ServerFiles): boolean => {
  if (existsSync(join(files.data, 'PG_VERSION'))) return true
  if (!existsSync(join(files.data, 'global', 'pg_control'))) return false
  throw new EtlError(
    'DATABASE_UNREACHABLE',
    `${files.data} holds data but no PG_VERSION, so PostgreSQL cannot open it. Restore that folder from a backup, ` +
      'or move it away to begin with an empty warehouse.',
  )
}

/** initdb into a folder of its own, renamed when whole, so that a kill leaves nothing half-made. Call under the server's lock. */
export const ensureData = (files: ServerFiles, binaries: Binaries, user: ServerUser | null, password: Secret): void => {
  removeHalfMade(files)
  if (hasData(files)) return
  const making = `${files.data}.${process.pid}.${randomBytes(4).toString('hex')}`
  const passwordFile = `${making}.password`
  try {
    mkdirSync(making, { mode: 0o700 })
    writeFileSync(passwordFile, password.reveal(), { mode: 0o600 })
    if (user !== null) for (const path of [making, passwordFile]) chownSync(path, user.uid, user.gid)
    const result = runInitdb(files, binaries, user, making, passwordFile)
    if (result.status !== 0) {
      const said = `${result.stderr ?? ''}${result.stdout ?? ''}`.trim() || messageOf(result.error ?? `signal ${result.signal}`)
      throw new EtlError(
        'DATABASE_UNREACHABLE',
        `The embedded PostgreSQL could not be set up in ${files.folder}: ${said}. Fix what it says, or set DATABASE_URL to a PostgreSQL of your own.`,
      )
    }
    rmSync(files.data, { recursive: true, force: true })
    renameSync(making, files.data)
  } catch (error) {
    if (isEtlError(error)) throw error
    throw new EtlError('DISK', `The embedded PostgreSQL could not be set up in ${files.folder}: ${messageOf(error)}.`, {
      cause: error,
    })
  } finally {
    rmSync(passwordFile, { force: true })
    rmSync(making, { recursive: true, force: true })
  }
}

/** What a killed set-up left behind. */
const removeHalfMade = (files: ServerFiles): void => {
  for (const name of readdirSync(files.folder)) {
    if (/^data\.\d+\.[0-9a-f]{8}(\.password)?$/.test(name)) rmSync(join(files.folder, name), { recursive: true, force: true })
  }
}

const runInitdb = (
  files: ServerFiles,
  binaries: Binaries,
  user: ServerUser | null,
  data: string,
  passwordFile: string,
): SpawnSyncReturns<string> => {
  const args = ['-D', data, '-U', superuser, `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '--encoding=UTF8']
  const locale = ['--locale-provider=builtin', '--locale=C.UTF-8', '--no-instructions']
  const [command, all, options] = asUser(user, files, binaries.initdb, [...args, ...locale])
  return spawnSync(command, all, {
    ...options,
    encoding: 'utf8',
    cwd: '/',
    env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C' },
  })
}

/** What PostgreSQL itself notes of the server that runs on the data. */
export interface PostmasterFile {
  readonly pid: number
  /** null: the server is just starting and has not written it yet. */
  readonly port: number | null
}

/** What postmaster.pid says; null when there is none or it names no process. */
export const readPostmaster = (files: ServerFiles): PostmasterFile | null => {
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
    // A server that stops takes its file with it between any two looks.
    if (typeof error === 'object' && error !== null && 'code' in error && error.code === 'ENOENT') return ''
    throw new EtlError('DISK', `${file} cannot be read: ${messageOf(error)}. Run as the user who made it.`, { cause: error })
  }
}

/** The server's log belongs to its user when we are root, so that it can be appended to. */
export const prepareLog = (files: ServerFiles, user: ServerUser | null): void => {
  if (!existsSync(files.log)) writeFileSync(files.log, '', { mode: 0o600 })
  if (user !== null) chownSync(files.log, user.uid, user.gid)
  chmodSync(files.log, 0o600)
}
