// Reads files that people name, if regular and of limited size: a pipe or device would block the command, a huge file fill its memory.
import { readFileSync, statSync } from 'node:fs'
import { EtlError, messageOf } from './errors.ts'

const mib = 1024 * 1024

/** A million values of a list take 30 MB. */
export const mostListBytes = 64 * mib
/** Of anything that a person writes by hand. */
const mostTextBytes = 4 * mib

/** Throws an Error whose message says what is wrong with the file, without its path. */
export const readRegular = (path: string, mostBytes: number): string => {
  const found = statSync(path)
  if (!found.isFile()) throw new Error('it is no regular file')
  if (found.size > mostBytes) throw new Error(`it has ${found.size} bytes, more than ${mostBytes}`)
  return readFileSync(path, 'utf8')
}

/** What a person wrote. Throws DEFINITION naming the file where it cannot be read. */
export const readByHand = (file: string, mostBytes = mostTextBytes): string => {
  try {
    return readRegular(file, mostBytes)
  } catch (cause) {
    throw new EtlError('DEFINITION', `${file} cannot be read (${messageOf(cause)}).`, { cause })
  }
}
