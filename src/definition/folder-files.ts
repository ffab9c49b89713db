// Files of folders: those that come with the program, and a user's own, which replace them.
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { withoutMark } from '../core/json.ts'
import { readByHand } from '../core/regular-file.ts'

/** Path and text, folder by folder in the order given, each in the order of names, as any editor saved it. A folder that is not there has none, hidden files are none. */
export const folderFiles = async (folders: readonly string[], ending: RegExp) => {
  const files: { readonly name: string; readonly file: string; readonly text: string }[] = []
  for (const folder of new Set(folders)) {
    const names = existsSync(folder) ? await readdir(folder) : []
    for (const name of names.filter((one) => ending.test(one) && !one.startsWith('.')).sort()) {
      const text = withoutMark(readByHand(join(folder, name))).replaceAll('\r\n', '\n')
      files.push({ name, file: join(folder, name), text })
    }
  }
  return files
}

/** What looks like a file of the folder and is read by nobody: it stands in a folder below, or its ending has capitals. */
export const unreadFiles = async (folder: string, ending: RegExp): Promise<string[]> => {
  // A folder below may be closed to this login, such as lost+found of a volume.
  const all = () => readdir(folder, { recursive: true }).catch(() => readdir(folder))
  const names = existsSync(folder) ? (await all()).sort() : []
  const isRead = (name: string): boolean => ending.test(name) && !name.includes('/')
  return names.filter((name) => ending.test(name.toLowerCase()) && !/(^|\/)\./.test(name) && !isRead(name))
}
