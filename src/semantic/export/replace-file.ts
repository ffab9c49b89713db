// Replaces a file atomically: writes a hidden file beside it, then renames it.
import { randomUUID } from 'node:crypto'
import { chmod, chown, readdir, readlink, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { makeFolders } from '../../core/disk-error.ts'

const partialName = /^\.millrace-export-.*\.partial$/
const dayMs = 24 * 3_600_000

/**
 * Each call writes its own temporary file; the last call to end wins, also between processes. Links, owner and rights are kept.
 * @param write gets the path to write to
 */
export const replaceFile = async <T>(path: string, write: (partial: string) => Promise<T>): Promise<T> => {
  await makeFolders(dirname(path))
  // Throws for symbolic links that form a loop.
  await stat(path).catch(nullIfMissing)
  const file = await linkedFile(path)
  await removePartials(dirname(file))
  const partial = join(dirname(file), `.millrace-export-${randomUUID()}.partial`)
  const before = await stat(file).catch(nullIfMissing)
  try {
    // Set the rights before writing: a user who may not read the old file must not read the new one.
    await writeFile(partial, '', { mode: (before?.mode ?? 0o666) | 0o600 })
    const written = await write(partial)
    // Only root can change the owner.
    if (before !== null && process.getuid?.() === 0) await chown(partial, before.uid, before.gid)
    if (before !== null) await chmod(partial, before.mode)
    await rename(partial, file)
    return written
  } finally {
    await rm(partial, { force: true })
  }
}

/** The target of a symbolic link, also where it does not exist yet. */
const linkedFile = async (file: string): Promise<string> => {
  const link = await readlink(file).catch(nullIfMissing)
  return link === null ? file : linkedFile(resolve(await realpath(dirname(file)), link))
}

/** Removes files left by killed exports, older than a day: a running export has written more recently. */
const removePartials = async (folder: string): Promise<void> => {
  for (const name of (await readdir(folder)).filter((one) => partialName.test(one))) {
    const left = await stat(join(folder, name)).catch(nullIfMissing)
    if (left !== null && left.mtimeMs < Date.now() - dayMs) await rm(join(folder, name), { force: true })
  }
}

/** null for a missing file; also for EINVAL, with which `readlink` refuses a file that is no link. */
export const nullIfMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === 'ENOENT' || error.code === 'EINVAL') return null
  throw error
}
