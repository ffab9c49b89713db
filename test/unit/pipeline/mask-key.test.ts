import { afterEach, expect, test } from 'vitest'
import { gzipSync } from 'node:zlib'
import { forgetSecrets, serviceKey } from '../../../src/core/redact.ts'
import { masked } from '../../../src/pipeline/mask-key.ts'

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
