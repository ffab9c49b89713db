// A service's key in what the service sends back, in whatever spelling: each character as it is, escaped as JSON, CSV, HTML or a URL does it, also one inside
// the other, in small letters or capitals (hosts and countries are read without regard to them), mixed at will.

/** Where a key stands. */
export interface Echo {
  readonly at: number
  /** Bytes of it; null: the bytes end before it does, and more of them may make it whole. */
  readonly length: number | null
}

/** A shorter key would be found in words that are none. */
const shortest = 6

const backslash = 92
const percent = 37
const plus = 43
const space = 32
const letterU = 117
const quote = 34
const ampersand = 38
const slash = 47

/** UTF-8. */
let patterns: readonly Buffer[] = []
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
  const spelledWhole = [bytes.toString('base64').replace(/=+$/, ''), bytes.toString('base64url'), bytes.toString('hex')]
  patterns = [...patterns, bytes, ...spelledWhole.map((one) => Buffer.from(one))]
  begins = new Uint8Array(256)
  follows = new Uint8Array(256)
  for (const pattern of patterns) {
    const [first = 0, second = 0] = pattern
    for (const byte of bothCases(first)) begins[byte] = 1
    if (first === space) begins[plus] = 1
    if (first === backslash) begins[slash] = 1
    for (const byte of [first, second, plus, quote, slash].flatMap(bothCases)) follows[byte] = afterLetter | afterSign
  }
  for (const byte of Buffer.from('#gqul0123456789abcdefABCDEF')) follows[byte] = (follows[byte] ?? 0) | afterSign
  // What HTML escapes, and the quote that CSV doubles, are spelled in other lengths only where the key has them.
  const hasOne = (signs: string): boolean => patterns.some((key) => Buffer.from(signs).some((sign) => key.includes(sign)))
  escapes = [backslash, percent, ...(hasOne('"') ? [quote] : []), ...(hasOne('&<>"\'/+=`') ? [ampersand] : [])]
  for (const byte of escapes.filter((sign) => sign !== quote)) {
    begins[byte] = 1
    follows[byte] = afterLetter | afterSign
  }
  const lengths = patterns.map((key) => key.length)
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
const plainSpellings = (pattern: Buffer, at: number): readonly number[] => {
  const byte = pattern[at] ?? 0
  if (byte === backslash) return [backslash, slash]
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
  const wanted = byte === backslash || byte === percent || byte === ampersand ? afterSign : afterLetter
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
const matched = (pattern: Buffer, bytes: Uint8Array, at: number, index: number): number => {
  const wanted = pattern[index]
  if (wanted === undefined) return at
  if (at >= bytes.length) return cut
  let found = no
  for (const length of spelled(bytes, at, wanted)) {
    const end = length === cut ? cut : matched(pattern, bytes, at + length, index + 1)
    if (end >= 0) return end
    if (end === cut) found = cut
  }
  return found
}

/** How often what is escaped is escaped again. */
const mostNested = 3
const itself = [1] as const
const nothing: readonly number[] = []

/** Lengths of what stands at `at` where it may be that byte; `cut` where it is not all there. */
const spelled = (bytes: Uint8Array, at: number, wanted: number): readonly number[] => {
  const once = spelledOnce(bytes, at, wanted)
  if (wanted !== quote || once === nothing) return once
  // CSV doubles a quote, also within JSON or around it; one escaped sign is tried first, since what follows it may be the end of the string.
  const twice = once.flatMap((length) => (length === cut ? [] : added(length, spelledOnce(bytes, at + length, quote))))
  return bytes[at] === quote ? [...twice, ...once] : [...once, ...twice]
}

const added = (length: number, more: readonly number[]): number[] => more.map((one) => (one === cut ? cut : length + one))

const spelledOnce = (bytes: Uint8Array, at: number, wanted: number): readonly number[] => {
  if (at >= bytes.length) return [cut]
  const found = folded[bytes[at] ?? 0] === folded[wanted] ? itself : nothing
  // The longer spelling first: a key may hold the sign that escapes begin with.
  if (bytes[at] === percent) return [...percentAt(bytes, at, wanted), ...found]
  if (bytes[at] === backslash) return [...backslashAt(bytes, at, wanted), ...found]
  if (bytes[at] === ampersand) return [...entityAt(bytes, at, wanted), ...found]
  // Forms write a blank so, and addresses a backslash once they were read.
  return (bytes[at] === plus && wanted === space) || (bytes[at] === slash && wanted === backslash) ? itself : found
}

/** The sign of an address may itself be escaped, as often as it was handed on. */
const percentAt = (bytes: Uint8Array, at: number, wanted: number): readonly number[] => {
  const found: number[] = []
  for (let from = at + 1; from < at + 2 * mostNested; from += 2) {
    found.unshift(...hexAt(bytes, from, 2, wanted, from + 2 - at))
    if (bytes[from] !== 50 || bytes[from + 1] !== 53) break
  }
  return found
}

/** Of JSON, or of JSON within JSON. */
const backslashAt = (bytes: Uint8Array, at: number, wanted: number): readonly number[] => {
  let end = at + 1
  while (bytes[end] === backslash && end < at + (1 << mostNested)) end += 1
  if (end >= bytes.length) return [cut]
  if (wanted === backslash && end > at + 1) return [end - at, 2]
  if (bytes[end] === letterU) return hexAt(bytes, end + 1, 4, wanted, end + 5 - at)
  return bytes[end] === wanted ? [end + 1 - at] : nothing
}

const named: Readonly<Record<string, number>> = { quot: quote, amp: ampersand, apos: 39, lt: 60, gt: 62 }

/** Of HTML: `&quot;`, `&#34;`, `&#x22;`. */
const entityAt = (bytes: Uint8Array, at: number, wanted: number): readonly number[] => {
  const text = Buffer.from(bytes.subarray(at + 1, at + 8)).toString('latin1')
  const [name = ''] = text.split(';')
  if (name === text) return text.length < 7 ? [cut] : nothing
  const code = named[name] ?? (name.startsWith('#') ? Number(name.slice(1).replace(/^x/i, '0x')) : -1)
  return bothCases(wanted).includes(code) || code === wanted ? [name.length + 2] : nothing
}

const hexAt = (bytes: Uint8Array, from: number, digits: number, wanted: number, length: number): readonly number[] => {
  const text = Buffer.from(bytes.subarray(from, from + digits)).toString('latin1')
  const isWanted = bothCases(wanted).some((byte) => byte.toString(16).padStart(digits, '0').startsWith(text.toLowerCase()))
  if (!isWanted) return []
  return [text.length < digits ? cut : length]
}
