// Secrets that cannot be printed by accident, and the last net under every sink: text with known secrets taken out.
import { inspect } from 'node:util'

const marker = '[secret]'

/** Holds a secret. `reveal()` is the one way to its text; every conversion to text gives a marker. */
export interface Secret {
  readonly name: string
  reveal(): string
  toString(): string
  toJSON(): string
}

const known = new Set<string>()
let patterns: readonly string[] = []

/** Makes a secret and registers its spellings with `redact`. @param name what it is, for messages. */
export const secret = (name: string, text: string): Secret => {
  register(text)
  return passingSecret(name, text)
}

/** One that `redact` does not know: what comes in any number, and would make it slow. */
export const passingSecret = (name: string, text: string): Secret =>
  Object.freeze({
    name,
    reveal: () => text,
    toString: () => marker,
    toJSON: () => marker,
    [inspect.custom]: () => marker,
    [Symbol.toPrimitive]: () => marker,
  })

/** A key of a service: what it sends back is searched for it before a byte of it is kept. */
export const serviceKey = (name: string, text: string): Secret => {
  if (text.length >= shortestEcho) {
    const url = encodeURIComponent(text)
    const echoes = [text, url, url.toLowerCase(), JSON.stringify(text).slice(1, -1)]
    keyEchoes = [...new Set([...keyEchoes.map(String), ...echoes])].map((echo) => Buffer.from(echo))
  }
  return secret(name, text)
}

/** A shorter key would be found in words that are none. */
const shortestEcho = 6
let keyEchoes: readonly Buffer[] = []

/** Spellings in which an answer may name a service's key. */
export const echoesOfKeys = (): readonly Buffer[] => keyEchoes

export const secretMarker = Buffer.from(marker)

const register = (text: string): void => {
  if (text.length < 4) return
  for (const spelling of spellings(text)) known.add(spelling)
  // Longest first, so that a secret holding another one is replaced whole.
  patterns = [...known].sort((a, b) => b.length - a.length)
}

const spellings = (text: string): string[] => {
  const bytes = Buffer.from(text, 'utf8')
  const url = encodeURIComponent(text)
  return [
    text,
    url,
    url.replaceAll('%20', '+'),
    url.toLowerCase(),
    encodeURI(text),
    JSON.stringify(text).slice(1, -1),
    bytes.toString('base64'),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ]
}

/** `text` with every registered secret, in every common spelling, replaced by a marker. */
export const redact = (text: string): string => {
  let out = text
  for (const pattern of patterns) if (out.includes(pattern)) out = out.replaceAll(pattern, marker)
  return out
}

/** Forgets every secret; for tests. */
export const forgetSecrets = (): void => {
  known.clear()
  patterns = []
  keyEchoes = []
}
