// Bytes to a landing as they arrive: hashed, compressed in zlib's own thread, whole only when the manifest stands.
import { createHash, type Hash } from 'node:crypto'
import { promisify } from 'node:util'
import { createGzip, gzip, gzipSync } from 'node:zlib'
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

const chunkBytes = 64 * 1024
/** Given to zlib's thread at once: waking it costs as much for a network packet as for this. */
const batchBytes = 512 * 1024
/** Parts that are packed and written while the next ones arrive; 4 MB of them at most. */
const mostWaitingParts = 8
/** Up to here packing a part at once costs less than waking zlib's thread for it. */
const smallPartBytes = 64 * 1024

const packInThread = promisify(gzip)

/** A short look back: of reports it finds as much in a sixth less time, since what it searches stays in the processor's cache. */
const quick = { level: 1, windowBits: 12 } as const
/** So little needs no more memory than this to be packed as well. */
const fewBytes = 16 * 1024
const smallest = { ...quick, memLevel: 5, chunkSize: 4 * 1024 } as const

const pack = async (bytes: Buffer): Promise<Buffer> => {
  if (bytes.length > smallPartBytes) return packInThread(bytes, quick)
  return gzipSync(bytes, bytes.length > fewBytes ? quick : smallest)
}

/** Compresses, hashes and counts as the bytes pass; memory does not grow with the answer. */
export const createLandingWriter = (sink: LandingSink, name: LandingName): LandingWriter => {
  const total = createHash('sha256')
  let isFirst = true
  const parts: ManifestPart[] = []
  const line = createLine()
  const moment = (): string => new Date(name.now?.() ?? Date.now()).toISOString()
  let bytes = 0
  let offset = 0
  const done = (part: LandedPart): void => {
    parts.push({ ...part, offset })
    offset += part.length
    bytes += part.raw_length
  }
  return {
    locator: landingLocator(name),
    part: (payload) => {
      // The first part is all so far: its bytes are hashed once.
      const hash = isFirst ? total : createHash('sha256')
      isFirst = false
      return { ...payload, body: landPart(payload, { sink, total, hash, line, done, moment }) }
    },
    sha256: () => total.copy().digest('hex'),
    finish: async ({ completeness }) => {
      await line.end()
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
      // What is under way would otherwise write into a landing that is being taken away.
      await line.end().catch(() => undefined)
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

/** Work that is done one after another, a bounded number of it ahead of its caller. */
interface Line {
  /** Resolves as soon as there is room for more. Rejects with the first error of what went before. */
  add(work: () => Promise<void>): Promise<void>
  /** Resolves when all is done. */
  end(): Promise<void>
}

const createLine = (): Line => {
  const waiting: Promise<void>[] = []
  let last: Promise<void> = Promise.resolve()
  return {
    add: async (work) => {
      last = last.then(work)
      last.catch(() => undefined)
      waiting.push(last)
      if (waiting.length > mostWaitingParts) await waiting.shift()
    },
    end: () => last,
  }
}

type LandedPart = Omit<ManifestPart, 'offset'>

interface Landing {
  readonly sink: LandingSink
  /** Over all parts, and over this one. */
  readonly total: Hash
  readonly hash: Hash
  readonly line: Line
  readonly done: (part: LandedPart) => void
  /** Now, as ISO text. */
  readonly moment: () => string
}

async function* landPart(payload: Payload, { sink, total, hash, line, done, moment }: Landing): AsyncGenerator<Uint8Array> {
  let rawLength = 0
  let waiting: Uint8Array[] = []
  let waitingBytes = 0
  let stream: GzipStream | null = null
  const { part, format, file } = payload
  const landed = (length: number, sha256: string): void =>
    done({
      part,
      format,
      ...(file === undefined ? {} : { file: file.name }),
      length,
      raw_length: rawLength,
      sha256,
      landed_at: moment(),
    })
  try {
    for await (const chunk of payload.body) {
      total.update(chunk)
      if (hash !== total) hash.update(chunk)
      rawLength += chunk.length
      waiting.push(chunk)
      waitingBytes += chunk.length
      if (stream === null && waitingBytes >= batchBytes) {
        await line.end()
        stream = openGzip(sink)
      }
      if (stream !== null) {
        for (const bytes of waiting) await stream.write(bytes)
        waiting = []
      }
      yield chunk
    }
    const sha256 = hash.copy().digest('hex')
    if (stream !== null) return landed(await stream.end(), sha256)
    const rest = Buffer.concat(waiting, waitingBytes)
    // A page is packed and written while the next one is on its way.
    const packing = pack(rest)
    packing.catch(() => undefined)
    await line.add(async () => {
      const packed = await packing
      await sink.write(packed)
      landed(packed.length, sha256)
    })
  } finally {
    stream?.destroy()
  }
}

interface GzipStream {
  /** Takes a copy. Resolves when there is room for more, while bytes of before are still being packed. */
  write(bytes: Uint8Array): Promise<void>
  /** Length of all that was written, packed. */
  end(): Promise<number>
  destroy(): void
}

const openGzip = (sink: LandingSink): GzipStream => {
  const gzip = createGzip({ ...quick, chunkSize: chunkBytes })
  const writing = writeAll(gzip, sink)
  writing.catch(() => undefined)
  // One is filled while the other is packed: a new one for each batch would be garbage faster than it is collected.
  let [filling, packing] = [Buffer.allocUnsafeSlow(batchBytes), Buffer.allocUnsafeSlow(batchBytes)]
  let filled = 0
  let packed: Promise<unknown> = Promise.resolve()
  const handOver = async (): Promise<void> => {
    await packed
    const full = filling
    ;[filling, packing] = [packing, filling]
    filled = 0
    // Where the disk fails, that is the reason, not that the stream was closed for it.
    packed = Promise.race([new Promise<void>((done) => gzip.write(full, (error) => error ?? done())), writing])
    packed.catch(() => undefined)
  }
  return {
    write: async (bytes) => {
      for (let from = 0; from < bytes.length; ) {
        const taken = bytes.subarray(from, from + batchBytes - filled)
        filling.set(taken, filled)
        filled += taken.length
        from += taken.length
        if (filled === batchBytes) await handOver()
      }
    },
    end: () => {
      gzip.end(filling.subarray(0, filled))
      return writing
    },
    destroy: () => gzip.destroy(),
  }
}

const writeAll = async (gzip: ReturnType<typeof createGzip>, sink: LandingSink): Promise<number> => {
  let length = 0
  for await (const chunk of gzip) {
    await sink.write(chunk)
    length += chunk.length
  }
  return length
}
