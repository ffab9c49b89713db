// Bytes to disk as they arrive: hashed, compressed in zlib's own thread, whole only when the manifest stands.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createGzip } from 'node:zlib'
import type { Completeness } from '../core/completeness.ts'
import type { Payload } from '../core/types.ts'
import { diskError } from './disk-error.ts'
import { dataFile, type Manifest, type ManifestPart, manifestFile } from './landing-files.ts'

export interface LandingWriter {
  /** The same payload; whoever reads its bytes gets them after they were hashed and handed to the disk. */
  part(payload: Payload): Payload
  /** Makes the landing durable. Every part must have been read to its end. */
  finish(result: { readonly completeness: Completeness }): Promise<Manifest>
  /** Takes everything away again; safe after any error. */
  abort(): Promise<void>
}

export interface LandingOwner {
  readonly pipeline: string
  readonly unitKey: string
}

const chunkBytes = 64 * 1024
/** Given to zlib's thread at once: waking it costs as much for a network packet as for this. */
const batchBytes = 512 * 1024

/** Opens a writer for `folder`, which must not hold a landing yet. Throws DISK. */
export const createLandingWriter = async (folder: string, owner: LandingOwner): Promise<LandingWriter> => {
  const temporary = join(folder, `${dataFile}.tmp`)
  const file = await openFile(folder, temporary)
  const total = createHash('sha256')
  const parts: ManifestPart[] = []
  let bytes = 0
  let offset = 0
  return {
    part: (payload) => ({
      ...payload,
      body: landPart(payload, file, total, (part) => {
        parts.push({ ...part, offset })
        offset += part.length
        bytes += part.raw_length
      }),
    }),
    finish: async ({ completeness }) => {
      try {
        await file.sync()
        await file.close()
        await rename(temporary, join(folder, dataFile))
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
        await writeManifest(folder, manifest)
        return manifest
      } catch (error) {
        throw diskError(error, folder)
      }
    },
    abort: async () => {
      await file.close().catch(() => undefined)
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const openFile = async (folder: string, file: string): Promise<FileHandle> => {
  try {
    await mkdir(folder, { recursive: true })
    return await open(file, 'wx', 0o600)
  } catch (error) {
    throw diskError(error, folder)
  }
}

/** The manifest comes last: its presence means that the landing is whole. */
const writeManifest = async (folder: string, manifest: Manifest): Promise<void> => {
  const temporary = join(folder, `${manifestFile}.tmp`)
  const file = await open(temporary, 'w', 0o600)
  await file.writeFile(JSON.stringify(manifest, null, 1))
  await file.sync()
  await file.close()
  await rename(temporary, join(folder, manifestFile))
  for (const path of [folder, dirname(folder)]) await syncFolder(path)
}

const syncFolder = async (path: string): Promise<void> => {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

type LandedPart = Omit<ManifestPart, 'offset'>

async function* landPart(
  payload: Payload,
  file: FileHandle,
  total: ReturnType<typeof createHash>,
  done: (part: LandedPart) => void,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  const gzip = createGzip({ level: 1, chunkSize: chunkBytes })
  const writing = writeAll(gzip, file)
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

const writeAll = async (gzip: ReturnType<typeof createGzip>, file: FileHandle): Promise<number> => {
  let length = 0
  try {
    for await (const chunk of gzip) {
      const { bytesWritten } = await file.write(chunk)
      length += bytesWritten
    }
  } catch (error) {
    throw diskError(error, 'the landing')
  }
  return length
}
