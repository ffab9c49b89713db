// A strict RFC 8259 scanner over bytes: where a value ends, so that every number keeps the digits it came with.

/** How deep JSON may be nested. */
const maxDepth = 100

/** Thrown for what is no JSON; `at` is the place in the bytes. */
export class JsonError extends Error {
  override readonly name = 'JsonError'
  readonly at: number

  constructor(at: number, message: string) {
    super(message)
    this.at = at
  }
}

/** The bytes end before the value does. */
export const cut = -1

const quote = 34
const backslash = 92
const openBrace = 123
const closeBrace = 125
const openBracket = 91
const closeBracket = 93
const comma = 44
const colon = 58

const isBlank = new Uint8Array(256)
for (const byte of [9, 10, 13, 32]) isBlank[byte] = 1
/** Inside a string: 1 its end, 2 an escape, 3 not allowed. */
const inString = new Uint8Array(256)
inString.fill(3, 0, 32)
inString[quote] = 1
inString[backslash] = 2
const isEscape = new Set([...'"\\/bfnrt'].map((character) => character.charCodeAt(0)))
const words = ['true', 'false', 'null'].map((word) => Buffer.from(word))

/** The first byte from `at` on that is no blank; the length where there is none. */
export const skipBlanks = (bytes: Buffer, at: number): number => {
  if ((bytes[at] ?? 0) > 32) return at
  let next = at
  while (isBlank[bytes[next] ?? 0] === 1) next += 1
  return next
}

/** Behind the value that begins at `at` (no blank), or `cut`. Throws JsonError. @param depth of the value itself */
export const skipValue = (bytes: Buffer, at: number, depth = 0): number => {
  const byte = bytes[at]
  if (byte === undefined) return cut
  if (byte === quote) return skipString(bytes, at)
  if (byte === openBrace || byte === openBracket) {
    if (depth >= maxDepth) throw new JsonError(at, `nested deeper than ${maxDepth}`)
    return byte === openBrace ? eachField(bytes, at, depth, null) : eachElement(bytes, at, depth, skipValue)
  }
  return byte === 45 || (byte >= 48 && byte <= 57) ? skipNumber(bytes, at) : skipWord(bytes, at)
}

/** Behind the closing quote, or `cut`. */
const skipString = (bytes: Buffer, at: number): number => {
  let next = at + 1
  for (;;) {
    while (inString[bytes[next] ?? quote] === 0) next += 1
    const byte = bytes[next]
    if (byte === undefined) return cut
    if (byte === quote) return next + 1
    if (byte !== backslash) throw new JsonError(next, 'a control character is inside a string')
    next = skipEscape(bytes, next)
    if (next === cut) return cut
  }
}

const skipEscape = (bytes: Buffer, at: number): number => {
  const byte = bytes[at + 1]
  if (byte === undefined) return cut
  if (isEscape.has(byte)) return at + 2
  if (byte !== 117) throw new JsonError(at, 'a backslash begins no valid escape')
  for (let place = at + 2; place < at + 6; place += 1) {
    const digit = bytes[place]
    if (digit === undefined) return cut
    if (!(digit >= 48 && digit <= 57) && !((digit | 32) >= 97 && (digit | 32) <= 102))
      throw new JsonError(place, '\\u lacks its four digits')
  }
  return at + 6
}

const skipDigits = (bytes: Buffer, at: number): number => {
  let next = at
  for (let byte = bytes[next]; byte !== undefined && byte >= 48 && byte <= 57; byte = bytes[next]) next += 1
  return next
}

/** A number at the very end of the bytes may have more digits: that is `cut`, too. */
const skipNumber = (bytes: Buffer, at: number): number => {
  const wholeAt = bytes[at] === 45 ? at + 1 : at
  let next = skipDigits(bytes, wholeAt)
  if (next === bytes.length) return cut
  if (next === wholeAt || (bytes[wholeAt] === 48 && next > wholeAt + 1)) throw new JsonError(at, 'a number is not valid JSON')
  if (bytes[next] === 46) {
    const fractionAt = next + 1
    next = skipDigits(bytes, fractionAt)
    if (next === bytes.length) return cut
    if (next === fractionAt) throw new JsonError(at, 'a number has no digits after its decimal point')
  }
  if (bytes[next] === 69 || bytes[next] === 101) {
    const signAt = next + 1
    const exponentAt = bytes[signAt] === 43 || bytes[signAt] === 45 ? signAt + 1 : signAt
    next = skipDigits(bytes, exponentAt)
    if (next === bytes.length) return cut
    if (next === exponentAt) throw new JsonError(at, 'a number has no digits in its exponent')
  }
  return next
}

const skipWord = (bytes: Buffer, at: number): number => {
  for (const word of words) {
    if (bytes[at] !== word[0]) continue
    const found = bytes.subarray(at, at + word.length)
    if (found.equals(word)) return at + word.length
    if (at + word.length > bytes.length && found.equals(word.subarray(0, found.length))) return cut
  }
  throw new JsonError(at, `'${String.fromCharCode(bytes[at] ?? 0)}' begins no value`)
}

/** Behind the value that begins at `at`, or `cut`, as `skipValue` tells it. */
type ReadValue = (bytes: Buffer, at: number, depth: number) => number

/** Behind the list that begins at `at`, or `cut`. Elements are read in order. Throws JsonError. @param depth of the list itself */
export const eachElement = (bytes: Buffer, at: number, depth: number, read: ReadValue): number => {
  let next = skipBlanks(bytes, at + 1)
  if (bytes[next] === closeBracket) return next + 1
  for (;;) {
    next = read(bytes, next, depth + 1)
    if (next === cut) return cut
    next = skipBlanks(bytes, next)
    const byte = bytes[next]
    if (byte === undefined) return cut
    if (byte === closeBracket) return next + 1
    if (byte !== comma) throw new JsonError(next, 'a list lacks a comma')
    next = skipBlanks(bytes, next + 1)
  }
}

/** Called with each field of an object: its name and its value, both with their quotes and brackets. */
type OnField = (nameAt: number, nameEnd: number, valueAt: number, valueEnd: number) => void

/** Behind the object that begins at `at`, or `cut`. Fields come in order. Throws JsonError. */
export const eachField = (bytes: Buffer, at: number, depth: number, onField: OnField | null): number => {
  let next = skipBlanks(bytes, at + 1)
  if (bytes[next] === closeBrace) return next + 1
  for (;;) {
    const nameAt = next
    if (bytes[nameAt] === undefined) return cut
    if (bytes[nameAt] !== quote) throw new JsonError(nameAt, 'a field has no name in quotes')
    const nameEnd = skipString(bytes, nameAt)
    if (nameEnd === cut) return cut
    next = skipBlanks(bytes, nameEnd)
    if (bytes[next] === undefined) return cut
    if (bytes[next] !== colon) throw new JsonError(next, 'a field lacks its colon')
    const valueAt = skipBlanks(bytes, next + 1)
    const valueEnd = skipValue(bytes, valueAt, depth + 1)
    if (valueEnd === cut) return cut
    onField?.(nameAt, nameEnd, valueAt, valueEnd)
    next = skipBlanks(bytes, valueEnd)
    const byte = bytes[next]
    if (byte === undefined) return cut
    if (byte === closeBrace) return next + 1
    if (byte !== comma) throw new JsonError(next, 'an object lacks a comma')
    next = skipBlanks(bytes, next + 1)
  }
}
