// The code this process runs, as a digest: what it makes of given bytes, another process with the same code makes of them as well.
import { createHash, type Hash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { packageFile, shipped } from './shipped.ts'

const folders = new Set([shipped('src')])

/** A folder of the user's that code was loaded from counts as well. @param folder absolute */
export const runsCodeOf = (folder: string): void => {
  folders.add(folder)
}

let known: { readonly of: number; readonly digest: string | null } | null = null

/**
 * Read when it is first asked for; null: a file was written after this process started, so that nobody knows which code it runs. Libraries
 * count by the versions in package.json.
 */
export const codeDigest = (): string | null => {
  if (known === null || known.of !== folders.size) known = { of: folders.size, digest: digestOf([...folders]) }
  return known.digest
}

/** Exported for tests. @param startedMs of the process, since the epoch */
export const digestOf = (roots: readonly string[], startedMs = performance.timeOrigin): string | null => {
  const hash = createHash('sha256').update(process.version)
  try {
    const files = [packageFile(), ...roots.flatMap(codeFiles)]
    for (const file of files) if (!add(hash, file, startedMs)) return null
    return hash.digest('hex')
  } catch {
    // A folder that is gone by now: what was loaded from it is not known any more.
    return null
  }
}

const codeFiles = (root: string): string[] =>
  readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.[cm]?[jt]s$/.test(name) && !name.includes('node_modules'))
    .sort()
    .map((name) => join(root, name))

const add = (hash: Hash, file: string, startedMs: number): boolean => {
  const { mtimeMs, ctimeMs, size } = statSync(file)
  hash.update(`\0${basename(file)} ${size}\0`).update(readFileSync(file))
  return Math.max(mtimeMs, ctimeMs) < startedMs
}
