// A service's key in what the service sends back, in whatever spelling: each character as it is, escaped as JSON, CSV
// or a URL does it, in small letters or capitals (hosts and countries are read without regard to them), mixed at will.

/** Where a key stands. */
export interface Echo {
  readonly at: number
  /** Bytes of it; null: the bytes end before it does, and more of them may make it whole. */
  readonly length: number | null
}

/** A shorter key would be found in words that are none. */
const shortest = 6

interface Pattern {
  /** UTF-8. */
  readonly bytes: Buffer
  /** False: as it is alone, such as base64. */
  readonly isEscaped: boolean
}

const backslash = 92
const percent = 37
const plus = 43
const space = 32
const letterU = 117
const quote = 34

let patterns: readonly Pattern[] = []
const afterLetter = 1
const afterSign = 2

/** Bytes with which an echo may begin, and those that may follow: most bytes are passed over by these alone. */
let begins = new Uint8Array(256)
let follows = new Uint8Array(256)

/**
 * For three bytes that stand one behind the other: how many places on a key could end that is spelled without escapes, 0 where it may end with them.
 * A key is looked for at its end, so that most bytes are never looked at.
 */
let shifts = new Uint8Array(0)
/** Bytes of the shortest pattern, and of the longest: the first escape of a key, or the place where it is cut off, is so near to its beginning. */
let least = 0
let reach = 0
let escapes: readonly number[] = []

const folded = Uint8Array.from({ length: 256 }, (_, byte) => (byte >= 65 && byte <= 90 ? byte + 32 : byte))
const bothCases = (byte: number): readonly number[] => {
  const small = folded[byte] ?? byte
  return small >= 97 && small <= 122 ? [small, small - 32] : [byte]
}

/** From here on it is looked for. */
export const watchKey = (text: string): void => {
  if (text.length < shortest) return
  const bytes = Buffer.from(text)
  const base64 = bytes.toString('base64')
  const hex = bytes.toString('hex')
  const whole = [base64.replace(/=+$/, ''), bytes.toString('base64url'), hex, hex.toUpperCase()]
  patterns = [...patterns, { bytes, isEscaped: true }, ...whole.map((one) => ({ bytes: Buffer.from(one), isEscaped: false }))]
  begins = new Uint8Array(256)
  follows = new Uint8Array(256)
  for (const pattern of patterns) {
    const [first = 0, second = 0] = pattern.bytes
    for (const byte of bothCases(first)) begins[byte] = 1
    if (first === space) begins[plus] = 1
    for (const byte of [first, second, plus, quote].flatMap(bothCases)) follows[byte] = afterLetter | afterSign
  }
  for (const byte of Buffer.from('u0123456789abcdefABCDEF')) follows[byte] = (follows[byte] ?? 0) | afterSign
  for (const byte of [backslash, percent]) {
    begins[byte] = 1
    follows[byte] = afterLetter | afterSign
  }
  // A doubled quote is a spelling of another length, too.
  escapes = [backslash, percent, ...(patterns.some(({ bytes: key }) => key.includes(quote)) ? [quote] : [])]
  const lengths = patterns.map(({ bytes: key }) => key.length)
  reach = Math.max(...lengths)
  least = Math.min(255, ...lengths)
  shifts = new Uint8Array(1 << 16).fill(least - 2)
  for (const pattern of patterns)
    for (let at = 0; at + 2 < least; at += 1)
      for (const first of plainSpellings(pattern, at))
        for (const second of plainSpellings(pattern, at + 1))
          for (const third of plainSpellings(pattern, at + 2)) {
            const place = placeOf(first, second, third)
            shifts[place] = Math.min(shifts[place] ?? 0, least - 3 - at)
          }
}

const placeOf = (first: number, second: number, third: number): number => ((first << 9) ^ (second << 5) ^ third) & 0xffff

/** Bytes that a letter of the key may be without an escape. */
const plainSpellings = ({ bytes, isEscaped }: Pattern, at: number): readonly number[] => {
  const byte = bytes[at] ?? 0
  if (!isEscaped) return [byte]
  return byte === space ? [space, plus] : bothCases(byte)
}

/** For tests. */
export const forgetKeys = (): void => {
  patterns = []
  begins = new Uint8Array(256)
  follows = new Uint8Array(256)
}

export const hasKeys = (): boolean => patterns.length > 0

/**
 * The first echo at `from` or behind it, the longest where one key holds another; null: there is none, and none begins. @param isEnd no more bytes come:
 * what only begins one is none
 */
export const findEcho = (bytes: Uint8Array, from: number, isEnd = false): Echo | null => {
  const nextEscape = escapesIn(bytes)
  for (let at = from; at < bytes.length; ) {
    const nextSign = nextEscape(at)
    // Before this no letter of a key can be escaped or cut off.
    const near = Math.max(at, nextSign - reach)
    for (at = nextPlain(bytes, at, near); at < near; at = nextPlain(bytes, at + 1, near)) {
      const echo = echoAt(bytes, at, isEnd)
      if (echo !== null) return echo
    }
    for (; at <= nextSign && at < bytes.length; at += 1) {
      if (!mayBegin(bytes, at)) continue
      const echo = echoAt(bytes, at, isEnd)
      if (echo !== null) return echo
    }
  }
  return null
}

/** Where the next escape stands, the end of the bytes where there is none; asked with places that only grow. */
const escapesIn = (bytes: Uint8Array): ((from: number) => number) => {
  const found = escapes.map(() => -1)
  return (from) => {
    let next = bytes.length
    for (const [index, sign] of escapes.entries()) {
      let at = found[index] ?? -1
      if (at < from) {
        at = bytes.indexOf(sign, from)
        if (at < 0) at = bytes.length
        found[index] = at
      }
      next = Math.min(next, at)
    }
    return next
  }
}

/** The first place from `at` on where a key spelled without escapes may begin; not before `end` where there is none. */
const nextPlain = (bytes: Uint8Array, from: number, end: number): number => {
  let at = from
  while (at < end) {
    const last = at + least - 1
    const shift = shifts[placeOf(bytes[last - 2] ?? 0, bytes[last - 1] ?? 0, bytes[last] ?? 0)] ?? 0
    if (shift === 0) return at
    at += shift
  }
  return end
}

const mayBegin = (bytes: Uint8Array, at: number): boolean => {
  const byte = bytes[at] ?? 0
  if (begins[byte] !== 1) return false
  const wanted = byte === backslash || byte === percent ? afterSign : afterLetter
  return at + 1 >= bytes.length || ((follows[bytes[at + 1] ?? 0] ?? 0) & wanted) !== 0
}

const echoAt = (bytes: Uint8Array, at: number, isEnd: boolean): Echo | null => {
  let isCut = false
  let longest = no
  for (const pattern of patterns) {
    const end = matched(pattern, bytes, at, 0)
    if (end === cut) isCut = true
    else longest = Math.max(longest, end)
  }
  if (isCut && !isEnd) return { at, length: null }
  return longest === no ? null : { at, length: longest - at }
}

const no = -1
const cut = -2

/** Where the rest of the key ends that begins at `at`; `cut` where the bytes end before. */
const matched = (pattern: Pattern, bytes: Uint8Array, at: number, index: number): number => {
  const wanted = pattern.bytes[index]
  if (wanted === undefined) return at
  if (at >= bytes.length) return cut
  let found = no
  for (const length of spelled(bytes, at, wanted, pattern.isEscaped)) {
    const end = length === cut ? cut : matched(pattern, bytes, at + length, index + 1)
    if (end >= 0) return end
    if (end === cut) found = cut
  }
  return found
}

const itself = [1] as const
const nothing: readonly number[] = []

/** Lengths of what stands at `at` where it may be that byte; `cut` where it is not all there. */
const spelled = (bytes: Uint8Array, at: number, wanted: number, isEscaped: boolean): readonly number[] => {
  const found = bytes[at] === wanted ? itself : nothing
  if (!isEscaped) return found
  if (found === nothing && folded[bytes[at] ?? 0] === folded[wanted]) return itself
  // CSV doubles a quote.
  if (wanted === quote && bytes[at] === quote && (bytes[at + 1] ?? quote) === quote)
    return at + 1 < bytes.length ? [2, 1] : [cut, 1]
  if (bytes[at] === plus && wanted === space) return itself
  // The longer spelling first: a key may hold the sign that escapes begin with.
  if (bytes[at] === percent) return [...hexAt(bytes, at + 1, 2, wanted, 3), ...found]
  if (bytes[at] !== backslash) return found
  if (at + 1 >= bytes.length) return [cut, ...found]
  if (bytes[at + 1] === letterU) return [...hexAt(bytes, at + 2, 4, wanted, 6), ...found]
  return bytes[at + 1] === wanted ? [2, ...found] : found
}

const hexAt = (bytes: Uint8Array, from: number, digits: number, wanted: number, length: number): readonly number[] => {
  const text = Buffer.from(bytes.subarray(from, from + digits)).toString('latin1')
  const isWanted = bothCases(wanted).some((byte) => byte.toString(16).padStart(digits, '0').startsWith(text.toLowerCase()))
  if (!isWanted) return []
  return [text.length < digits ? cut : length]
}
