// Folders with those above them. Node's own `recursive` goes round for ever where a folder above exists and takes none, as /proc does.
import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { codeOf, diskError } from './disk-error.ts'

/** Nothing where it is a folder. */
const unlessFolder = async (path: string, error: unknown): Promise<void> => {
  const found = await stat(path).catch(() => null)
  if (found?.isDirectory() !== true) throw diskError(error, path)
}

/** Throws DISK. @returns the first that was made; undefined: all were there */
export const makeFolders = async (folder: string, mode = 0o777): Promise<string | undefined> => {
  const path = resolve(folder)
  const above = dirname(path)
  try {
    await mkdir(path, { mode })
    return path
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || above === path) {
      await unlessFolder(path, error)
      return undefined
    }
  }
  const first = await makeFolders(above, mode)
  await mkdir(path, { mode }).catch((error: unknown) => unlessFolder(path, error))
  return first ?? path
}
