// Secrets that cannot be printed by accident; and `redact`, the last step before any output, which removes known secrets from text.
import { inspect } from 'node:util'
import { findKeyEchoes, forgetKeys, hasKeys, latin1Of, registerKey } from './key-echo.ts'

const marker = '[secret]'

/** Holds a secret. `reveal()` is the one way to its text; every conversion to text gives a marker. */
export interface Secret {
  readonly name: string
  reveal(): string
  /** Reads the secret's file again, which may have been rotated. Does nothing where the secret came from no file, or the file cannot be read now. */
  renew(): void
  toString(): string
  toJSON(): string
}

const known = new Set<string>()
let patterns: readonly string[] = []

/** Reads the present text of a secret's file; null: the file cannot be read. */
export type ReadAgain = () => string | null

/** Makes a secret and registers its spellings with `redact`. @param name what it is, for messages. @param again null: it came from no file */
export const secret = (name: string, text: string, again: ReadAgain | null = null): Secret => {
  register(text)
  return held(name, text, again, register)
}

/** A secret that `redact` does not know. For secrets of unlimited number, which would make `redact` slow. */
export const unregisteredSecret = (name: string, text: string): Secret => held(name, text, null, () => undefined)

const held = (name: string, first: string, again: ReadAgain | null, known: (text: string) => void): Secret => {
  let text = first
  return Object.freeze({
    name,
    reveal: () => text,
    renew: () => {
      const found = again?.() ?? text
      if (found !== text) known(found)
      text = found
    },
    toString: () => marker,
    toJSON: () => marker,
    [inspect.custom]: () => marker,
    [Symbol.toPrimitive]: () => marker,
  })
}

/** A key of a service: answers of the service are searched for it before they are stored. */
export const serviceKey = (name: string, text: string, again: ReadAgain | null = null): Secret => {
  const watched = (key: string): void => {
    registerKey(key)
    register(key)
  }
  watched(text)
  return held(name, text, again, watched)
}

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

/** `text` with every registered secret, in every common spelling, replaced by a marker, and NUL, which PostgreSQL's text cannot hold, as `\u0000`. */
export const redact = (text: string): string => {
  // Keys first: the escape of a key's first letter may end with that letter (`%34` for 4); a plain match would leave half an escape.
  let out = hasKeys() ? Buffer.from(maskKeys(Buffer.from(text))).toString() : text
  for (const pattern of patterns) if (out.includes(pattern)) out = out.replaceAll(pattern, marker)
  return out.replaceAll('\0', '\\u0000')
}

/** Whether the text contains a service's key, in any spelling. */
export const holdsKey = (text: string): boolean => {
  const bytes = Buffer.from(text)
  return maskKeys(bytes) !== bytes
}

/** `bytes` with every key of a service masked; the same object where none is found. */
export const maskKeys = (bytes: Uint8Array): Uint8Array => {
  const { found } = findKeyEchoes(latin1Of(bytes), true)
  if (found.length === 0) return bytes
  const parts = found.flatMap(({ at }, place) => [bytes.subarray(found[place - 1]?.end ?? 0, at), secretMarker])
  return Buffer.concat([...parts, bytes.subarray(found.at(-1)?.end)])
}

/** Forgets every secret; for tests. */
export const forgetSecrets = (): void => {
  known.clear()
  patterns = []
  forgetKeys()
}
