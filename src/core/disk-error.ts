// Errors of the disk with advice: a missing right or a full disk is no defect of the program. Also makes folders with their parents: Node's own
// `recursive` loops for ever below a folder in which nothing can be made, such as /proc.
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
  EEXIST: 'The name is already in use: remove what has it, or use another name or folder (MILLRACE_HOME).',
  ENOENT: 'Nothing can be created there: use another folder (the one you named, MILLRACE_HOME or MILLRACE_LANDING).',
  EIO: 'The disk reports errors: check it, and that a shared path is mounted.',
  ESTALE: 'The shared path went away: mount it again, then run the same command again.',
  EMFILE: 'Too many open files: lower limits.concurrency or raise the limit of the system.',
}

/** The system's code of an error, such as ENOENT; empty where it has none. */
export const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

/**
 * A DISK error where the disk refused; any other error unchanged. @param place what was being written. Without it the error's own path is shown, and a path
 * that is missing (ENOENT) or exists (EEXIST) counts as a defect of the program
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

/** Throws the error unless `path` is a folder: another process may have made it. */
const unlessFolder = async (path: string, error: unknown): Promise<void> => {
  const found = await stat(path).catch(() => null)
  if (found?.isDirectory() !== true) throw diskError(error, path)
}

/** Makes a folder and its parents. Throws DISK. @returns the topmost folder that was made; undefined: all existed */
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
