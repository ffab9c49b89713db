// A secret that is looked for in every sink, in every spelling a program may give it by accident.

/** Characters that URL-encoding, JSON, base64 and HTML all write in another way. */
export const canaryKey = 'cAn4ry+Key/"0%5B&=<9>~\\7f3d1e'
/** Holds the other whole, so that taking the shorter one out first would leave its tail. */
export const canaryBatchKey = `${canaryKey}-batch-b4tch`

const spellings = (text: string): Readonly<Record<string, string>> => ({
  raw: text,
  'URL-encoded': encodeURIComponent(text),
  'URL-encoded in small letters': encodeURIComponent(text).toLowerCase(),
  'URL-encoded as a whole address': encodeURI(text),
  'as a form field': new URLSearchParams({ a: text }).toString().slice(2),
  base64: Buffer.from(text).toString('base64').replace(/=+$/, ''),
  base64url: Buffer.from(text).toString('base64url'),
  hex: Buffer.from(text).toString('hex'),
  'JSON-escaped': JSON.stringify(text).slice(1, -1),
  'JSON-escaped twice': JSON.stringify(JSON.stringify(text)).slice(3, -3),
  'HTML-escaped': text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;'),
  'its tail': text.slice(-12),
})

const needles = [canaryKey, canaryBatchKey].flatMap((key) => Object.entries(spellings(key)))

/** Names of the spellings found in `text`. */
export const leaksIn = (text: string): string[] => needles.filter(([, needle]) => text.includes(needle)).map(([name]) => name)

const sign = (radix: number) => (_: string, code: string) => String.fromCodePoint(Number.parseInt(code, radix))

/** Each way of escaping undone, so that what is escaped twice needs two calls. */
const decoded = (text: string): string =>
  text
    .replaceAll(/\\u([0-9a-fA-F]{4})/g, sign(16))
    .replaceAll(/\\(["\\/])/g, '$1')
    .replaceAll(/%([0-9a-fA-F]{2})/g, sign(16))
    .replaceAll(/&#(\d{1,3});/g, sign(10))
    .replaceAll(/&#x([0-9a-fA-F]{1,2});/g, sign(16))
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')

/** As `leaksIn`, also where letters are escaped at will, as JSON, CSV, HTML or an address does it, and escaped again. */
export const anySpellingIn = (text: string): string[] => {
  const found = new Set(leaksIn(text))
  let [once, doubled] = [text, text]
  for (let round = 0; round < 3; round += 1) {
    once = decoded(once)
    doubled = decoded(doubled.replaceAll('""', '"')).replaceAll('""', '"')
    for (const leak of [once, doubled].flatMap(leaksIn)) found.add(leak)
  }
  return [...found]
}
