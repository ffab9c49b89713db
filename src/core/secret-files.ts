// Remembers the files that secrets come from (NAME_FILE), so that a running process can read a rotated secret again.
import { EtlError, settingError } from './errors.ts'
import type { ReadAgain } from './redact.ts'
import { readRegular } from './regular-file.ts'

/** By environment: the file of each secret, by the name of its setting. */
const known = new WeakMap<object, ReadonlyMap<string, string>>()

export const secretFilesOf = (environment: object): ReadonlyMap<string, string> => known.get(environment) ?? new Map()

export const setSecretFiles = (environment: object, files: ReadonlyMap<string, string>): void => {
  known.set(environment, files)
}

/** A function that reads the secret's file again (null where it cannot); null: the secret came from no file. */
export const secretFileReader = (environment: object, name: string): ReadAgain | null => {
  const file = secretFilesOf(environment).get(name)
  if (file === undefined) return null
  return () => {
    try {
      return secretInFile(`${name}_FILE`, file)
    } catch {
      // The file is being replaced. The old text stays in use; if a service refuses it, the caller reports that.
      return null
    }
  }
}

/** Large enough for certificates and service accounts, which are secrets, too. */
const mostSecretBytes = 65_536

/** @param name of the setting that names the file. Throws CONFIGURATION naming it, never what it held */
export const secretInFile = (name: string, file: string): string => {
  try {
    return withoutLineEnd(name, readRegular(file, mostSecretBytes))
  } catch (cause) {
    if (cause instanceof EtlError) throw cause
    throw settingError(
      `${name}: the file ${file} cannot be read; check that it is there, a regular file of at most ${mostSecretBytes} bytes, and may be read.`,
      cause,
    )
  }
}

export const withoutLineEnd = (name: string, text: string): string => {
  const value = text.replace(/\r?\n$/, '')
  if (value === '') throw new EtlError('CONFIGURATION', `${name} gives an empty secret; expected the secret on one line.`)
  return value
}
