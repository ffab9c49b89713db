import { afterEach, expect, test } from 'vitest'
import { forgetSecrets, serviceKey, maskKeys } from '../../../src/core/redact.ts'

afterEach(forgetSecrets)

const key = 'Ke+y/"0%5B&\\7f3d'

const letters = [...key]
const spellings: Readonly<Record<string, string>> = {
  plain: key,
  'as JSON': JSON.stringify(key).slice(1, -1),
  'as JSON with its slash escaped': JSON.stringify(key).slice(1, -1).replaceAll('/', '\\/'),
  'as JSON, every letter': letters.map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
  'as CSV': key.replaceAll('"', '""'),
  'of an address': encodeURIComponent(key),
  'of an address, small letters': encodeURIComponent(key).toLowerCase(),
  'of an address that was read': new URL(key, 'https://a.com').pathname.slice(1),
  'in small letters': key.toLowerCase(),
  'in capitals': key.toUpperCase(),
  'in capitals as JSON, every letter': [...key.toUpperCase()]
    .map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`)
    .join(''),
  base64: Buffer.from(key).toString('base64'),
  'base64 in an address': encodeURIComponent(Buffer.from(key).toString('base64')),
  'base64 as JSON': Buffer.from(key).toString('base64').replaceAll('/', '\\/'),
  hex: Buffer.from(key).toString('hex'),
  'as a program writes bytes': letters.map((letter) => `\\x${letter.charCodeAt(0).toString(16)}`).join(''),
  'as a program writes letters': letters.map((letter) => `\\u{${letter.charCodeAt(0).toString(16)}}`).join(''),
  'as CSV in JSON': JSON.stringify(key.replaceAll('"', '""')).slice(1, -1),
  'as CSV in JSON, every letter': [...key.replaceAll('"', '""')]
    .map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join(''),
  'as CSV in an address': encodeURIComponent(key.replaceAll('"', '""')),
  'as JSON in CSV': JSON.stringify(key).slice(1, -1).replaceAll('"', '""'),
  'as JSON in JSON': JSON.stringify(JSON.stringify(key).slice(1, -1)).slice(1, -1),
  'as CSV in JSON in JSON': JSON.stringify(JSON.stringify(key.replaceAll('"', '""')).slice(1, -1)).slice(1, -1),
  'of an address in an address': encodeURIComponent(encodeURIComponent(key)),
  'as HTML': key.replaceAll('&', '&amp;').replaceAll('"', '&quot;'),
  'as HTML, by numbers': letters
    .map((letter, at) => `&#${at % 2 === 0 ? letter.charCodeAt(0) : `x${letter.charCodeAt(0).toString(16)}`};`)
    .join(''),
}

test.each(Object.entries(spellings))('the key is found %s', (_, spelled) => {
  serviceKey('WEB_ANALYTICS_API_KEY', key)
  const text = Buffer.from(maskKeys(Buffer.from(`before ${spelled} after`))).toString()
  expect(text).toMatch(/^before \[secret\](=|%3D)* after$/)
})

test.each(['u', 'us', 'use', 'user', 'https://user'])(
  'the key is found in Base64 of a text that it is a part of, behind %s',
  (name) => {
    serviceKey('WEB_ANALYTICS_API_KEY', key)
    for (const encoding of ['base64', 'base64url'] as const)
      for (const behind of ['', ':', '@a', '@a.com']) {
        const encoded = Buffer.from(`${name}:${key}${behind}`).toString(encoding)
        for (const said of [encoded, encodeURIComponent(encoded), encoded.replaceAll('/', '\\/')]) {
          const masked = Buffer.from(maskKeys(Buffer.from(`before ${said} after`))).toString()
          expect(masked, said).toContain('[secret]')
          const [left = '', right = ''] = masked.slice('before '.length, -' after'.length).split('[secret]')
          // No byte of the key is whole in what is left.
          expect(left.length, masked).toBeLessThanOrEqual(Math.ceil((4 * (name.length + 2)) / 3))
          expect(right.length, masked).toBeLessThanOrEqual(Math.ceil((4 * (behind.length + 1)) / 3) + 9)
        }
      }
  },
)

test('the key is found with the apostrophe that SQL doubles', () => {
  serviceKey('WEB_ANALYTICS_API_KEY', "Ke'y-0123456")
  expect(Buffer.from(maskKeys(Buffer.from("'Ke''y-0123456'"))).toString()).toBe("'[secret]'")
})

/** Names and values of a page, with the places where a service would say more than it should. */
const page = {
  meta: { request: { domain: 'a.com', sort: 'clicks' }, last_updated: '2026-09-30', keywords_count: 2, report_id: 'r-1' },
  keywords: [
    { keyword: 'shoes', serp_features: ['maps', 'ads'], clicks: 10, top_url: 'https://a.com/x?y=z' },
    { keyword: 'boots' },
  ],
  download_url: 'https://files.a.com/r.csv?signature=s',
}
const inJson = (text: string): string => (/^[\x20-\x7e]*$/.test(text) && isJson(text) ? text : JSON.stringify(text).slice(1, -1))
const isJson = (text: string): boolean => {
  try {
    JSON.parse(`"${text}"`)
    return true
  } catch {
    return false
  }
}

test('in whichever string of a page it stands, in each spelling, neither the bytes nor what is parsed of them hold it', () => {
  serviceKey('WEB_ANALYTICS_API_KEY', key)
  const text = JSON.stringify(page)
  const places = [...text.matchAll(/"([^"]*)"/g)]
  expect(places.length).toBeGreaterThan(20)
  for (const { 0: whole, 1: content = '', index } of places)
    for (const [name, spelled] of Object.entries(spellings).filter(([one]) => one !== 'as CSV'))
      for (const said of [spelled, `${content} ${spelled}`, `${spelled}${content}`]) {
        const echoed = `${text.slice(0, index)}"${inJson(said)}"${text.slice(index + whole.length)}`
        const masked = Buffer.from(maskKeys(Buffer.from(echoed))).toString()
        const sinks = [masked, JSON.stringify(JSON.parse(masked)), ...stringsOf(JSON.parse(masked))].join('\n')
        for (const leak of [...Object.values(spellings), JSON.stringify(key).slice(1, -1)])
          expect(sinks.includes(leak), `${name} in ${whole}`).toBe(false)
        expect(masked).toContain('[secret]')
      }
})

const stringsOf = (value: unknown): string[] =>
  typeof value === 'string'
    ? [value]
    : value !== null && typeof value === 'object'
      ? Object.entries(value).flatMap(([name, one]) => [name, ...stringsOf(one)])
      : []

test('of a key that holds another one nothing is left', () => {
  serviceKey('WEB_ANALYTICS_API_KEY', key)
  serviceKey('WEB_ANALYTICS_BATCH_API_KEY', `${key}-batch`)
  for (const text of [`${key}-batch`, encodeURIComponent(`${key}-batch`), JSON.stringify(`${key}-batch`).slice(1, -1)])
    expect(Buffer.from(maskKeys(Buffer.from(`before ${text} after ${key}`))).toString()).toBe('before [secret] after [secret]')
})

test('what only resembles the key stays as it is', () => {
  serviceKey('WEB_ANALYTICS_API_KEY', key)
  for (const text of ['Ke+y', key.slice(0, -1), `${key.slice(0, 5)} ${key.slice(5)}`])
    expect(Buffer.from(maskKeys(Buffer.from(`before ${text} after`))).toString()).toBe(`before ${text} after`)
})

/** A letter as a service may write it. */
const spelledAtWill = (letter: string, draw: (most: number) => number): string => {
  const hex = letter.charCodeAt(0).toString(16)
  const other = letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()
  const ways = [letter, letter, other, `%${hex.padStart(2, '0')}`, `\\u${hex.padStart(4, '0')}`]
  return ways[draw(ways.length)] ?? letter
}

test.each([key, 'bench-key-0123456789', 'a b+c d', 'aaaaaaab', `\\%u00"`])(
  'the key %j is found wherever it stands, each letter spelled at will, and nothing else changes',
  (text) => {
    serviceKey('WEB_ANALYTICS_API_KEY', text)
    let state = 1
    const draw = (most: number): number => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
      return Math.floor((state / 2_147_483_648) * most)
    }
    const noises = ['.', 'zz,', text.slice(0, 3), text.slice(1), '\\u00', '%2', '\n', '~'.repeat(900)]
    for (let round = 0; round < 300; round += 1) {
      let body = ''
      let expected = ''
      for (let piece = 0; piece < 6; piece += 1) {
        // A bar ends what could begin an echo or go on with one.
        const noise = `|${noises[draw(noises.length)] ?? ''}|`
        const plain = draw(text.length + 1)
        body += noise + text.slice(0, plain) + [...text.slice(plain)].map((letter) => spelledAtWill(letter, draw)).join('')
        expected += `${noise}[secret]`
      }
      expect(Buffer.from(maskKeys(Buffer.from(`${body}|`))).toString()).toBe(`${expected}|`)
    }
  },
)
