// A landing read back: the manifest decides whether it is whole, lengths and checksums whether it is what was written.
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { type Manifest, type ManifestPart, parseManifest } from './landing-files.ts'
import type { Landing } from './landing-store.ts'

/** Where one landing lies. */
export interface LandingShelf {
  /** Of the manifest and of the data, as a person would look for them. */
  readonly manifestPlace: string
  readonly dataPlace: string
  /** Null where there is none. */
  readManifest(): Promise<string | null>
  /** `length` bytes of the data from `offset`, as a stream. */
  readBytes(offset: number, length: number): Readable
  /** Ends the reading with its reason. */
  readonly signal?: AbortSignal | undefined
}

const remedy = 'or load the unit again with `millrace backfill … --force`'

export const readLanding = async (shelf: LandingShelf): Promise<Landing> => {
  const manifest = await readManifest(shelf)
  return {
    manifest,
    parts: async function* () {
      for (const part of manifest.parts) yield { part: part.part, format: part.format, body: readPart(shelf, part) }
    },
  }
}

const readManifest = async (shelf: LandingShelf): Promise<Manifest> => {
  const text = await shelf.readManifest()
  if (text === null)
    throw new EtlError(
      'LANDING_MISSING',
      `${shelf.manifestPlace} is not there. Restore it, ${remedy} (reports are bought again).`,
    )
  try {
    return parseManifest(text)
  } catch (cause) {
    throw corruptLanding(shelf.manifestPlace, messageOf(cause))
  }
}

export const corruptLanding = (place: string, found: string): EtlError =>
  new EtlError('LANDING_CORRUPT', `${place} is damaged: ${found}. Restore it from a backup, ${remedy}.`)

async function* readPart(shelf: LandingShelf, part: ManifestPart): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let length = 0
  const stream = shelf.readBytes(part.offset, part.length)
  const gunzip = createGunzip({ chunkSize: 128 * 1024 })
  stream.once('error', (error) => gunzip.destroy(error))
  try {
    for await (const chunk of stream.pipe(gunzip)) {
      hash.update(chunk)
      length += chunk.length
      yield chunk
    }
  } catch (error) {
    shelf.signal?.throwIfAborted()
    if (isEtlError(error)) throw error
    throw corruptLanding(shelf.dataPlace, messageOf(error))
  } finally {
    stream.destroy()
    gunzip.destroy()
  }
  if (length !== part.raw_length || hash.digest('hex') !== part.sha256) {
    throw corruptLanding(
      shelf.dataPlace,
      `part ${part.part} has ${length} bytes and another checksum, the manifest says ${part.raw_length}`,
    )
  }
}
