// The environment, read once and checked. `.env` is read too; the real environment wins.
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse as parseDotenv } from 'dotenv'
import { EtlError } from '../core/errors.ts'
import { type LandingSetting, landingSetting } from './landing-setting.ts'
import { type Secret, secret } from '../core/redact.ts'
import { withSecrets } from './secret-settings.ts'

export interface Settings {
  /** The service; null when not set (only `demo` and commands that make no call can do without). */
  readonly baseUrl: URL | null
  /** Keys by account name. `default` is `WEB_ANALYTICS_API_KEY`; account `acme` is `WEB_ANALYTICS_API_KEY_ACME`. */
  readonly keys: ReadonlyMap<string, AccountKeys>
  /** The warehouse; null: the embedded PostgreSQL under `home`. */
  readonly databaseUrl: Secret | null
  /** Absolute folder of the landing files and the embedded database. */
  readonly home: string
  /** Where the landings lie; a folder under `home` unless `MILLRACE_LANDING` says otherwise. */
  readonly landing: LandingSetting
  readonly raw: Readonly<Record<string, string>>
}

export interface AccountKeys {
  readonly rest: Secret
  /** The same key unless `WEB_ANALYTICS_BATCH_API_KEY` names another. */
  readonly batch: Secret
}

const baseUrlName = 'WEB_ANALYTICS_BASE_URL'
const keyName = 'WEB_ANALYTICS_API_KEY'
const batchKeyName = 'WEB_ANALYTICS_BATCH_API_KEY'

/** Reads settings from `environment` over `.env` in `folder`. Throws CONFIGURATION naming the variable and the remedy. */
export const readSettings = (environment: Readonly<Record<string, string | undefined>>, folder: string): Settings => {
  const raw = withSecrets(merged(environment, folder))
  const home = resolve(folder, raw['MILLRACE_HOME'] || '.millrace')
  return Object.freeze({
    baseUrl: baseUrl(raw[baseUrlName]),
    keys: accountKeys(raw),
    databaseUrl: databaseUrl(raw['DATABASE_URL']),
    home,
    landing: landingSetting(raw, home, folder),
    raw,
  })
}

const merged = (environment: Readonly<Record<string, string | undefined>>, folder: string): Record<string, string> => {
  const file = resolve(folder, '.env')
  const values: Record<string, string> = existsSync(file) ? parseDotenv(readFileSync(file)) : {}
  for (const [name, value] of Object.entries(environment)) if (value !== undefined) values[name] = value
  return values
}

const baseUrl = (text: string | undefined): URL | null => {
  if (!text) return null
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new EtlError('CONFIGURATION', `${baseUrlName} is '${text}', expected an address such as https://api.example.com.`)
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new EtlError('CONFIGURATION', `${baseUrlName} holds a user, a query or a fragment; give only scheme, host and path.`)
  }
  return url
}

const databaseUrl = (text: string | undefined): Secret | null => {
  if (!text) return null
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text)) {
    throw new EtlError('CONFIGURATION', 'DATABASE_URL is not an address such as postgres://user:password@host:5432/database.')
  }
  const password = decodeURIComponent(new URL(text).password)
  if (password) secret('database password', password)
  return secret('DATABASE_URL', text)
}

const accountKeys = (raw: Readonly<Record<string, string>>): Map<string, AccountKeys> => {
  const keys = new Map<string, AccountKeys>()
  for (const [name, value] of Object.entries(raw)) {
    if (!value || (name !== keyName && !name.startsWith(`${keyName}_`))) continue
    const suffix = name.slice(keyName.length)
    const account = suffix === '' ? 'default' : suffix.slice(1).toLowerCase()
    const rest = secret(name, checkedKey(name, value))
    const batchName = `${batchKeyName}${suffix}`
    const batchText = raw[batchName]
    keys.set(account, { rest, batch: batchText ? secret(batchName, checkedKey(batchName, batchText)) : rest })
  }
  return keys
}

// A line break in a header value is refused by every HTTP client with an error that prints the value; refuse it here, without.
const checkedKey = (name: string, value: string): string => {
  const key = value.trim()
  if (/[^\x21-\x7e]/.test(key)) {
    throw new EtlError('CONFIGURATION', `${name} holds a space or a character that no key has; copy it again.`)
  }
  return key
}

/** The service's address, or CONFIGURATION. */
export const requireBaseUrl = (settings: Settings): URL => {
  if (settings.baseUrl === null) {
    throw new EtlError('CONFIGURATION', `${baseUrlName} is not set; set it in .env (see .env.example), or try \`millrace demo\`.`)
  }
  return settings.baseUrl
}

/** The keys of `account`, or CONFIGURATION. */
export const requireKeys = (settings: Settings, account: string): AccountKeys => {
  const keys = settings.keys.get(account)
  if (keys === undefined) {
    const name = account === 'default' ? keyName : `${keyName}_${account.toUpperCase()}`
    throw new EtlError('CONFIGURATION', `${name} is not set; put the service's key there or in .env (see .env.example).`)
  }
  return keys
}
