// PostgreSQL refuses to run as root: which user runs it then, and what that user can reach.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { EtlError } from '../core/errors.ts'

/** Whom the server runs as where this process is root, which PostgreSQL refuses. */
export interface ServerUser {
  readonly uid: number
  readonly gid: number
  readonly name: string
}

/** null: the process is not root, the server runs as whoever we are. */
export const serverUser = (): ServerUser | null => {
  if (process.getuid?.() !== 0) return null
  const entries = readFileSync('/etc/passwd', 'utf8').split('\n')
  for (const wanted of ['postgres', 'nobody']) {
    const [name, , uid, gid] = entries.find((entry) => entry.startsWith(`${wanted}:`))?.split(':') ?? []
    if (name !== undefined && Number(uid) > 0) return { name, uid: Number(uid), gid: Number(gid) }
  }
  throw new EtlError(
    'CONFIGURATION',
    'PostgreSQL does not run as root and there is no user `postgres` or `nobody`; run as another user or set DATABASE_URL.',
  )
}

/** Whether `user` may enter every folder above `path`. */
export const canReach = (user: ServerUser | null, path: string): boolean => closedFolder(user, path) === null

const closedFolder = (user: ServerUser | null, path: string): string | null => {
  if (user === null) return null
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
 * Command and arguments that start `program` as `user` with the right to enter private folders, for a home under /root.
 * @param path what the user cannot reach otherwise. Throws CONFIGURATION where setpriv (util-linux) is not installed.
 */
export const enteringPrivateFolders = (
  user: ServerUser,
  path: string,
  program: string,
  args: readonly string[],
  folders: readonly string[] = programFolders,
): [string, string[]] => {
  const setpriv = folders.map((folder) => join(folder, 'setpriv')).find((file) => existsSync(file))
  if (setpriv === undefined) {
    throw new EtlError(
      'CONFIGURATION',
      `The embedded PostgreSQL runs as user ${user.name}, who may not enter ${closedFolder(user, path) ?? dirname(path)}. ` +
        'Set MILLRACE_HOME to a folder that everybody may enter (such as /var/lib/millrace), install util-linux (setpriv), ' +
        'or set DATABASE_URL to a PostgreSQL of your own.',
    )
  }
  const ids = [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups']
  const rights = ['--inh-caps=+dac_override', '--ambient-caps=+dac_override']
  return [setpriv, [...ids, ...rights, '--', program, ...args]]
}
