// The disk's refusals in our own words.
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'

const advice: Readonly<Record<string, string>> = {
  ENOSPC: 'The disk is full: free space, then run the same command again.',
  EDQUOT: 'The disk quota is used up: free space, then run the same command again.',
  EACCES: 'No permission: give the user who runs Millrace the right to write there, or set MILLRACE_HOME.',
  EPERM: 'No permission: give the user who runs Millrace the right to write there, or set MILLRACE_HOME.',
  EROFS: 'The file system is read-only: set MILLRACE_HOME to one that is not.',
  ENOTDIR: 'A file is where a folder must be: remove it, or set MILLRACE_HOME to a folder.',
  EEXIST: 'A file is where a folder must be: remove it, or set MILLRACE_HOME to a folder.',
  ENOENT: 'Nothing can be made there: set MILLRACE_HOME or MILLRACE_LANDING to another folder.',
  EIO: 'The disk does not answer as it should: see whether it is well, and a shared path mounted.',
  ESTALE: 'The shared path went away: mount it again, then run the same command again.',
  EMFILE: 'Too many open files: lower limits.concurrency or raise the limit of the system.',
}

/** @param place what was being written. Anything that is no refusal of the disk comes back as it is. */
export const diskError = (error: unknown, place: string): unknown => {
  if (isEtlError(error) || typeof error !== 'object' || error === null || !('code' in error)) return error
  const text = advice[String(error.code)]
  return text === undefined ? error : new EtlError('DISK', `${place}: ${messageOf(error)}. ${text}`, { cause: error })
}
