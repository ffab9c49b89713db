// Landings in an S3-compatible bucket: `prefix/locator/data.gz`, and `manifest.json` beside it once it is whole. Nothing goes over the local disk.
import { Readable } from 'node:stream'
import { EtlError } from '../core/errors.ts'
import type { BucketSetting } from '../core/landing-setting.ts'
import { openUpload } from './bucket-upload.ts'
import { type Bucket, openBucket } from './bucket.ts'
import { dataFile, landingDepth, landingLocator, manifestFile, notesFolder } from './landing-files.ts'
import { type Landing, missingLanding, readLanding } from './landing-reader.ts'
import type { LandingNotes, LandingStore } from './landing-store.ts'
import { createLandingWriter, type LandingSink } from './landing-writer.ts'

/** Cleaning up after an error delays the error no longer than this. */
const abortMs = 1_500

/** Landings in a bucket; the manifest, written last, makes one whole. */
export const openLandingBucket = (setting: BucketSetting): LandingStore => {
  const bucket = openBucket(setting)
  let isInDoubt = false
  const doubt = (error: unknown): never => {
    isInDoubt = true
    throw error
  }
  const keyOf = (locator: string, file: string): string => `${setting.prefix}${locator}/${file}`
  return {
    place: bucket.placeOf(setting.prefix),
    ready: async (signal) => void (await bucket.list(setting.prefix, { pageSize: 1, signal }).next()),
    // A bucket that did not take an answer may be full: it must take something before anything is paid for.
    room: async () => {
      if (!isInDoubt) return
      await bucket.put(`${setting.prefix}room`, Buffer.alloc(0))
      await bucket.remove(`${setting.prefix}room`)
      isInDoubt = false
    },
    create: async (name, signal) => {
      const locator = landingLocator(name)
      // An earlier try of this claim may have left one; ask number and fence are ours, so no other process writes it.
      await bucket.remove(keyOf(locator, manifestFile), signal)
      const sink = openBucketSink(bucket, keyOf(locator, dataFile), keyOf(locator, manifestFile), signal)
      return createLandingWriter({ ...sink, commit: (...asked) => sink.commit(...asked).catch(doubt) }, name)
    },
    open: (locator, signal) => openLanding(bucket, keyOf(locator, dataFile), keyOf(locator, manifestFile), signal),
    remove: async (locator) => {
      // The manifest first: a landing that is removed by half must not look whole.
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

const openLanding = (bucket: Bucket, data: string, manifest: string, signal: AbortSignal | undefined): Promise<Landing> =>
  readLanding({
    manifestPlace: bucket.placeOf(manifest),
    dataPlace: bucket.placeOf(data),
    readManifest: () => bucket.text(manifest, signal),
    signal,
    readData: () => Readable.from(bytesOf(bucket, data, signal), { objectMode: false }),
  })

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
      // A manifest that is there already is ours only where the reply to an earlier attempt was lost.
      if (!(await bucket.putNew(manifest, text, signal)) && (await bucket.text(manifest, signal)) !== text) {
        written.length = 0
        throw new EtlError('FENCED', `${bucket.placeOf(manifest)} was written by another process; it is left as it is.`)
      }
    },
    abort: async () => {
      const until = AbortSignal.timeout(abortMs)
      await upload.abort(until)
      // The manifest goes before the data. What cannot be removed now, retention finds: nothing refers to it.
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

/** Throws LANDING_MISSING where there is none, LANDING_UNREACHABLE where the connection breaks. */
async function* bytesOf(bucket: Bucket, key: string, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  const body = await bucket.body(key, signal)
  if (body === null) throw missingLanding(bucket.placeOf(key))
  try {
    yield* body
  } catch (error) {
    await bucket.tried(`read ${bucket.placeOf(key)}`, signal, () => Promise.reject(error))
  }
}
