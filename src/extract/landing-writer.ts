// Bytes to a landing as they arrive: hashed, compressed in zlib's own thread, whole only when the manifest stands.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createGzip } from 'node:zlib'
import type { Payload } from '../core/types.ts'
import type { Manifest, ManifestPart } from './landing-files.ts'
import type { LandingOwner, LandingWriter } from './landing-store.ts'

/** Where a landing's bytes go; calls come one after another. */
export interface LandingSink {
  write(bytes: Uint8Array): Promise<void>
  /** The data is durable after this, and not yet a landing. */
  close(): Promise<void>
  /** The manifest comes last: once it is durable the landing is whole. */
  commit(manifest: string): Promise<void>
  /** Takes away what was written here; safe after any error. */
  abort(): Promise<void>
}

const chunkBytes = 64 * 1024
/** Given to zlib's thread at once: waking it costs as much for a network packet as for this. */
const batchBytes = 512 * 1024

export const createLandingWriter = (sink: LandingSink, owner: LandingOwner): LandingWriter => {
  const total = createHash('sha256')
  const parts: ManifestPart[] = []
  let bytes = 0
  let offset = 0
  return {
    part: (payload) => ({
      ...payload,
      body: landPart(payload, sink, total, (part) => {
        parts.push({ ...part, offset })
        offset += part.length
        bytes += part.raw_length
      }),
    }),
    finish: async ({ completeness }) => {
      await sink.close()
      const manifest: Manifest = {
        version: 1,
        pipeline: owner.pipeline,
        unit: owner.unitKey,
        parts,
        sha256: total.digest('hex'),
        bytes,
        completeness: { ...completeness, fingerprint: { ...completeness.fingerprint } },
        landed_at: new Date().toISOString(),
      }
      await sink.commit(JSON.stringify(manifest, null, 1))
      return manifest
    },
    abort: () => sink.abort(),
  }
}

type LandedPart = Omit<ManifestPart, 'offset'>

async function* landPart(
  payload: Payload,
  sink: LandingSink,
  total: ReturnType<typeof createHash>,
  done: (part: LandedPart) => void,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  const gzip = createGzip({ level: 1, chunkSize: chunkBytes })
  const writing = writeAll(gzip, sink)
  writing.catch(() => undefined)
  let rawLength = 0
  let waiting: Uint8Array[] = []
  let waitingBytes = 0
  try {
    for await (const chunk of payload.body) {
      hash.update(chunk)
      total.update(chunk)
      rawLength += chunk.length
      waiting.push(chunk)
      waitingBytes += chunk.length
      if (waitingBytes >= batchBytes) {
        if (!gzip.write(Buffer.concat(waiting, waitingBytes))) await Promise.race([once(gzip, 'drain'), writing])
        waiting = []
        waitingBytes = 0
      }
      yield chunk
    }
    gzip.end(Buffer.concat(waiting, waitingBytes))
    const length = await writing
    done({
      part: payload.part,
      format: payload.format,
      length,
      raw_length: rawLength,
      sha256: hash.digest('hex'),
      landed_at: new Date().toISOString(),
    })
  } finally {
    gzip.destroy()
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
