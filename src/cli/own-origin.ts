// Where this program was installed from, as a package.json elsewhere has to name it.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { z } from 'zod'
import { packageFile } from '../core/shipped.ts'
import { version } from '../core/version.ts'

const lockSchema = z.object({ packages: z.record(z.string(), z.looseObject({ resolved: z.string().optional() })) })

/**
 * The version where it came from a registry; `file:…` where it came from a file, or is a checkout: no registry need have it.
 * @param folder in which the package.json will be
 */
export const ownOrigin = (folder: string): string => {
  const own = dirname(packageFile())
  const [project, inside] = splitAtModules(own)
  if (project === null) return fileFrom(folder, own)
  const lock = join(project, 'node_modules', '.package-lock.json')
  if (!existsSync(lock)) return version
  const parsed = lockSchema.safeParse(JSON.parse(readFileSync(lock, 'utf8')))
  const resolved = parsed.success ? parsed.data.packages[inside]?.resolved : undefined
  if (resolved === undefined || !resolved.startsWith('file:')) return version
  return fileFrom(folder, resolve(project, resolved.slice('file:'.length)))
}

/** The folder that has the outermost node_modules, and the path from there as npm writes it; null: the program is not installed. */
const splitAtModules = (own: string): readonly [string | null, string] => {
  const at = own.indexOf(`${sep}node_modules${sep}`)
  return at < 0
    ? [null, '']
    : [
        own.slice(0, at),
        own
          .slice(at + 1)
          .split(sep)
          .join('/'),
      ]
}

const fileFrom = (folder: string, target: string): string => `file:${relative(folder, target).split(sep).join('/')}`
