// Reads a landing back: the manifest decides whether it is whole, lengths and checksums whether it is what was written.
import { createHash } from 'node:crypto'
import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { createSerialQueue } from '../core/clock.ts'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import { type Manifest, type ManifestPart, parseManifest } from './landing-files.ts'

/** Where one landing lies. */
interface LandingShelf {
  /** Of the manifest and of the data, as a person would look for them. */
  readonly manifestPlace: string
  readonly dataPlace: string
  /** Null where there is none. */
  readManifest(): Promise<string | null>
  /** @param length bytes from the first, as the manifest says; a writer that was killed may have left more */
  readData(length: number): Readable
  /** Ends the reading with its reason. */
  readonly signal?: AbortSignal | undefined
}

const remedy = 'or load the unit again with `millrace backfill … --force`'

export type Landing = Awaited<ReturnType<typeof readLanding>>

/** An answer that is whole. Throws LANDING_MISSING or LANDING_CORRUPT. */
export const readLanding = async (shelf: LandingShelf) => {
  const manifest = await readManifest(shelf)
  // Every part in order; reading one to its end checks its length and SHA-256 (LANDING_CORRUPT).
  return { manifest, parts: () => readParts(shelf, manifest) }
}

/** Reads all parts from one stream: one request to a bucket, not one a page. Parts are read in order, and what is left of one is skipped. */
async function* readParts(shelf: LandingShelf, { parts }: Manifest): AsyncGenerator<Payload> {
  const last = parts.at(-1)
  if (last === undefined) return
  const data = createGunzip({ chunkSize: 128 * 1024 })
  // What fails is thrown to the reader of the part.
  pipeline(shelf.readData(last.offset + last.length), data, () => undefined)
  const take = takerOf(data)
  const of = parts.flatMap(({ file }) => file ?? [])
  let from = 0
  try {
    for (const part of parts) {
      const file = part.file === undefined ? {} : { file: { name: part.file, of } }
      yield { part: part.part, format: part.format, ...file, body: readPart(shelf, take, part, from) }
      from += part.raw_length
    }
  } finally {
    data.destroy()
  }
}

/** Takes bytes before `end`; none: there are no more before it. */
type Take = (end: number) => Promise<Uint8Array>

const takerOf = (stream: Readable): Take => {
  const chunks: AsyncIterator<Uint8Array> = stream[Symbol.asyncIterator]()
  let inHand: Uint8Array = new Uint8Array()
  let position = 0
  // A reader that was left in the middle may still be taking when the next one begins.
  const inTurn = createSerialQueue()
  return (end) =>
    inTurn(async () => {
      if (inHand.length === 0 && position < end) inHand = (await chunks.next()).value ?? inHand
      const taken = inHand.subarray(0, Math.max(0, end - position))
      inHand = inHand.subarray(taken.length)
      position += taken.length
      return taken
    })
}

async function* takeUntil(end: number, take: Take): AsyncGenerator<Uint8Array> {
  for (let bytes = await take(end); bytes.length > 0; bytes = await take(end)) yield bytes
}

const readManifest = async (shelf: LandingShelf): Promise<Manifest> => {
  const text = await shelf.readManifest()
  if (text === null) throw missingLanding(shelf.manifestPlace)
  try {
    return parseManifest(text)
  } catch (cause) {
    throw corruptLanding(shelf.manifestPlace, messageOf(cause))
  }
}

export const missingLanding = (place: string): EtlError =>
  new EtlError('LANDING_MISSING', `${place} is not there. Restore it, ${remedy} (reports are bought again).`)

/** Gone or damaged; a landing that a bucket does not give now is still there. */
export const isLost = (error: unknown): boolean =>
  isEtlError(error) && (error.code === 'LANDING_MISSING' || error.code === 'LANDING_CORRUPT')

export const unlessLost = (error: unknown): null => {
  if (isLost(error)) return null
  throw error
}

/** @param found what is wrong, in a few words */
const corruptLanding = (place: string, found: string): EtlError =>
  new EtlError('LANDING_CORRUPT', `${place} is damaged: ${found}. Restore it from a backup, ${remedy}.`)

async function* readPart(shelf: LandingShelf, take: Take, part: ManifestPart, from: number): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let length = 0
  try {
    for await (const _ of takeUntil(from, take)) {
      // Left by the reader of the part before.
    }
    for await (const chunk of takeUntil(from + part.raw_length, take)) {
      hash.update(chunk)
      length += chunk.length
      yield chunk
    }
  } catch (error) {
    shelf.signal?.throwIfAborted()
    if (isEtlError(error)) throw error
    throw corruptLanding(shelf.dataPlace, messageOf(error))
  }
  if (length !== part.raw_length || hash.digest('hex') !== part.sha256) {
    throw corruptLanding(
      shelf.dataPlace,
      `part ${part.part} has ${length} bytes and another checksum, the manifest says ${part.raw_length}`,
    )
  }
}
