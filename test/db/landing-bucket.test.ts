// Landings in a bucket, over HTTP and a strict server: whole or not there, read as written, gone when removed, and clear about what is wrong.
import { createHash, randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { isEtlError } from '../../src/core/errors.ts'
import { landingSetting } from '../../src/core/landing-setting.ts'
import type { Payload } from '../../src/core/types.ts'
import { landingLocator } from '../../src/extract/landing-files.ts'
import { openLandingStore } from '../../src/extract/landing.ts'
import type { LandingStore } from '../../src/extract/landing-store.ts'
import { landingName } from '../support/landing-names.ts'
import { type Fate, type S3Request, type S3Server, startS3Server } from '../support/s3-server.ts'

let server: S3Server
let store: LandingStore

const open = (changes: Readonly<Record<string, string>> = {}): Promise<LandingStore> =>
  openLandingStore(landingSetting({ ...server.environment('warehouse'), ...changes }, '/nowhere', '/nowhere'))

beforeEach(async () => {
  server = await startS3Server()
  store = await open()
})
afterEach(() => server.close())

const name = landingName()
const locator = landingLocator(name)
const completeness = { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null }
const mebibyte = 1024 * 1024

async function* inChunks(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000)
}
const payload = (part: number, bytes: Uint8Array): Payload => ({ part, format: 'csv', body: inChunks(bytes) })

const writerOf = async (parts: readonly Uint8Array[], at = name) => {
  const writer = await store.create(at)
  for (const [index, bytes] of parts.entries()) {
    for await (const _ of writer.part(payload(index + 1, bytes)).body) {
      // Reading is what lands.
    }
  }
  return writer
}
const land = async (parts: readonly Uint8Array[], at = name): Promise<void> =>
  void (await (await writerOf(parts, at)).finish({ completeness }))

const readAll = async (from: LandingStore = store): Promise<string[]> => {
  const hashes: string[] = []
  for await (const { body } of (await from.open(locator)).parts()) {
    const hash = createHash('sha256')
    for await (const chunk of body) hash.update(chunk)
    hashes.push(hash.digest('hex'))
  }
  return hashes
}
const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

const errorOf = async (work: Promise<unknown>): Promise<{ code: string; message: string }> => {
  try {
    await work
  } catch (error) {
    if (isEtlError(error)) return { code: error.code, message: error.message }
    throw error
  }
  throw new Error('nothing was thrown')
}

const dataKey = `warehouse/${locator}/data.gz`
const manifestKey = `warehouse/${locator}/manifest.json`
const spoil = (key: string, change: (body: Buffer) => Buffer): void => {
  const object = server.objects.get(key)
  if (object === undefined) throw new Error(`no ${key}`)
  server.objects.set(key, { ...object, body: change(Buffer.from(object.body)) })
}

describe('a landing in a bucket', () => {
  test('is read back as it was written, by whoever has the settings', async () => {
    const parts = [Buffer.from('a,b\n1,2\n'), Buffer.alloc(0), randomBytes(300_000)]
    await land(parts)
    expect(await readAll(await open())).toEqual(parts.map(hashOf))
    expect([...server.objects.keys()].sort()).toEqual([dataKey, manifestKey])
  })

  test('of many pages is asked for once, whatever a reader leaves of a page', async () => {
    const parts = Array.from({ length: 50 }, () => randomBytes(20_000))
    await land(parts)
    const before = server.requests.length
    expect(await readAll()).toEqual(parts.map(hashOf))
    expect(server.requests.slice(before).map(({ method, key }) => `${method} ${key}`)).toEqual([
      `GET ${manifestKey}`,
      `GET ${dataKey}`,
    ])
    const seen: number[] = []
    for await (const { part, body } of (await store.open(locator)).parts()) {
      if (part % 3 === 0) continue
      const hash = createHash('sha256')
      for await (const chunk of body) {
        hash.update(chunk)
        if (part % 3 === 1) break
      }
      if (part % 3 === 2 && hash.digest('hex') === hashOf(parts[part - 1] ?? Buffer.alloc(0))) seen.push(part)
    }
    expect(seen).toHaveLength(17)
  })

  test('larger than a part goes up in parts of one size, one after another, and never whole in memory', async () => {
    const bytes = randomBytes(21 * mebibyte)
    await land([bytes])
    const sizes = server.requests.filter(({ query }) => query.has('partNumber')).map((request) => request.bytes)
    expect(sizes.slice(0, -1)).toEqual([8 * mebibyte, 8 * mebibyte])
    expect(Math.max(...server.requests.map((request) => request.bytes))).toBe(8 * mebibyte)
    expect(await readAll()).toEqual([hashOf(bytes)])
    expect(server.uploads.size).toBe(0)
  })

  test('is not there until its manifest is, which is the last thing written', async () => {
    const writer = await writerOf([Buffer.from('half')])
    expect(await errorOf(store.open(locator))).toMatchObject({ code: 'LANDING_MISSING' })
    server.fate = ({ method, key }) => {
      if (method === 'PUT' && key === manifestKey) {
        expect(server.objects.has(dataKey)).toBe(true)
        expect(server.objects.has(manifestKey)).toBe(false)
      }
      return 'serve'
    }
    await writer.finish({ completeness })
    expect(server.requests.at(-1)).toMatchObject({ method: 'PUT', key: manifestKey })
  })

  test('that was left without a manifest is missing, and the message says where and what to do', async () => {
    await land([Buffer.from('rows')])
    server.objects.delete(manifestKey)
    const error = await errorOf(store.open(locator))
    expect(error).toMatchObject({ code: 'LANDING_MISSING' })
    expect(error.message).toContain(`s3://landings/${manifestKey}`)
    expect(error.message).toContain('--force')
  })

  test.each([
    [
      'with another byte',
      (body: Buffer) => Buffer.concat([body.subarray(0, 40), Buffer.from([(body[40] ?? 0) ^ 1]), body.subarray(41)]),
    ],
    [
      "with its parts, each of them sound, in each other's place",
      (body: Buffer) => Buffer.concat([body.subarray(body.length / 2), body.subarray(0, body.length / 2)]),
    ],
    ['cut short', (body: Buffer) => body.subarray(0, body.length - 30)],
    ['empty', () => Buffer.alloc(0)],
  ])('%s is damaged, and says so', async (_, change) => {
    await land([randomBytes(1000), randomBytes(1000)])
    spoil(dataKey, change)
    expect(await errorOf(readAll())).toMatchObject({ code: 'LANDING_CORRUPT' })
  })

  test('whose data is gone is missing', async () => {
    await land([randomBytes(1000)])
    server.objects.delete(dataKey)
    expect(await errorOf(readAll())).toMatchObject({ code: 'LANDING_MISSING' })
  })

  test('whose body breaks off while it is read is not damaged: it is read again with the next try', async () => {
    const bytes = randomBytes(2 * mebibyte)
    await land([bytes])
    let cuts = 0
    server.fate = ({ method }) => (method === 'GET' && cuts++ === 1 ? 'cut' : 'serve')
    expect(await errorOf(readAll())).toMatchObject({ code: 'LANDING_UNREACHABLE' })
    expect(await readAll()).toEqual([hashOf(bytes)])
  })

  test('survives answers that get lost on their way, of small writes and of large ones', async () => {
    const bytes = randomBytes(9 * mebibyte)
    const lost = new Set<string>()
    server.fate = ({ method, key, query }) => {
      const name = `${method} ${key} ${query.toString()}`
      if (method === 'GET' || query.has('uploads') || lost.has(name)) return 'serve'
      lost.add(name)
      return 'lose'
    }
    await land([bytes])
    expect(lost.size).toBe(6)
    server.fate = () => 'serve'
    expect(await readAll()).toEqual([hashOf(bytes)])
  })

  test('that the bucket does not take has the next one wait until it takes something again: pages are paid for before they are landed', async () => {
    const full = { status: 403, code: 'QuotaExceeded' }
    server.fate = ({ method }) => (method === 'PUT' ? full : 'serve')
    await store.room()
    expect(server.requests).toEqual([])
    await expect(land([randomBytes(1_000)])).rejects.toMatchObject({ code: 'LANDING_REFUSED' })
    await expect(store.room()).rejects.toMatchObject({ code: 'LANDING_REFUSED', message: expect.stringContaining('free space') })
    server.fate = () => 'serve'
    await store.room()
    expect([...server.objects.keys()]).toEqual([])
    const asked = server.requests.length
    await store.room()
    expect(server.requests).toHaveLength(asked)
  })

  const isManifest = ({ method, key }: S3Request): boolean => method === 'PUT' && key === manifestKey
  test.each<[string, number, (request: S3Request) => boolean, Fate]>([
    ['a small one', 1_000, ({ method }) => method === 'PUT', { status: 403, code: 'QuotaExceeded' }],
    ['of a small one the manifest', 1_000, isManifest, 'refuse'],
    ['of a small one the manifest, which it has', 1_000, isManifest, 'lose'],
    ['the end of a large one', 9 * mebibyte, ({ method, query }) => method === 'POST' && query.has('uploadId'), 'refuse'],
    ['of a large one the manifest', 9 * mebibyte, isManifest, 'refuse'],
  ])('%s that was not taken at first is taken whole by another try: pages are paid for', async (_, size, isHit, fate) => {
    const bytes = randomBytes(size)
    const writer = await writerOf([bytes])
    server.fate = (request) => (isHit(request) ? fate : 'serve')
    await expect(writer.finish({ completeness })).rejects.toThrow()
    server.fate = () => 'serve'
    await new Promise((resolve) => setTimeout(resolve, 5))
    await writer.finish({ completeness })
    expect(await readAll()).toEqual([hashOf(bytes)])
  })

  test('that another writer finished meanwhile is left as it is', async () => {
    const late = await writerOf([Buffer.from('late')])
    server.objects.set(manifestKey, { body: Buffer.from('another'), modifiedMs: 0 })
    expect(await errorOf(late.finish({ completeness }))).toMatchObject({ code: 'FENCED' })
    await late.abort()
    expect(server.objects.get(manifestKey)?.body.toString()).toBe('another')
  })

  test('that is given up leaves nothing behind, before and after its data is whole', async () => {
    await (await writerOf([randomBytes(9 * mebibyte)])).abort()
    expect(server.uploads.size).toBe(0)
    const writer = await writerOf([randomBytes(100)])
    server.fate = ({ method, key }) => (method === 'PUT' && key === manifestKey ? 'refuse' : 'serve')
    expect(await errorOf(writer.finish({ completeness }))).toMatchObject({ code: 'LANDING_REFUSED' })
    expect(server.objects.has(dataKey)).toBe(true)
    await writer.abort()
    expect(server.objects.size).toBe(0)
  })

  test('stops waiting for a silent server when it is told to', async () => {
    server.fate = () => 'hang'
    const reason = new Error('enough')
    const controller = new AbortController()
    const opening = store.open(locator, controller.signal)
    setTimeout(() => controller.abort(reason), 200)
    await expect(opening).rejects.toBe(reason)
  })

  test('stops reading in the middle when it is told to', async () => {
    await land([randomBytes(3 * mebibyte)])
    const reason = new Error('enough')
    const controller = new AbortController()
    const landing = await store.open(locator, controller.signal)
    server.fate = () => 'hang'
    setTimeout(() => controller.abort(reason), 300)
    const reading = async (): Promise<void> => {
      for await (const { body } of landing.parts()) {
        for await (const _ of body) {
          // Until it is told to stop.
        }
      }
    }
    await expect(reading()).rejects.toBe(reason)
  })
})

describe('old landings in a bucket', () => {
  test('are found by age over many pages of a list, and removed whole; unfinished uploads too', async () => {
    const names = ['1', '2', '3'].map((fence) => landingName({ fence }))
    for (const each of names) await land([Buffer.from(each.fence)], each)
    const locators = names.map(landingLocator)
    const [first = '', second = ''] = locators
    for (let index = 0; index < 1_200; index += 1)
      server.objects.set(`warehouse/a_v1/2026-01-01/x/${index}/data.gz`, { body: Buffer.alloc(0), modifiedMs: Date.now() })
    server.objects.set('warehouse/notes.txt', { body: Buffer.alloc(0), modifiedMs: 0 })
    server.objects.set(`other/${first}/data.gz`, { body: Buffer.alloc(0), modifiedMs: 0 })
    for (const each of locators.slice(0, 2))
      for (const file of ['data.gz', 'manifest.json']) {
        const key = `warehouse/${each}/${file}`
        server.objects.set(key, { body: server.objects.get(key)?.body ?? Buffer.alloc(0), modifiedMs: 1_000 })
      }
    const found: string[] = []
    for await (const each of store.older(2_000)) found.push(each)
    expect(found).toEqual(locators.slice(0, 2))
    for (const each of found) await store.remove(each)
    for (const each of found) await store.remove(each)
    expect([...server.objects.keys()].filter((key) => key.includes(first) || key.includes(second))).toEqual([
      `other/${first}/data.gz`,
    ])
    await writerOf([randomBytes(9 * mebibyte)], landingName({ askNumber: '2' }))
    await store.dropUnfinished(Date.now() - 60_000)
    expect(server.uploads.size).toBe(1)
    await store.dropUnfinished(Date.now() + 1)
    expect(server.uploads.size).toBe(0)
  })

  test('a sweep also reaches old uploads behind a thousand young ones', async () => {
    const upload = (name: string, beganMs: number) =>
      server.uploads.set(name, { key: `warehouse/${name}/data.gz`, parts: new Map(), beganMs })
    for (let young = 0; young < 1_500; young += 1) upload(`a${young}`, Date.now())
    for (let old = 0; old < 3; old += 1) upload(`b${old}`, 1_000)
    await store.dropUnfinished(2_000)
    expect([...server.uploads.keys()].filter((name) => name.startsWith('b'))).toEqual([])
    expect(server.uploads.size).toBe(1_500)
  })
})

describe('a bucket that cannot be used', () => {
  test.each([
    ['the key id', { AWS_ACCESS_KEY_ID: 'ANOTHERKEYID' }, 'AWS_ACCESS_KEY_ID'],
    ['the secret', { AWS_SECRET_ACCESS_KEY: 'another-secret-here' }, 'AWS_SECRET_ACCESS_KEY'],
    ['the bucket', { MILLRACE_LANDING: 's3://another-bucket/x' }, 'Make the bucket, or correct its name in MILLRACE_LANDING'],
  ])('because %s is wrong is refused before anything is landed, with the remedy and no secret', async (_, changes, remedy) => {
    const error = await errorOf((await open(changes)).ready())
    expect(error.code).toBe('LANDING_REFUSED')
    expect(error.message).toContain(remedy)
    expect(error.message).toContain(server.url)
    expect(error.message).not.toMatch(/secret-of-the-test|another-secret/)
    expect(server.objects.size).toBe(0)
  })

  test('because the server has another word for it, with the same status as a missing object, is never a landing that is gone', async () => {
    await land([randomBytes(100)])
    const landing = await store.open(locator)
    const read = async (): Promise<void> => {
      for await (const { body } of landing.parts()) await body[Symbol.asyncIterator]().next()
    }
    for (const code of ['NoSuchUser', '']) {
      server.fate = () => ({ status: 404, code })
      expect(await errorOf(store.open(locator)), code).toMatchObject({ code: 'LANDING_REFUSED' })
      expect(await errorOf(read()), code).toMatchObject({ code: 'LANDING_REFUSED' })
    }
  })

  test('because nobody answers, or only with errors, is said so after a bounded number of tries', async () => {
    server.fate = () => 'fail'
    expect(await errorOf(store.ready())).toMatchObject({ code: 'LANDING_UNREACHABLE' })
    expect(server.requests).toHaveLength(5)
    const away = await open({ AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1' })
    const error = await errorOf(away.ready())
    expect(error.code).toBe('LANDING_UNREACHABLE')
    expect(error.message).toContain('http://127.0.0.1:1')
    expect(error.message).toContain('run the same command again')
  })
})
