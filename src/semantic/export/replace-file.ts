// A file that is whole or as it was: what is written lies beside it, hidden, until it takes its place.
import { randomUUID } from 'node:crypto'
import { chmod, chown, readdir, readlink, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { makeFolders } from '../../core/disk-error.ts'

const partialName = /^\.millrace-export-.*\.partial$/
const dayMs = 24 * 3_600_000

/**
 * Each call writes a file of its own, and the last one to end stays: another process may write to the same place. Links, owner and rights stay.
 * @param write gets the path to write to
 */
export const replaceFile = async <T>(path: string, write: (partial: string) => Promise<T>): Promise<T> => {
  await makeFolders(dirname(path))
  // Links that lead in a circle are refused here.
  await stat(path).catch(unlessMissing)
  const file = await linkedFile(path)
  await removePartials(dirname(file))
  const partial = join(dirname(file), `.millrace-export-${randomUUID()}.partial`)
  const before = await stat(file).catch(unlessMissing)
  try {
    // Who may not read the file may not read what becomes of it either.
    await writeFile(partial, '', { mode: (before?.mode ?? 0o666) | 0o600 })
    const written = await write(partial)
    // Only root can give a file away.
    if (before !== null && process.getuid?.() === 0) await chown(partial, before.uid, before.gid)
    if (before !== null) await chmod(partial, before.mode)
    await rename(partial, file)
    return written
  } finally {
    await rm(partial, { force: true })
  }
}

/** The file that a link leads to, also where it is not there yet. */
const linkedFile = async (file: string): Promise<string> => {
  const link = await readlink(file).catch(unlessMissing)
  return link === null ? file : linkedFile(resolve(await realpath(dirname(file)), link))
}

/** Of exports that were killed: one that is at work beside this one has written within a day. */
const removePartials = async (folder: string): Promise<void> => {
  for (const name of (await readdir(folder)).filter((one) => partialName.test(one))) {
    const left = await stat(join(folder, name)).catch(unlessMissing)
    if (left !== null && left.mtimeMs < Date.now() - dayMs) await rm(join(folder, name), { force: true })
  }
}

/** A file that is no link is refused by `readlink` as invalid. */
export const unlessMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === 'ENOENT' || error.code === 'EINVAL') return null
  throw error
}
