import fc from 'fast-check'
import { afterEach, expect, test } from 'vitest'
import { gzipSync } from 'node:zlib'
import { isSameFingerprint } from '../../../src/core/completeness.ts'
import { forgetSecrets, redact, serviceKey } from '../../../src/core/redact.ts'
import { masked, maskedWords } from '../../../src/run/land.ts'

afterEach(forgetSecrets)

const key = 'k3y/with+signs 0123'

async function* chunked(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const through = async (bytes: Uint8Array, size: number): Promise<{ text: string; found: number }> => {
  let found = 0
  const chunks: Uint8Array[] = []
  const payload = masked({ format: 'csv', part: 1, body: chunked(bytes, size) }, 1_000_000, () => (found += 1))
  for await (const chunk of payload.body) chunks.push(chunk)
  return { text: Buffer.concat(chunks).toString(), found }
}

test('the key is masked in every spelling, however the body is cut, and nothing else changes', async () => {
  serviceKey('KEY', key)
  const body = Buffer.from(`a,${key},b\n${encodeURIComponent(key)}é${key}${key}\nlast ${key.slice(0, -1)}`)
  const clean = `a,[secret],b\n[secret]é[secret][secret]\nlast ${key.slice(0, -1)}`
  for (let size = 1; size <= body.length; size += 1) expect(await through(body, size)).toEqual({ text: clean, found: 4 })
  expect(await through(gzipSync(body), 7)).toEqual({ text: clean, found: 4 })
  expect(await through(gzipSync(gzipSync(body)), 7)).toEqual({ text: clean, found: 4 })
  await expect(through(gzipSync(gzipSync(gzipSync(body))), 7)).rejects.toMatchObject({ code: 'BAD_RESPONSE' })
})

test('of a key that holds another one nothing is left, however the body is cut', async () => {
  serviceKey('KEY', key)
  serviceKey('BATCH', `${key}-batch`)
  const body = Buffer.from(`a,${key}-batch,b\n${key},c\n${key}-bat`)
  for (let size = 1; size <= body.length; size += 1)
    expect(await through(body, size)).toMatchObject({ text: 'a,[secret],b\n[secret],c\n[secret]-bat' })
})

test('a body without the key passes as it is, and so does every body where no key is known', async () => {
  const zipped = gzipSync('a,b\n')
  expect((await through(zipped, 5)).text).toBe(zipped.toString())
  serviceKey('KEY', key)
  expect(await through(Buffer.from('a,b\n'), 1)).toEqual({ text: 'a,b\n', found: 0 })
})

test('bytes without the key are not copied: a large report would leave as much for the collector', async () => {
  serviceKey('KEY', key)
  const body = Buffer.from('a,b\n'.repeat(100))
  const payload = masked({ format: 'csv', part: 1, body: chunked(body, 64) }, 1_000_000, () => undefined)
  for await (const chunk of payload.body) expect(chunk.buffer).toBe(body.buffer)
})

/** Ways to write a character of a key: as it is, escaped as JSON may, or as a URL does. */
const spelled = (character: string, how: number): string => {
  const hex = character.charCodeAt(0).toString(16)
  const ways = [
    character,
    `\\u00${hex.padStart(2, '0')}`,
    `\\u00${hex.padStart(2, '0').toUpperCase()}`,
    `%${hex.padStart(2, '0')}`,
    `%${hex.padStart(2, '0').toUpperCase()}`,
    '/"\\'.includes(character) ? `\\${character}` : character,
    character === ' ' ? '+' : character,
  ]
  return ways[how % ways.length] ?? character
}

test('each character of the key may be written in its own way, in an answer and in any text', async () => {
  const characters = fc.constantFrom(...'abcXYZ019-_./+= "')
  await fc.assert(
    fc.asyncProperty(
      fc.array(characters, { minLength: 6, maxLength: 24 }),
      fc.array(fc.nat(6), { minLength: 24, maxLength: 24 }),
      fc.integer({ min: 1, max: 40 }),
      async (letters, ways, size) => {
        forgetSecrets()
        serviceKey('KEY', letters.join(''))
        const written = letters.map((letter, at) => spelled(letter, ways[at] ?? 0)).join('')
        const { text, found } = await through(Buffer.from(`{"a":"~${written}~"}`), size)
        expect([text, found]).toEqual(['{"a":"~[secret]~"}', 1])
        expect(redact(`~${written}~`)).toBe('~[secret]~')
      },
    ),
    { numRuns: 100 },
  )
})

test('what a source read by itself is masked too, as are base64 and hex of the key', async () => {
  serviceKey('KEY', key)
  const order = { sort: `by ${key}`, asc: null }
  const words = {
    fingerprint: { lastUpdated: `2026 ${key}`, count: 1, dataVersion: `v ${key}` },
    expectedRows: 1,
    dataPoints: null,
    order,
  }
  expect(maskedWords(words)).toMatchObject({
    fingerprint: { lastUpdated: '2026 [secret]', dataVersion: 'v [secret]' },
    order: { sort: 'by [secret]' },
  })
  expect(isSameFingerprint(words.fingerprint, maskedWords(words).fingerprint)).toBe(true)
  for (const encoding of ['base64', 'base64url', 'hex'] as const)
    expect((await through(Buffer.from(`x${Buffer.from(key).toString(encoding)}x`), 5)).text).toMatch(/^x\[secret\]=*x$/)
})
