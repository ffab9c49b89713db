// A landing read back: the manifest decides whether it is whole, lengths and checksums whether it is what was written.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { createTurns } from '../core/clock.ts'
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

/** Throws LANDING_MISSING or LANDING_CORRUPT. */
export const readLanding = async (shelf: LandingShelf): Promise<Landing> => {
  const manifest = await readManifest(shelf)
  return {
    manifest,
    parts: async function* () {
      const last = manifest.parts.at(-1)
      if (last === undefined) return
      const data = openData(shelf.readBytes(0, last.offset + last.length))
      try {
        const of = manifest.parts.flatMap(({ file }) => file ?? [])
        for (const part of manifest.parts) {
          const file = part.file === undefined ? {} : { file: { name: part.file, of } }
          yield { part: part.part, format: part.format, ...file, body: readPart(shelf, data, part) }
        }
      } finally {
        data.close()
      }
    },
  }
}

interface Data {
  /** The bytes of one part as they lie there; parts are read in their order, and what was left of one is passed over. */
  bytesOf(part: ManifestPart): AsyncGenerator<Uint8Array>
  close(): void
}

/** All parts over one stream: a bucket is asked once, not once a page. */
const openData = (stream: Readable): Data => {
  const chunks: AsyncIterator<Uint8Array> = stream[Symbol.asyncIterator]()
  let inHand: Uint8Array = new Uint8Array()
  let position = 0
  const takeNow = async (end: number): Promise<Uint8Array | null> => {
    while (inHand.length === 0 && position < end) {
      const next = await chunks.next()
      if (next.done === true) return null
      inHand = next.value
    }
    const taken = inHand.subarray(0, Math.max(0, end - position))
    inHand = inHand.subarray(taken.length)
    position += taken.length
    return taken
  }
  const inTurn = createTurns()
  /** Bytes before `end`, null where there are no more. A reader that was left in the middle may still be taking when the next one begins. */
  const take = (end: number): Promise<Uint8Array | null> => inTurn(() => takeNow(end))
  return {
    bytesOf: async function* ({ part, offset, length }) {
      if (position > offset) throw new EtlError('INTERNAL', `Part ${part} of a landing was asked for after a later one.`)
      for (const end of [offset, offset + length]) {
        while (position < end) {
          const bytes = await take(end)
          if (bytes === null) return
          if (end > offset) yield bytes
        }
      }
    },
    close: () => stream.destroy(),
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

/** @param found what is wrong, in a few words */
export const corruptLanding = (place: string, found: string): EtlError =>
  new EtlError('LANDING_CORRUPT', `${place} is damaged: ${found}. Restore it from a backup, ${remedy}.`)

async function* readPart(shelf: LandingShelf, data: Data, part: ManifestPart): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let length = 0
  const stream = Readable.from(data.bytesOf(part), { objectMode: false })
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
