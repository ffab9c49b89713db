// Finds a service's key in what the service sends back, in any spelling: plain or escaped for JSON, CSV, HTML, SQL, a program or a URL, also nested and
// mixed, in small letters or capitals (hosts and countries are read without regard to case); in Base64 also as a part of a longer text.

/** A shorter key is not searched for: it would be found in ordinary words. */
const shortest = 6
/** Escapes may be nested: then a URL's `%` is written `%2525`, and a backslash as two, four or eight. */
const escapedSign = '%(?:25)*'
const backslashes = String.raw`\\{1,8}`
/** Bytes of the longest spelling of one character: eight backslashes and `u0022`, twice, because CSV doubles a quote. */
const longestSpelling = 26
/** The search is for so many first characters; the rest is compared where they are found: building the expression for whole keys takes tens of milliseconds. */
const sought = 3

/** Each key's spellings as lists of characters; longest key first, since a key may contain another. */
let keys: readonly (readonly string[])[][] = []
let beginnings = /(?!)/g
let whole: RegExp | null = null
let reach = 0

/** From now on `findKeyEchoes` finds this key. */
export const registerKey = (text: string): void => {
  if (text.length < shortest) return
  const bytes = Buffer.from(text)
  const encoded = [bytes.toString('base64').replace(/=+$/, ''), bytes.toString('base64url'), bytes.toString('hex')]
  const spellings = [bytes.toString('latin1'), ...encoded].map((one) => [...one].map(spelled))
  // Base64 is case-sensitive, and only its two signs (+ and /) are ever escaped.
  spellings.push(...within(bytes).map((one) => [...one].map((byte) => (/[+/]/.test(byte) ? spelled(byte) : byte))))
  keys = [...keys, spellings].sort(([left = []], [right = []]) => right.length - left.length)
  beginnings = anyOf((characters) => characters.slice(0, sought), 'g')
  whole = null
  reach = 2 * longestSpelling * Math.max(...keys.map(([characters = []]) => characters.length))
}

/**
 * The Base64 spellings of the key within a longer text, such as `user:key`: three bytes become four characters, so the spelling depends on the offset.
 * Characters that also depend on neighbouring bytes are left out.
 */
const within = (bytes: Buffer): string[] =>
  [0, 1, 2].flatMap((before) => {
    const after = (3 - ((before + bytes.length) % 3)) % 3
    const whole = Buffer.concat([Buffer.alloc(before), bytes, Buffer.alloc(after)])
    const told = (text: string): string => text.slice(before === 0 ? 0 : before + 1, after === 0 ? text.length : -(after + 1))
    return [told(whole.toString('base64')), told(whole.toString('base64url'))]
  })

const anyOf = (part: (characters: readonly string[]) => readonly string[], flags: string): RegExp =>
  new RegExp([...new Set(keys.flat().map((characters) => part(characters).join('')))].join('|'), flags)

/** For tests. */
export const forgetKeys = (): void => {
  keys = []
  beginnings = /(?!)/g
}

export const hasKeys = (): boolean => keys.length > 0

const names: Readonly<Record<string, string>> = { '"': '|quot', '&': '|amp', "'": '|apos', '<': '|lt', '>': '|gt' }

/** A regular expression for every way to write a byte. */
const spelled = (byte: string): string => {
  const both = /[a-z]/i.test(byte) ? [byte.toLowerCase(), byte.toUpperCase()] : [byte]
  const signs = both.map((one) => `\\x${hexOf(one)}`).join('|')
  const hex = `(?:${both.map((one) => hexOf(one).replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)).join('|')})`
  const number = both.map((one) => one.charCodeAt(0)).join('|')
  const entity = `&(?:#0*(?:${number})|#[xX]0*${hex}${names[byte] ?? ''});`
  const program = String.raw`u00${hex}|u\{0{0,4}${hex}\}|x${hex}`
  const escaped = `${escapedSign}${hex}|${backslashes}(?:${program}|${signs})|${entity}`
  // CSV doubles a quote, inside or outside of JSON. A single escaped quote is tried first, since the next quote may end the string.
  if (byte === '"') return `(?:"(?:"|${escaped})?|(?:${escaped})(?:"|${escaped})??)`
  // URL parsers turn a backslash into a slash, forms a blank into a plus; SQL doubles an apostrophe.
  const otherwise = { '\\': `|${backslashes}|/`, ' ': String.raw`|\+`, "'": "|''" }[byte] ?? ''
  // The longer spelling first: a key may hold the sign that escapes begin with.
  return `(?:${escaped}|${signs}${otherwise})`
}

const hexOf = (byte: string): string => byte.charCodeAt(0).toString(16).padStart(2, '0')

/** A character for each byte. */
export const latin1Of = ({ buffer, byteOffset, length }: Uint8Array): string =>
  Buffer.from(buffer, byteOffset, length).toString('latin1')

/**
 * Every echo in order; the longest where a key contains another. Up to `ready` no other echo can appear, whatever bytes follow. @param text bytes as latin1
 * @param isEnd no more bytes come: an incomplete echo at the end does not count
 */
export const findKeyEchoes = (text: string, isEnd: boolean) => {
  const decided = isEnd ? text.length : Math.max(0, text.length - reach)
  const found: { at: number; end: number }[] = []
  beginnings.lastIndex = 0
  for (let next = beginnings.exec(text); next !== null && next.index < decided; next = beginnings.exec(text)) {
    whole ??= anyOf((characters) => characters, 'y')
    whole.lastIndex = next.index
    const length = whole.exec(text)?.[0].length ?? 0
    if (length > 0) found.push({ at: next.index, end: next.index + length })
    beginnings.lastIndex = next.index + Math.max(1, length)
  }
  return { found, ready: Math.max(decided, found.at(-1)?.end ?? 0) }
}
