// Bytes to a landing as they arrive: hashed, compressed in zlib's own thread, whole only when the manifest stands.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createGzip } from 'node:zlib'
import type { Payload } from '../core/types.ts'
import { type LandingName, landingLocator, type Manifest, type ManifestPart } from './landing-files.ts'
import type { LandingWriter } from './landing-store.ts'

/** Where a landing's bytes go; calls come one after another. */
export interface LandingSink {
  write(bytes: Uint8Array): Promise<void>
  /** The data is durable after this, and not yet a landing. */
  close(): Promise<void>
  /**
   * The manifest comes last: once it is in its place and durable the landing is whole. @param durable what `close` answered; the manifest
   * may be written meanwhile, but not into its place
   */
  commit(manifest: string, durable: Promise<void>): Promise<void>
  /** Takes away what was written here; safe after any error. */
  abort(): Promise<void>
}

/**
 * A short look back: of reports it finds as much in a sixth less time, since what it searches stays in the processor's cache. So much may wait to be packed
 * while more arrives.
 */
const quick = { level: 1, windowBits: 12, highWaterMark: 512 * 1024 } as const

/** Compresses, hashes and counts as the bytes pass; memory does not grow with the answer. */
export const createLandingWriter = (sink: LandingSink, name: LandingName): LandingWriter => {
  const total = createHash('sha256')
  const parts: ManifestPart[] = []
  const moment = (): string => new Date(name.now?.() ?? Date.now()).toISOString()
  let bytes = 0
  let offset = 0
  /** What is under way would write into a landing that is being taken away. */
  let writing: Promise<unknown> = Promise.resolve()

  async function* landPart({ part, format, file, body }: Payload): AsyncGenerator<Uint8Array> {
    // The first part is all so far: its bytes are hashed once.
    const hash = parts.length === 0 ? total : createHash('sha256')
    const gzip = createGzip(quick)
    const packed = writeAll(gzip, sink)
    writing = packed.catch(() => undefined)
    let rawLength = 0
    try {
      for await (const chunk of body) {
        total.update(chunk)
        if (hash !== total) hash.update(chunk)
        rawLength += chunk.length
        // Where the disk fails, that is the reason, not that the stream was closed for it.
        if (gzip.destroyed || !gzip.write(chunk)) await Promise.race([packed, once(gzip, 'drain')])
        yield chunk
      }
      gzip.end()
      const length = await packed
      const named = file === undefined ? {} : { file: file.name }
      const sha256 = hash.copy().digest('hex')
      parts.push({ part, format, ...named, offset, length, raw_length: rawLength, sha256, landed_at: moment() })
      offset += length
      bytes += rawLength
    } finally {
      gzip.destroy()
    }
  }
  return {
    locator: landingLocator(name),
    part: (payload) => ({ ...payload, body: landPart(payload) }),
    sha256: () => total.copy().digest('hex'),
    finish: async ({ completeness }) => {
      const durable = sink.close()
      durable.catch(() => undefined)
      const manifest: Manifest = {
        version: 2,
        ...ownerOf(name),
        parts,
        sha256: total.digest('hex'),
        bytes,
        completeness: { ...completeness, fingerprint: { ...completeness.fingerprint } },
        landed_at: moment(),
      }
      await sink.commit(JSON.stringify(manifest, null, 1), durable)
      return manifest
    },
    abort: async () => {
      await writing
      await sink.abort()
    },
  }
}

const ownerOf = ({ box, warehouse, askNumber, question }: LandingName) => ({
  warehouse: warehouse.id,
  epoch: warehouse.epoch,
  ask_number: askNumber,
  pipeline: box.pipeline,
  pipeline_version: box.version,
  asked_for: box.key,
  window: { ...box.window },
  slice: { ...box.slice },
  ...(question === undefined ? {} : { question }),
})

/** Length of all that was written, packed. */
const writeAll = async (gzip: ReturnType<typeof createGzip>, sink: LandingSink): Promise<number> => {
  let length = 0
  for await (const chunk of gzip) {
    await sink.write(chunk)
    length += chunk.length
  }
  return length
}
