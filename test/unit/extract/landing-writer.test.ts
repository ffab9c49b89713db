// Bytes on their way into a landing: in order whatever their size, each part whole by itself, an error never lost.
import { createHash, randomBytes } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { Payload } from '../../../src/core/types.ts'
import { landingLocator, parseManifest } from '../../../src/extract/landing-files.ts'
import { createLandingWriter, type LandingSink } from '../../../src/extract/landing-writer.ts'
import { boxOfCountries, landingName } from '../../support/landing-names.ts'

interface MemorySink extends LandingSink {
  readonly steps: string[]
  bytes(): Buffer
  manifest: string | null
}

const memorySink = (write: (call: number) => Promise<void> = async () => undefined): MemorySink => {
  const written: Uint8Array[] = []
  let calls = 0
  const sink: MemorySink = {
    steps: [],
    manifest: null,
    bytes: () => Buffer.concat(written),
    write: async (bytes) => {
      calls += 1
      await write(calls)
      written.push(Uint8Array.from(bytes))
      sink.steps.push('write')
    },
    close: async () => void sink.steps.push('close'),
    commit: async (manifest, durable) => {
      await durable
      sink.steps.push('commit')
      sink.manifest = manifest
    },
    abort: async () => void sink.steps.push('abort'),
  }
  return sink
}

const payloadOf = (part: number, body: Buffer, chunk = 60_000): Payload => ({
  format: 'json',
  part,
  body: (async function* () {
    for (let at = 0; at < body.length; at += chunk) yield body.subarray(at, at + chunk)
  })(),
})

const read = async (payload: Payload): Promise<Buffer> => {
  const chunks: Uint8Array[] = []
  for await (const chunk of payload.body) chunks.push(Uint8Array.from(chunk))
  return Buffer.concat(chunks)
}

const completeness = { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null }
const name = landingName()
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

describe('where a landing lies', () => {
  test('is told by what was asked for, by whom, with which number and under which fence', () => {
    const name = landingName({ askNumber: '81', fence: '2' })
    expect(landingLocator(name)).toMatch(/^keywords_v1\/2026-01-01\/us-[0-9a-f]{12}\/5b1c7d2e\.1-81-2-c0ffee$/)
    expect(landingLocator({ ...name, box: boxOfCountries(['us', 'gb']) })).toMatch(
      /^keywords_v1\/2026-01-01\/2_values-[0-9a-f]{12}\//,
    )
    const others = [
      { ...name, box: boxOfCountries(['gb']) },
      { ...name, box: boxOfCountries(['us'], 'traffic') },
      { ...name, box: boxOfCountries(['us', 'gb']) },
      { ...name, box: boxOfCountries(['us', 'fr']) },
      { ...name, warehouse: { ...name.warehouse, epoch: 2 } },
      { ...name, warehouse: { ...name.warehouse, id: '00000000-4a51-4f0e-9a57-0a4f5f1f7c11' } },
      { ...name, askNumber: '8', fence: '12' },
      { ...name, fence: '3' },
      { ...name, nonce: 'decade' },
    ]
    expect(new Set([name, ...others].map(landingLocator)).size).toBe(others.length + 1)
  })
})

describe('a landing writer', () => {
  test('keeps parts of every size in order, each readable by its own place and length', async () => {
    const sink = memorySink(async (call) => void (call % 3 === 0 && (await new Promise((resolve) => setTimeout(resolve, 2)))))
    const writer = createLandingWriter(sink, name)
    const sizes = [30, 0, 20_000, 1_400_000, 10, 5_000_000, 524_288, 524_287, 5, ...Array.from({ length: 40 }, () => 900)]
    const bodies = sizes.map((size) => randomBytes(size))
    for (const [index, body] of bodies.entries())
      expect((await read(writer.part(payloadOf(index + 1, body)))).equals(body)).toBe(true)
    const { parts, sha256: whole, bytes } = await writer.finish({ completeness })
    expect(parts.map(({ part }) => part)).toEqual(bodies.map((_, index) => index + 1))
    for (const [index, { offset, length, raw_length, sha256: hash }] of parts.entries()) {
      const body = bodies[index] ?? Buffer.alloc(0)
      expect(gunzipSync(sink.bytes().subarray(offset, offset + length)).equals(body)).toBe(true)
      expect([raw_length, hash]).toEqual([body.length, sha256(body)])
    }
    expect([whole, bytes]).toEqual([sha256(Buffer.concat(bodies)), Buffer.concat(bodies).length])
    expect(parseManifest(sink.manifest ?? '').parts).toHaveLength(sizes.length)
    expect(sink.steps.slice(-2)).toEqual(['close', 'commit'])
  })

  test('says in its manifest who asked for what, with which number, and where it lies', async () => {
    const box = boxOfCountries(['us', 'gb'])
    const sink = memorySink()
    const asked = landingName({ box, askNumber: '81', fence: '2' })
    const writer = createLandingWriter(sink, asked)
    expect(writer.locator).toBe(landingLocator(asked))
    await writer.finish({ completeness: { ...completeness, fingerprint: { lastUpdated: '2026-02-03', count: 7 } } })
    expect(parseManifest(sink.manifest ?? '')).toMatchObject({
      version: 2,
      warehouse: asked.warehouse.id,
      epoch: 1,
      ask_number: '81',
      pipeline: 'keywords',
      pipeline_version: 1,
      asked_for: 'keywords/v1/2026-01/country=[gb,us]',
      window: { from: '2026-01-01', to: '2026-02-01' },
      slice: { country: ['gb', 'us'] },
      parts: [],
      bytes: 0,
      completeness: { fingerprint: { lastUpdated: '2026-02-03', count: 7 } },
    })
  })

  test.each([
    ['a small', 900],
    ['a large', 1_400_000],
  ])('never commits when %s part could not be written', async (_, size) => {
    const sink = memorySink(async () => {
      throw new Error('the disk is full')
    })
    const writer = createLandingWriter(sink, name)
    const outcome = (async () => {
      await read(writer.part(payloadOf(1, randomBytes(size))))
      await writer.finish({ completeness })
    })()
    await expect(outcome).rejects.toThrow('the disk is full')
    await writer.abort()
    expect(sink.steps).toEqual(['abort'])
  })

  test('does not run ahead of a slow disk without end', async () => {
    let release: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const sink = memorySink(() => held)
    const writer = createLandingWriter(sink, name)
    let taken = 0
    const taking = (async () => {
      for (let part = 1; part <= 30; part += 1) {
        await read(writer.part(payloadOf(part, randomBytes(60_000))))
        taken = part
      }
    })()
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(taken).toBeLessThan(18)
    release()
    await taking
    expect((await writer.finish({ completeness })).parts).toHaveLength(30)
  })

  test('does not run ahead of a slow disk within a large part, either', async () => {
    const held = Promise.withResolvers<void>()
    const writer = createLandingWriter(
      memorySink(() => held.promise),
      name,
    )
    const body = randomBytes(8_000_000)
    let taken = 0
    const taking = (async () => {
      for await (const chunk of writer.part(payloadOf(1, body)).body) taken += chunk.length
    })()
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(taken).toBeLessThan(2_000_000)
    held.resolve()
    await taking
    expect(taken).toBe(body.length)
  })

  test('takes a landing away only when nothing is written into it any more', async () => {
    const [began, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const sink = memorySink(() => {
      began.resolve()
      return held.promise
    })
    const writer = createLandingWriter(sink, name)
    const reading = read(writer.part(payloadOf(1, randomBytes(300_000))))
    await began.promise
    const aborted = writer.abort()
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(sink.steps).toEqual([])
    held.resolve()
    await Promise.all([aborted, reading])
    expect(sink.steps.at(-1)).toBe('abort')
  })
})
