// The landing: what the service sent, kept on disk so that anything can be parsed again without a call.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { createGunzip } from 'node:zlib'
import { EtlError, messageOf } from '../core/errors.ts'
import type { Payload, Unit } from '../core/types.ts'
import { diskError } from './disk-error.ts'
import { dataFile, landingLocator, type Manifest, type ManifestPart, manifestFile, parseManifest } from './landing-files.ts'
import { createLandingWriter, type LandingOwner, type LandingWriter } from './landing-writer.ts'

export type { Manifest } from './landing-files.ts'

export interface Landing {
  readonly manifest: Manifest
  /** Every part in order; reading one to its end checks its length and SHA-256 (LANDING_CORRUPT). */
  parts(): AsyncIterable<Payload>
}

export interface LandingStore {
  locator(unit: Unit, edition: number, fence: string): string
  create(locator: string, owner: LandingOwner): Promise<LandingWriter>
  /** Throws LANDING_MISSING where it is not whole, LANDING_CORRUPT where the manifest cannot be read. */
  open(locator: string): Promise<Landing>
  remove(locator: string): Promise<void>
  /** Every whole landing landed before `olderThanMs` (since the epoch), by locator. */
  older(olderThanMs: number): AsyncIterable<string>
}

export const openLandingStore = async (home: string): Promise<LandingStore> => {
  const root = join(home, 'landing')
  try {
    await mkdir(root, { recursive: true })
  } catch (error) {
    throw diskError(error, root)
  }
  const folderOf = (locator: string): string => {
    const folder = resolve(root, locator)
    if (!folder.startsWith(root + sep)) throw new EtlError('INTERNAL', `Landing '${locator}' lies outside ${root}.`)
    return folder
  }
  return {
    locator: landingLocator,
    create: async (locator, owner) => {
      const folder = folderOf(locator)
      // A process that died left it there; its fence is ours, so nobody else writes it.
      await rm(folder, { recursive: true, force: true })
      return createLandingWriter(folder, owner)
    },
    open: (locator) => openLanding(folderOf(locator)),
    remove: (locator) => rm(folderOf(locator), { recursive: true, force: true }),
    older: (olderThanMs) => olderLandings(root, olderThanMs),
  }
}

/** Pipeline, window, slice, edition: a landing lies four folders deep. */
const depth = 4

async function* olderLandings(root: string, olderThanMs: number, path = '', level = 0): AsyncGenerator<string> {
  const folder = join(root, path)
  if (level === depth) {
    if ((await stat(folder)).mtimeMs < olderThanMs) yield path
    return
  }
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) yield* olderLandings(root, olderThanMs, join(path, entry.name), level + 1)
  }
}

const openLanding = async (folder: string): Promise<Landing> => {
  const manifest = await readManifest(folder)
  return {
    manifest,
    parts: async function* () {
      for (const part of manifest.parts) yield { part: part.part, format: part.format, body: readPart(folder, part) }
    },
  }
}

const readManifest = async (folder: string): Promise<Manifest> => {
  const file = join(folder, manifestFile)
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (cause) {
    throw new EtlError(
      'LANDING_MISSING',
      `${file} is not there (${messageOf(cause)}). Restore it, or load the unit again with \`millrace backfill … --force\` (reports are bought again).`,
      { cause },
    )
  }
  try {
    return parseManifest(text)
  } catch (cause) {
    throw corrupt(file, messageOf(cause))
  }
}

const corrupt = (file: string, found: string): EtlError =>
  new EtlError(
    'LANDING_CORRUPT',
    `${file} is damaged: ${found}. Restore it from a backup, or load the unit again with \`millrace backfill … --force\`.`,
  )

async function* readPart(folder: string, part: ManifestPart): AsyncGenerator<Uint8Array> {
  const file = join(folder, dataFile)
  const hash = createHash('sha256')
  let length = 0
  const stream = createReadStream(file, { start: part.offset, end: part.offset + Math.max(0, part.length - 1) })
  const gunzip = createGunzip({ chunkSize: 128 * 1024 })
  stream.once('error', (error) => gunzip.destroy(error))
  try {
    for await (const chunk of stream.pipe(gunzip)) {
      hash.update(chunk)
      length += chunk.length
      yield chunk
    }
  } catch (error) {
    throw corrupt(file, messageOf(error))
  } finally {
    stream.destroy()
    gunzip.destroy()
  }
  if (length !== part.raw_length || hash.digest('hex') !== part.sha256) {
    throw corrupt(file, `part ${part.part} has ${length} bytes and another checksum, the manifest says ${part.raw_length}`)
  }
}
