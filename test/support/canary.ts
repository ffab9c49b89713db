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

const escapedSign = /\\(["\\/])/g

/** As `leaksIn`, also where letters are escaped at will, as JSON or an address does it. */
export const anySpellingIn = (text: string): string[] => {
  const plain = text
    .replaceAll(/\\u([0-9a-fA-F]{4})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replaceAll(escapedSign, '$1')
  const address = plain.replaceAll(/%([0-9a-fA-F]{2})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
  return [...new Set([text, plain, address, address.replaceAll('""', '"')].flatMap(leaksIn))]
}
