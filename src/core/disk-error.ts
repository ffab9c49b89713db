// The disk's refusals in our own words: a folder without rights or a full disk is no defect of the program. And folders with those above them: Node's own
// `recursive` goes round for ever where a folder above exists and takes none, as /proc does.
import { EtlError, isEtlError, messageOf } from './errors.ts'
import { mkdir, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

const advice: Readonly<Record<string, string>> = {
  ENOSPC: 'The disk is full: free space, then run the same command again.',
  EDQUOT: 'The disk quota is used up: free space, then run the same command again.',
  EACCES: 'No permission: give the user who runs Millrace the right to write there, or use another folder (MILLRACE_HOME).',
  EPERM: 'No permission: give the user who runs Millrace the right to write there, or use another folder (MILLRACE_HOME).',
  EROFS: 'The file system is read-only: use another folder (MILLRACE_HOME).',
  ENOTDIR: 'A file is where a folder must be: remove it, or use another folder (MILLRACE_HOME).',
  EISDIR: 'A folder is where a file must be: use another name, or move the folder away.',
  EEXIST: 'Something of that name is there already: remove it, or use another name or folder (MILLRACE_HOME).',
  ENOENT: 'Nothing can be made there: use another folder (the one you named, MILLRACE_HOME or MILLRACE_LANDING).',
  EIO: 'The disk does not answer as it should: see whether it is well, and a shared path mounted.',
  ESTALE: 'The shared path went away: mount it again, then run the same command again.',
  EMFILE: 'Too many open files: lower limits.concurrency or raise the limit of the system.',
}

/** Of an error of the system, such as ENOENT; empty where it has none. */
export const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

/**
 * DISK where the disk refused; anything else as it is. @param place what was being written; left out: what the error names, and then a path that is missing
 * or is there already is no refusal of the disk, but a defect
 */
export const diskError = (error: unknown, place?: string): unknown => {
  if (isEtlError(error) || !(error instanceof Error)) return error
  const code = codeOf(error)
  const text = advice[code]
  // A write that a full disk refuses names no path.
  const isDefect = place === undefined && !/^E(NOSPC|DQUOT)$/.test(code) && (!('path' in error) || /^E(NOENT|EXIST)$/.test(code))
  if (text === undefined || isDefect) return error
  return new EtlError('DISK', `${place === undefined ? '' : `${place}: `}${messageOf(error)}. ${text}`, { cause: error })
}

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
