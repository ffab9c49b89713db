// Writes bytes to a landing as they arrive: hashed, and compressed block by block in zlib's own threads. It is whole once its manifest is in place.
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Payload } from '../core/types.ts'
import { type LandingName, landingLocator, type Manifest, type ManifestPart } from './landing-files.ts'

/** Where a landing's bytes go; calls come one after another. */
export interface LandingSink {
  write(bytes: Uint8Array): Promise<void>
  /** The data is durable after this, and not yet a landing. */
  close(): Promise<void>
  /**
   * The manifest comes last: once it is in its place and durable the landing is whole. @param durable the promise of `close`; the manifest
   * may be written meanwhile, but not into its place
   */
  commit(manifest: string, durable: Promise<void>): Promise<void>
  /** Commits what was written so far, while more comes; undefined: this store shows nothing before it is whole. */
  readonly save?: (manifest: string) => Promise<void>
  /** Takes away what was written here; safe after any error. */
  abort(): Promise<void>
}

type Told = Pick<Manifest, 'completeness'>

const packed = promisify(gzip)

/** A short window: on reports it compresses as well in a sixth less time, since the window stays in the processor's cache. */
const quick = { level: 1, windowBits: 12 } as const

/** Bytes that are compressed in one go; each block is a member of the gzip file. */
const blockBytes = 512 * 1024
/** Blocks that are packed side by side, or wait to be written, while more arrives. */
const mostUnderWay = 2

/** Memory of blocks, used again by any landing: new memory outside the heap makes V8 collect all garbage again and again. */
const spare: Buffer[] = []
const mostSpare = 8

/** Packs bytes block by block and writes the blocks in their order. */
const packInto = (sink: LandingSink) => {
  let length = 0
  let filled = 0
  let blocks = 0
  let block: Buffer = Buffer.alloc(0)
  let last = Promise.resolve()
  const underWay: Promise<void>[] = []
  const pack = async (former: Promise<void>, whole: Buffer, bytes: number): Promise<void> => {
    const packing = packed(whole.subarray(0, bytes), { ...quick, chunkSize: Math.max(1024, bytes >> 1) })
    const [member] = await Promise.all([packing, former])
    if (spare.length < mostSpare) spare.push(whole)
    await sink.write(member)
    length += member.length
  }
  const next = async (): Promise<void> => {
    last = pack(last, block, filled)
    last.catch(() => undefined)
    blocks += 1
    filled = 0
    block = Buffer.alloc(0)
    underWay.push(last)
    if (underWay.length >= mostUnderWay) await underWay.shift()
  }
  return {
    add: async (bytes: Uint8Array): Promise<void> => {
      for (let from = 0; from < bytes.length; ) {
        if (block.length === 0) block = spare.pop() ?? Buffer.allocUnsafeSlow(blockBytes)
        const part = bytes.subarray(from, from + block.length - filled)
        block.set(part, filled)
        filled += part.length
        from += part.length
        if (filled === block.length) await next()
      }
    },
    /** Length of all that was added, packed; a part without bytes is a member, too. */
    written: async (): Promise<number> => {
      if (filled > 0 || blocks === 0) await next()
      await last
      return length
    },
    /** Until nothing is under way. */
    idle: () => last.catch(() => undefined),
  }
}

export type LandingWriter = ReturnType<typeof createLandingWriter>

/** Writes an answer as it comes, in constant memory. Before `save` and `finish` every part must have been read to its end. */
export const createLandingWriter = (sink: LandingSink, name: LandingName) => {
  const total = createHash('sha256')
  const parts: ManifestPart[] = []
  const moment = (): string => new Date(name.now?.() ?? Date.now()).toISOString()
  let bytes = 0
  let offset = 0
  let whole: Manifest | null = null
  /** Awaited before an abort: a block in progress would write into a landing that is being removed. */
  let idle: () => Promise<unknown> = async () => undefined

  async function* landPart({ part, format, file, body }: Payload): AsyncGenerator<Uint8Array> {
    // The first part is all so far: its bytes are hashed once.
    const hash = parts.length === 0 ? total : createHash('sha256')
    const packing = packInto(sink)
    idle = packing.idle
    let rawLength = 0
    for await (const chunk of body) {
      total.update(chunk)
      if (hash !== total) hash.update(chunk)
      rawLength += chunk.length
      await packing.add(chunk)
      yield chunk
    }
    const length = await packing.written()
    const named = file === undefined ? {} : { file: file.name }
    const sha256 = hash.copy().digest('hex')
    parts.push({ part, format, ...named, offset, length, raw_length: rawLength, sha256, landed_at: moment() })
    offset += length
    bytes += rawLength
  }
  const manifestNow = ({ completeness }: Told): Manifest => ({
    ...ownerOf(name),
    parts: [...parts],
    sha256: total.copy().digest('hex'),
    bytes,
    completeness: { ...completeness, fingerprint: { ...completeness.fingerprint } },
    landed_at: moment(),
  })
  return {
    locator: landingLocator(name),
    /** The same payload; its bytes are read after they were hashed and handed to the store. */
    part: (payload: Payload): Payload => ({ ...payload, body: landPart(payload) }),
    /** Over all parts so far, as the manifest will say it. */
    sha256: () => total.copy().digest('hex'),
    /** Makes the parts so far readable, should the process be killed; more may follow. False where the store shows nothing before it is whole. */
    save: async (result: Told): Promise<boolean> => {
      await sink.save?.(JSON.stringify(manifestNow(result), null, 1))
      return sink.save !== undefined
    },
    /** Makes the landing durable; may be called again after the store failed. Throws FENCED where another writer's landing is in its place. */
    finish: async (result: Told): Promise<Manifest> => {
      // Blocks of a part that broke off may still be in progress.
      await idle()
      const durable = sink.close()
      durable.catch(() => undefined)
      // Written again with the same text: an earlier attempt may have succeeded and lost its reply.
      if (whole?.parts.length !== parts.length) whole = manifestNow(result)
      await sink.commit(JSON.stringify(whole, null, 1), durable)
      return whole
    },
    /** Takes everything away again; safe after any error. */
    abort: async (): Promise<void> => {
      await idle()
      await sink.abort()
    },
  }
}

const ownerOf = ({ box, warehouse, askNumber, question }: LandingName) => ({
  version: 2 as const,
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
