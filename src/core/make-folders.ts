// Folders with those above them. Node's own `recursive` goes round for ever where a folder above exists and takes none, as /proc does.
import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { diskError } from './disk-error.ts'

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )

/** Throws DISK. @returns the first that was made; undefined: all were there */
export const makeFolders = async (folder: string, mode = 0o777): Promise<string | undefined> => {
  const missing: string[] = []
  for (let at = resolve(folder); !(await isFolder(at)); at = dirname(at)) missing.unshift(at)
  for (const path of missing)
    await mkdir(path, { mode }).catch(async (error: unknown) => {
      if (!(await isFolder(path))) throw diskError(error, path)
    })
  return missing[0]
}
