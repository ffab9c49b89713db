// A place for landings without a disk, written and read by the real writer and reader.
import { Readable } from 'node:stream'
import { landingLocator } from '../../src/extract/landing-files.ts'
import { readLanding } from '../../src/extract/landing-reader.ts'
import type { LandingNotes, LandingStore } from '../../src/extract/landing-store.ts'
import { createLandingWriter } from '../../src/extract/landing-writer.ts'

export interface MemoryLanding extends LandingStore {
  /** Locators in the order they were begun. */
  readonly begun: string[]
  /** What lies there now, whole or not, by locator. */
  readonly there: Map<string, { data: Buffer; manifest: string | null }>
  /** Bytes of each part of a whole landing, as they came. */
  read(locator: string): Promise<Buffer[]>
}

export const memoryNotes = (): LandingNotes => {
  const texts = new Map<string, string>()
  return {
    write: async (path, text) => {
      if (texts.has(path)) return false
      texts.set(path, text)
      return true
    },
    read: async (path) => texts.get(path) ?? null,
    remove: async (path) => void texts.delete(path),
    list: async function* (folder, after = '') {
      for (const path of [...texts.keys()].sort())
        if (path.startsWith(`${folder}/`) && path > after) yield { path, writtenMs: async () => 0 }
    },
  }
}

export const memoryLanding = (): MemoryLanding => {
  const there: MemoryLanding['there'] = new Map()
  const begun: string[] = []
  const store: MemoryLanding = {
    place: 'memory',
    begun,
    there,
    ready: async () => undefined,
    room: async () => undefined,
    create: async (name) => {
      const locator = landingLocator(name)
      const landing: { data: Buffer; manifest: string | null } = { data: Buffer.alloc(0), manifest: null }
      begun.push(locator)
      there.set(locator, landing)
      const sink = {
        write: async (bytes: Uint8Array) => {
          landing.data = Buffer.concat([landing.data, bytes])
        },
        close: async () => undefined,
        commit: async (manifest: string, durable: Promise<void>) => {
          await durable
          landing.manifest = manifest
        },
        save: async (manifest: string) => {
          landing.manifest = manifest
        },
        abort: async () => void there.delete(locator),
      }
      return createLandingWriter(sink, name)
    },
    open: (locator) =>
      readLanding({
        manifestPlace: `${locator}/manifest`,
        dataPlace: `${locator}/data`,
        readManifest: async () => there.get(locator)?.manifest ?? null,
        readData: () => Readable.from([there.get(locator)?.data]),
      }),
    read: async (locator) => {
      const bodies: Buffer[] = []
      for await (const { body } of (await store.open(locator)).parts()) bodies.push(Buffer.concat(await Array.fromAsync(body)))
      return bodies
    },
    remove: async (locator) => void there.delete(locator),
    older: async function* () {},
    below: async function* (folder) {
      for (const locator of there.keys()) if (locator.startsWith(`${folder}/`)) yield locator
    },
    notes: memoryNotes(),
    dropUnfinished: async () => undefined,
  }
  return store
}
