// Landings in an S3-compatible bucket: `prefix/locator/data.gz`, and `manifest.json` beside it once it is whole. Nothing goes over the local disk. A read goes
// on where a connection broke off.
import { GetObjectCommand } from '@aws-sdk/client-s3'
import { Readable } from 'node:stream'
import { systemClock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import type { BucketSetting } from '../core/landing-setting.ts'
import { isMissing, refusalOf } from './bucket-error.ts'
import { openUpload } from './bucket-upload.ts'
import { type Bucket, openBucket } from './bucket.ts'
import { dataFile, landingDepth, landingLocator, manifestFile, notesFolder } from './landing-files.ts'
import { corruptLanding, readLanding } from './landing-reader.ts'
import type { Landing, LandingNotes, LandingStore } from './landing-store.ts'
import { createLandingWriter, type LandingSink } from './landing-writer.ts'

/** Cleaning up after an error delays the error no longer than this. */
const abortMs = 3_000

/** Landings in a bucket; the manifest, written last, makes one whole. */
export const openLandingBucket = (setting: BucketSetting): LandingStore => {
  const bucket = openBucket(setting)
  const keyOf = (locator: string, file: string): string => `${setting.prefix}${locator}/${file}`
  return {
    place: bucket.placeOf(setting.prefix),
    ready: async (signal) => void (await bucket.list(setting.prefix, { pageSize: 1, signal }).next()),
    create: async (name, signal) => {
      const locator = landingLocator(name)
      // An earlier try of this claim may have left one; ask number and fence are ours, so no other process writes it.
      await bucket.remove(keyOf(locator, manifestFile), signal)
      const sink = openBucketSink(bucket, keyOf(locator, dataFile), keyOf(locator, manifestFile), signal)
      return createLandingWriter(sink, name)
    },
    open: (locator, signal) => openLanding(bucket, keyOf(locator, dataFile), keyOf(locator, manifestFile), signal),
    remove: async (locator) => {
      // In this order a landing that is gone by half is not whole.
      for (const file of [manifestFile, dataFile]) await bucket.remove(keyOf(locator, file))
    },
    older: (olderThanMs) => olderLandings(bucket, setting.prefix, '', olderThanMs),
    below: (folder) => olderLandings(bucket, setting.prefix, `${folder}/`, Number.POSITIVE_INFINITY),
    notes: bucketNotes(bucket, setting.prefix),
    dropUnfinished: (olderThanMs) => bucket.dropUploads(setting.prefix, olderThanMs),
  }
}

const bucketNotes = (bucket: Bucket, prefix: string): LandingNotes => ({
  write: (path, text, signal) => bucket.putNew(prefix + path, text, signal),
  read: (path, signal) => bucket.text(prefix + path, signal),
  remove: (path) => bucket.remove(prefix + path),
  list: async function* (folder, after, signal) {
    const options = { after: after === undefined ? undefined : prefix + after, signal }
    for await (const { key, modifiedMs } of bucket.list(`${prefix}${folder}/`, options))
      yield { path: key.slice(prefix.length), writtenMs: async () => modifiedMs }
  },
})

const openLanding = (bucket: Bucket, data: string, manifest: string, signal: AbortSignal | undefined): Promise<Landing> => {
  const damaged = (found: string): EtlError => corruptLanding(bucket.placeOf(data), found)
  return readLanding({
    manifestPlace: bucket.placeOf(manifest),
    dataPlace: bucket.placeOf(data),
    readManifest: () => bucket.text(manifest, signal),
    signal,
    readBytes: (offset, length) =>
      Readable.from(readRange(bucket, { key: data, offset, length }, damaged, signal), { objectMode: false }),
  })
}

const openBucketSink = (bucket: Bucket, data: string, manifest: string, signal: AbortSignal | undefined): LandingSink => {
  const upload = openUpload(bucket, data, signal)
  const written: string[] = []
  return {
    write: (bytes) => upload.write(bytes),
    close: async () => {
      written.unshift(data)
      await upload.close()
    },
    commit: async (text, durable) => {
      await durable
      written.unshift(manifest)
      // What stands there already is ours only where the answer of an earlier try was lost.
      if (!(await bucket.putNew(manifest, text, signal)) && (await bucket.text(manifest, signal)) !== text) {
        written.length = 0
        throw new EtlError('FENCED', `${bucket.placeOf(manifest)} was written by another process; it is left as it is.`)
      }
    },
    abort: async () => {
      const until = AbortSignal.timeout(abortMs)
      await upload.abort(until)
      // The manifest goes before the data. What cannot be taken away now, retention finds: nothing refers to it.
      for (const key of written) await bucket.remove(key, until).catch(() => undefined)
    },
  }
}

/** A listing has the objects of one landing side by side. */
async function* olderLandings(bucket: Bucket, prefix: string, below: string, olderThanMs: number): AsyncGenerator<string> {
  let current: { locator: string; newestMs: number } = { locator: '', newestMs: Number.POSITIVE_INFINITY }
  for await (const { key, modifiedMs } of bucket.list(prefix + below)) {
    const words = key.slice(prefix.length).split('/')
    if (words.length !== landingDepth + 1 || words[0] === notesFolder) continue
    const locator = words.slice(0, landingDepth).join('/')
    if (current.locator === locator) {
      current.newestMs = Math.max(current.newestMs, modifiedMs)
      continue
    }
    if (current.newestMs < olderThanMs) yield current.locator
    current = { locator, newestMs: modifiedMs }
  }
  if (current.newestMs < olderThanMs) yield current.locator
}

/** Broken bodies in a row, none of which brought a mebibyte. */
const maxBreaks = 5
const progressBytes = 1024 * 1024
const firstPauseMs = 100

/**
 * Bytes `offset` to `offset + length` of `key`. Throws what `damaged` makes where the object is missing or shorter, LANDING_UNREACHABLE
 * where connections keep breaking.
 */
export async function* readRange(
  bucket: Bucket,
  { key, offset, length }: { readonly key: string; readonly offset: number; readonly length: number },
  damaged: (found: string) => EtlError,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const doing = `read ${bucket.placeOf(key)}`
  let received = 0
  let breaks = 0
  let mark = 0
  while (received < length) {
    const body = await ask(bucket, key, offset + received, offset + length - 1, damaged, signal)
    try {
      for await (const chunk of body) {
        received += chunk.length
        if (received > length) throw damaged('the server sent more than it was asked for')
        yield chunk
      }
      if (received < length) throw new Error(`the body ended ${length - received} bytes early`)
    } catch (error) {
      signal?.throwIfAborted()
      if (received > length) throw error
      if (received - mark >= progressBytes) breaks = 0
      mark = received
      breaks += 1
      if (breaks > maxBreaks) throw bucket.errorOf(error, doing)
      await systemClock.sleep(firstPauseMs * 2 ** (breaks - 1) * (0.5 + systemClock.random() / 2), signal)
    }
  }
}

const ask = async (
  bucket: Bucket,
  key: string,
  first: number,
  last: number,
  damaged: (found: string) => EtlError,
  signal: AbortSignal | undefined,
): Promise<AsyncIterable<Uint8Array>> => {
  const command = new GetObjectCommand({ Bucket: bucket.name, Key: key, Range: `bytes=${first}-${last}` })
  try {
    const answer = await bucket.client.send(command, signal === undefined ? {} : { abortSignal: signal })
    if (!isStream(answer.Body)) throw new Error('the answer has no body')
    if (answer.ContentRange !== undefined && !answer.ContentRange.startsWith(`bytes ${first}-`))
      throw damaged(`asked for ${first}-${last}, the server sent ${answer.ContentRange}`)
    if (answer.ContentRange === undefined && first > 0)
      throw new EtlError(
        'LANDING_REFUSED',
        `${bucket.placeOf(key)}: the server sends no parts of objects (Range); use another one.`,
      )
    return answer.Body
  } catch (error) {
    signal?.throwIfAborted()
    if (refusalOf(error).status === 416) throw damaged(`it ends before byte ${first}`)
    if (isMissing(error)) throw damaged('it is not there, though the manifest is')
    throw bucket.errorOf(error, `read ${bucket.placeOf(key)}`)
  }
}

const isStream = (body: unknown): body is AsyncIterable<Uint8Array> =>
  typeof body === 'object' && body !== null && Symbol.asyncIterator in body
