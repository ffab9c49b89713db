// The PostgreSQL servers that the machine has installed beside the embedded one (Debian's, for example), each started for a test alone, with its own tools.
import { execFile, spawnSync } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../src/db/embedded.ts'
import { serverUser } from '../../src/db/embedded-program.ts'

/** `INSTALLED_POSTGRESQL=DIR` names another folder with a folder for each version. */
export const installed = process.env['INSTALLED_POSTGRESQL'] ?? '/usr/lib/postgresql'

/** Major versions; none: their tests are left out by name. */
export const installedVersions = (): readonly string[] =>
  existsSync(installed) ? readdirSync(installed).filter((version) => existsSync(join(installed, version, 'bin', 'initdb'))) : []

export interface InstalledServer {
  /** Of its database `postgres`. */
  readonly url: string
  /** Where its programs may write. */
  readonly folder: string
  /** Runs one of its programs (`pg_dump` …) against it; throws with what that said. */
  run(program: string, ...args: readonly string[]): void
  /** The same, while this process goes on. */
  runBeside(program: string, ...args: readonly string[]): Promise<void>
  /** Stops it and takes its data away. */
  remove(): void
}

const user = serverUser()
const as = user === null ? {} : { uid: user.uid, gid: user.gid }

const environment = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C' }

const runIn = (bin: string, program: string, args: readonly string[]): void => {
  const { status, stderr, error } = spawnSync(join(bin, program), args, {
    ...as,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
    env: environment,
  })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr || error?.message}`)
}

/** @param settings `name=value`, beside those of all */
export const startInstalled = async (version: string, settings: readonly string[] = []): Promise<InstalledServer> => {
  const bin = join(installed, version, 'bin')
  const folder = mkdtempSync(join(tmpdir(), `millrace-postgresql-${version}-`))
  if (user !== null) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  const port = await freePort()
  const connection = ['-h', '127.0.0.1', '-p', String(port), '-U', 'postgres']
  runIn(bin, 'initdb', ['-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '-N'])
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c max_connections=200${settings.map((one) => ` -c ${one}`).join('')}`
  // Its output goes to a file of its own: a pipe that the server inherits would keep `pg_ctl` from ending.
  const { status } = spawnSync(join(bin, 'pg_ctl'), ['-D', data, '-w', '-l', join(data, 'log'), '-o', options, 'start'], {
    ...as,
    cwd: '/',
    stdio: 'ignore',
  })
  if (status !== 0) throw new Error(`PostgreSQL ${version} did not start; see ${join(data, 'log')}`)
  return {
    folder,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    run: (program, ...args) => runIn(bin, program, [...connection, ...args]),
    runBeside: async (program, ...args) => {
      await promisify(execFile)(join(bin, program), [...connection, ...args], { ...as, cwd: '/', env: environment })
    },
    remove: () => {
      spawnSync(join(bin, 'pg_ctl'), ['-D', data, '-m', 'immediate', 'stop'], { ...as, cwd: '/', stdio: 'ignore' })
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
