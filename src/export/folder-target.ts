// A folder that takes the files of an export.
import { copyFile, mkdir, readdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { ExportTarget } from './export-months.ts'

/** Made when it is not there. */
export const folderTarget = (folder: string): ExportTarget => {
  const put = async (name: string, write: (path: string) => Promise<void>): Promise<void> => {
    const path = join(folder, name)
    await mkdir(dirname(path), { recursive: true })
    // What a killed export leaves is hidden, so that readers of the folder pass over it until the next one removes it.
    const partial = join(dirname(path), `.${basename(path)}.${process.pid}.partial`)
    await removePartials(path)
    await write(partial)
    await rename(partial, path)
  }
  return {
    place: folder,
    text: (name) => readFile(join(folder, name), 'utf8').catch(unlessMissing),
    putText: (name, text) => put(name, (path) => writeFile(path, text)),
    putFile: (name, file) => put(name, (path) => copyFile(file, path)),
    remove: async (name) => {
      await rm(join(folder, name), { force: true })
      // A month's own folder goes with its only file.
      if (dirname(name) !== '.') await rmdir(join(folder, dirname(name))).catch(() => undefined)
    },
  }
}

/** Only one export writes to a place at a time, so nobody is writing to them. */
const removePartials = async (path: string): Promise<void> => {
  const names = await readdir(dirname(path))
  const left = names.filter((name) => name.startsWith(`.${basename(path)}.`) && name.endsWith('.partial'))
  for (const name of left) await rm(join(dirname(path), name), { force: true })
}

const unlessMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === 'ENOENT') return null
  throw error
}
