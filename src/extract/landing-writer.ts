// Bytes to a landing as they arrive: hashed, compressed block by block in zlib's own threads, whole only when the manifest stands.
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
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

const pack = promisify(gzip)

/** A short look back: of reports it finds as much in a sixth less time, since what it searches stays in the processor's cache. */
const quick = { level: 1, windowBits: 12 } as const

/** Bytes that are packed in one go, each time a member of the gzip file. */
const blockBytes = 512 * 1024
/** Blocks that are packed side by side, or wait to be written, while more arrives. */
const mostUnderWay = 2

/** Packs blocks and writes them in their order. */
const packInto = (sink: LandingSink) => {
  let length = 0
  let last = Promise.resolve()
  const underWay: Promise<void>[] = []
  const writeAfter = async (former: Promise<void>, packed: Promise<Uint8Array>): Promise<void> => {
    const [bytes] = await Promise.all([packed, former])
    await sink.write(bytes)
    length += bytes.length
  }
  return {
    add: async (block: Uint8Array): Promise<void> => {
      last = writeAfter(last, pack(block, { ...quick, chunkSize: Math.max(1024, block.length >> 1) }))
      last.catch(() => undefined)
      underWay.push(last)
      if (underWay.length >= mostUnderWay) await underWay.shift()
    },
    /** Length of all that was written, packed. */
    written: async (): Promise<number> => {
      await last
      return length
    },
  }
}

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
    const packing = packInto(sink)
    let waiting: Uint8Array[] = []
    let [rawLength, packedLength] = [0, 0]
    const addWaiting = async (): Promise<void> => {
      const added = packing.add(Buffer.concat(waiting))
      waiting = []
      packedLength = rawLength
      writing = packing.written().catch(() => undefined)
      await added
    }
    for await (const chunk of body) {
      total.update(chunk)
      if (hash !== total) hash.update(chunk)
      waiting.push(chunk)
      rawLength += chunk.length
      if (rawLength - packedLength >= blockBytes) await addWaiting()
      yield chunk
    }
    // A part without bytes is a member, too.
    if (waiting.length > 0 || rawLength === 0) await addWaiting()
    const length = await packing.written()
    const named = file === undefined ? {} : { file: file.name }
    const sha256 = hash.copy().digest('hex')
    parts.push({ part, format, ...named, offset, length, raw_length: rawLength, sha256, landed_at: moment() })
    offset += length
    bytes += rawLength
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
