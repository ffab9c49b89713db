// The environment, read once and checked. `.env` is read too; the real environment wins.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse as parseDotenv } from 'dotenv'
import { EtlError, setSettingPlaces, settingError } from './errors.ts'
import { landingSetting } from './landing-setting.ts'
import { type ReadAgain, type Secret, secret } from './redact.ts'
import { type Environment, readAll } from './read-setting.ts'
import { secretFileReader } from './secret-files.ts'
import { withSecrets } from './secret-settings.ts'

/** Settings of the program itself. An API's folder under `sources` reads its own from `raw`. */
export type Settings = ReturnType<typeof readSettings>

/** Reads settings from `environment` over `.env` in `folder`. Throws CONFIGURATION naming the variable and the remedy. */
export const readSettings = (environment: Readonly<Record<string, string | undefined>>, folder: string) => {
  const raw: Environment = withSecrets(merged(environment, folder))
  const home = resolve(folder, raw['MILLRACE_HOME'] || '.millrace')
  const [warehouse, landing] = readAll([
    () => databaseUrl(raw['DATABASE_URL'], secretFileReader(raw, 'DATABASE_URL')),
    () => landingSetting(raw, home, folder),
  ])
  return Object.freeze({
    /** The warehouse; null: the embedded PostgreSQL under `home`. */
    databaseUrl: warehouse,
    /** Absolute folder of the landing files and the embedded database. */
    home,
    /** Where the landings lie; a folder under `home` unless `MILLRACE_LANDING` says otherwise. */
    landing,
    raw,
  })
}

/** The settings with the embedded database and landings, so that the others can be checked where these two are wrong. Throws CONFIGURATION. */
export const settingsWithoutPlaces = (environment: Readonly<Record<string, string | undefined>>, folder: string): Settings =>
  readSettings(
    { ...environment, DATABASE_URL: '', DATABASE_URL_FILE: '', DATABASE_URL_COMMAND: '', MILLRACE_LANDING: '' },
    folder,
  )

const merged = (environment: Readonly<Record<string, string | undefined>>, folder: string): Record<string, string> => {
  const file = resolve(folder, '.env')
  const text = existsSync(file) ? dotenvText(file) : ''
  const values: Record<string, string> = parseDotenv(text)
  const lines = text
    .split('\n')
    .map((line, index) => [/^\s*(?:export\s+)?(\w+)\s*=/.exec(line)?.[1] ?? '', `.env:${index + 1}`] as const)
  setSettingPlaces(lines.filter(([name]) => environment[name] === undefined))
  for (const [name, value] of Object.entries(environment)) if (value !== undefined) values[name] = value
  return values
}

const dotenvText = (file: string): string => {
  const wrong = (what: string): EtlError => new EtlError('CONFIGURATION', `${file} ${what}.`)
  const found = statSync(file)
  if (found.isFIFO()) throw wrong('is a named pipe, which a command may wait for without end; put a file in its place')
  if (found.isDirectory())
    throw wrong(
      'is a folder, as containers make one where a mounted file is missing; put the file with your settings in its place',
    )
  const bytes = readFileSync(file)
  if (bytes.includes(0)) throw wrong('is not in UTF-8, but probably in UTF-16; save it as UTF-8')
  return bytes.toString()
}

const databaseUrl = (text: string | undefined, again: ReadAgain | null): Secret | null => {
  if (!text) return null
  assertDatabaseUrl('DATABASE_URL', text)
  hidePassword('DATABASE_URL', text)
  if (again === null) return secret('DATABASE_URL', text)
  return secret('DATABASE_URL', text, () => {
    const found = again()
    if (found === null || !isDatabaseUrl(found) || placeOf(found) !== placeOf(text)) return null
    hidePassword('DATABASE_URL', found)
    return found
  })
}

const assertDatabaseUrl = (name: string, text: string): void => {
  if (!isDatabaseUrl(text)) throw settingError(`${name} is not an address such as postgres://user:password@host:5432/database.`)
}

const isDatabaseUrl = (text: string): boolean => /^postgres(ql)?:\/\//.test(text) && URL.canParse(text)

/** The address without the login: a running process renews logins, but must never switch to another warehouse. */
const placeOf = (address: string): string => Object.assign(new URL(address), { username: '', password: '' }).href

export const readerSetting = 'MILLRACE_READER_URL'

/** The login of a reader; null: not set. Throws CONFIGURATION. */
export const readerLogin = ({ raw }: Pick<Settings, 'raw'>): Secret | null => {
  const text = raw[readerSetting]
  if (!text) return null
  assertDatabaseUrl(readerSetting, text)
  hidePassword(readerSetting, text)
  return secret(readerSetting, text)
}

/** From then on `redact` knows the password of the address. Throws CONFIGURATION. @param name of the setting */
export const hidePassword = (name: string, address: string): void => {
  const password = URL.parse(address)?.password
  try {
    if (password) secret(`${name} password`, decodeURIComponent(password))
  } catch {
    throw new EtlError('CONFIGURATION', `The password in ${name} has a % that is not encoded: write it as %25.`)
  }
}
