// Files that secrets come from (NAME_FILE), remembered so that one that was rotated is read again while the process lives.
import { EtlError, settingError } from './errors.ts'
import type { ReadAgain } from './redact.ts'
import { readRegular } from './regular-file.ts'

/** Files of an environment's secrets, by the name of the setting. */
const known = new WeakMap<object, ReadonlyMap<string, string>>()

export const filesOf = (environment: object): ReadonlyMap<string, string> => known.get(environment) ?? new Map()

export const keepFiles = (environment: object, files: ReadonlyMap<string, string>): void => {
  known.set(environment, files)
}

/** What the secret's file holds whenever it is asked, null where that cannot be had; null: the secret came from no file. */
export const fileAgain = (environment: object, name: string): ReadAgain | null => {
  const file = filesOf(environment).get(name)
  if (file === undefined) return null
  return () => {
    try {
      return secretInFile(`${name}_FILE`, file)
    } catch {
      // It is being replaced. The former text stays; a refusal of it is reported where it is used.
      return null
    }
  }
}

/** Certificates and service accounts are secrets, too. */
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
