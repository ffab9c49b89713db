// Bytes to a landing as they arrive: hashed, compressed in zlib's own thread, whole only when the manifest stands.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { constants, createZstdCompress } from 'node:zlib'
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

/** Two and a half times as quick as gzip's quickest, and no larger; read back in half the time. So much may wait to be packed while more arrives. */
const quick = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: 64 * 1024, highWaterMark: 512 * 1024 } as const

/** Compresses, hashes and counts as the bytes pass; memory does not grow with the answer. */
export const createLandingWriter = (sink: LandingSink, name: LandingName): LandingWriter => {
  const total = createHash('sha256')
  const parts: ManifestPart[] = []
  const moment = (): string => new Date(name.now?.() ?? Date.now()).toISOString()
  let bytes = 0
  // One frame for all parts: not every Node.js reads on behind the first.
  const packer = createZstdCompress(quick)
  const written = writeAll(packer, sink)
  written.catch(() => undefined)

  async function* landPart({ part, format, file, body }: Payload): AsyncGenerator<Uint8Array> {
    // The first part is all so far: its bytes are hashed once.
    const hash = parts.length === 0 ? total : createHash('sha256')
    let rawLength = 0
    for await (const chunk of body) {
      total.update(chunk)
      if (hash !== total) hash.update(chunk)
      rawLength += chunk.length
      // Where the disk fails, that is the reason, not that the stream was closed for it.
      if (packer.destroyed || !packer.write(chunk)) await Promise.race([written, once(packer, 'drain')])
      yield chunk
    }
    const named = file === undefined ? {} : { file: file.name }
    parts.push({ part, format, ...named, raw_length: rawLength, sha256: hash.copy().digest('hex'), landed_at: moment() })
    bytes += rawLength
  }
  return {
    locator: landingLocator(name),
    part: (payload) => ({ ...payload, body: landPart(payload) }),
    sha256: () => total.copy().digest('hex'),
    finish: async ({ completeness }) => {
      packer.end()
      await written
      const durable = sink.close()
      durable.catch(() => undefined)
      const manifest: Manifest = {
        version: 3,
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
      // What is under way would write into a landing that is being taken away.
      packer.destroy()
      await written.catch(() => undefined)
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

const writeAll = async (packer: AsyncIterable<Uint8Array>, sink: LandingSink): Promise<void> => {
  for await (const chunk of packer) await sink.write(chunk)
}
