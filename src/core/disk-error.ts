// What the file system refuses, as an error for people: a folder without rights or a full disk is no defect of the program.
import { EtlError, messageOf } from './errors.ts'

const refusals: ReadonlySet<unknown> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT', 'ENOTDIR', 'EISDIR', 'EMFILE'])

/** DISK where the file system refused a path; anything else as it is. */
export const asDiskError = (error: unknown): unknown => {
  if (!(error instanceof Error) || !('code' in error) || !('path' in error) || !refusals.has(error.code)) return error
  return new EtlError('DISK', `${messageOf(error)}. Check who may write there and how much room is left.`, { cause: error })
}
