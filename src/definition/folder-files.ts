// Reads files of several folders: shipped ones first, then a user's own, which replace them.
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { withoutMark } from '../core/json.ts'
import { readByHand } from '../core/regular-file.ts'

/** Path and text of each file, by folder in the given order, then by name; without a byte order mark. Ignores hidden files and missing folders. */
export const folderFiles = async (folders: readonly string[], ending: RegExp) => {
  const files: { readonly name: string; readonly file: string; readonly text: string }[] = []
  for (const folder of new Set(folders)) {
    const names = existsSync(folder) ? await readdir(folder) : []
    for (const name of names.filter((one) => ending.test(one) && !one.startsWith('.')).sort()) {
      const text = withoutMark(readByHand(join(folder, name))).replaceAll(/\r\n?/g, '\n')
      files.push({ name, file: join(folder, name), text })
    }
  }
  return files
}

/** Files that look right but are not read: they are in a folder below, or their ending has capitals. */
export const unreadFiles = async (folder: string, ending: RegExp): Promise<string[]> => {
  // This user may not be allowed to read a folder below, such as lost+found of a volume.
  const all = () => readdir(folder, { recursive: true }).catch(() => readdir(folder))
  const names = existsSync(folder) ? (await all()).sort() : []
  const isRead = (name: string): boolean => ending.test(name) && !name.includes('/')
  return names.filter((name) => ending.test(name.toLowerCase()) && !/(^|\/)\./.test(name) && !isRead(name))
}
