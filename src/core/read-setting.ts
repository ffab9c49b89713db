// Readers of single settings, for this program and for the folders of sources. Every error names the variable and what to do, never a secret's text.
import { isEncryptedOrLocal } from './address.ts'
import { isEtlError, settingError } from './errors.ts'
import { type NamedPrice, priceBases } from './learned-price.ts'
import { type Secret, serviceKey } from './redact.ts'
import { secretFileReader } from './secret-files.ts'

/** The environment over `.env`, with the secrets from files and commands filled in; not checked yet. */
export type Environment = Readonly<Record<string, string>>

/** `NAME` for the account `default`, `NAME_ACME` for the account `acme`. */
export const settingOf = (name: string, account: string): string =>
  account === 'default' ? name : `${name}_${account.toUpperCase()}`

/** null: not set, or empty. */
export const readText = (environment: Environment, name: string): string | null => environment[name] || null

/** A service's address. Throws CONFIGURATION where it is not set, or is more than scheme, host and path. */
export const readAddress = (environment: Environment, name: string): URL => {
  const text = readText(environment, name)
  if (text === null) throw settingError(`${name} is not set; set it in .env (see .env.example), or try \`millrace demo\`.`)
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw settingError(`${name} is '${text}', expected an address such as https://api.example.com.`)
  if (url.username || url.password || url.search || url.hash)
    throw settingError(`${name} holds a user, a query or a fragment; give only scheme, host and path.`)
  if (!isEncryptedOrLocal(url) && !(readHosts(environment, plainHttpName) ?? []).includes(url.hostname))
    throw settingError(
      `${name} is plain http to ${url.hostname}: others on the network could read the key. Use https; or, for a service inside your own network, set ` +
        `${plainHttpName}=${url.hostname}.`,
    )
  return url
}

/** Hosts that may be called over plain HTTP, separated by commas. */
const plainHttpName = 'MILLRACE_PLAIN_HTTP_HOSTS'

/** null: no key. Every HTTP client refuses a line break in a header value with an error that prints the value; so it is refused here first. */
const keyIn = (text: string): string | null => {
  const key = text.trim()
  return key === '' || /[^\x21-\x7e]/.test(key) ? null : key
}

/** A key that is sent in a header or a query; null: not set. Throws CONFIGURATION for text that cannot be a key. */
export const readOptionalKey = (environment: Environment, name: string): Secret | null => {
  const text = readText(environment, name)
  if (text === null) return null
  const key = keyIn(text)
  if (key === null) throw settingError(`${name} holds a space or a character that no key has; copy it again.`)
  const again = secretFileReader(environment, name)
  return serviceKey(name, key, again === null ? null : () => keyIn(again() ?? ''))
}

/** A key that must be there. Throws CONFIGURATION. */
export const readKey = (environment: Environment, name: string): Secret => {
  const key = readOptionalKey(environment, name)
  if (key === null) throw settingError(`${name} is not set; put the service's key there or in .env (see .env.example).`)
  return key
}

/** What a number setting takes. */
interface NumberRule<T> {
  /** The value where the setting is not set. */
  readonly otherwise: T
  readonly least: number
  readonly most?: number
  readonly isWhole?: boolean
  /** For the error message. */
  readonly expected: string
}

/** Throws CONFIGURATION. */
export const readNumber = <T>(environment: Environment, name: string, rule: NumberRule<T>): number | T => {
  const { otherwise, least, most = Number.MAX_SAFE_INTEGER, isWhole = false, expected } = rule
  const text = readText(environment, name)
  if (text === null) return otherwise
  const value = Number(text)
  if (value >= least && value <= most && (!isWhole || Number.isInteger(value))) return value
  throw settingError(`${name} is '${text}', expected ${expected}.`)
}

/** Requests per second. @param standard what the service allows, used unless the setting says otherwise */
export const readRate = (environment: Environment, name: string, standard: number): number => {
  const expected = `a number from 0.1 to 100000; the service allows ${standard}`
  return readNumber(environment, name, { otherwise: standard, least: Number.MIN_VALUE, most: 100_000, expected })
}

/** Credits that may be spent; null: not set, no limit. */
export const readCredits = (environment: Environment, name: string): number | null =>
  readNumber(environment, name, {
    otherwise: null,
    least: 0,
    isWhole: true,
    expected: 'a whole number of credits, for example 50000',
  })

/** Prices by dataset: `things=0.13/row asked`, with an optional minimum a purchase after `from`. Empty: not set. */
export const readPrices = (environment: Environment, name: string, example: string): ReadonlyMap<string, NamedPrice> => {
  const prices = new Map<string, NamedPrice>()
  for (const part of (readText(environment, name) ?? '').split(',').map((text) => text.trim())) {
    if (part === '') continue
    const [, dataset, credits, words = '', least] =
      /^([\w-]+)=(\d{1,9}(?:\.\d{1,6})?)\/([a-z ]+?)(?: from (\d{1,9}))?$/.exec(part) ?? []
    const basis = priceBases.find((one) => one === words)
    if (dataset === undefined || basis === undefined)
      throw settingError(
        `${name} holds '${part}', expected prices separated by commas, for example ${example}: a number from 0, and what it is for (${priceBases.join(', ')}).`,
      )
    if (prices.has(dataset)) throw settingError(`${name} names ${dataset} twice; keep one of the two prices.`)
    prices.set(dataset, { basis, credits: Number(credits), minimum: Number(least ?? 0) })
  }
  return prices
}

/** A month of the year, 1 to 12; null: not set. */
export const readMonth = (environment: Environment, name: string): number | null => {
  const expected = 'a month from 1 to 12, for example 10 for October'
  return readNumber(environment, name, { otherwise: null, least: 1, most: 12, isWhole: true, expected })
}

/** Host names separated by commas; null: not set. */
export const readHosts = (environment: Environment, name: string): readonly string[] | null => {
  const words = (readText(environment, name) ?? '').split(',').map((host) => host.trim().toLowerCase())
  const hosts = words.filter((host) => host !== '')
  const wrong = hosts.find((host) => !/^[a-z0-9.-]+$/.test(host))
  if (wrong !== undefined)
    throw settingError(`${name} names '${wrong}', expected host names separated by commas, without https:// and port.`)
  return hosts.length === 0 ? null : hosts
}

/** Settings with that prefix, by the rest of their names in lower case: `NAME_PATH_STATUS=/v5/status` is `status`. */
export const readByPrefix = (environment: Environment, prefix: string): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(environment).flatMap(([name, text]) =>
      name.startsWith(prefix) && text !== '' ? [[name.slice(prefix.length).toLowerCase(), text] as const] : [],
    ),
  )

/** Reads every setting; throws one CONFIGURATION that names all problems, so that a person can fix them at once. */
export const readAll = <Readings extends readonly (() => unknown)[] | []>(readings: Readings) => {
  const problems: string[] = []
  const values = readings.map((read) => {
    try {
      return read()
    } catch (error) {
      if (!isEtlError(error)) throw error
      problems.push(error.message)
      return null
    }
  })
  if (problems.length > 0) throw settingError(problems.join('\n'))
  return values as { -readonly [Index in keyof Readings]: ReturnType<Readings[Index]> }
}

/** Checks as `readAll`, for settings that are read again later. */
export const checkSettings = (...readings: readonly (() => unknown)[]): void => void readAll(readings)
