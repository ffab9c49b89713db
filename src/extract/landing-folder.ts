// Landings in a folder, on this machine's disk or on a path that machines share.
import { closeSync, createReadStream } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { diskError } from '../core/disk-error.ts'
import { EtlError, isEtlError } from '../core/errors.ts'
import { type FolderTree, file, folderTree, writeAll, writeDurable } from './durable-files.ts'
import { dataFile, landingDepth, landingLocator, manifestFile, notesFolder } from './landing-files.ts'
import { readLanding } from './landing-reader.ts'
import type { LandingStore } from './landing-store.ts'
import { createLandingWriter, type LandingSink } from './landing-writer.ts'
import { folderNotes } from './notes-folder.ts'

/** @param root absolute; made where it is missing. */
export const openLandingFolder = (root: string): LandingStore => {
  const tree = folderTree(root)
  const folderOf = (locator: string): string => {
    const folder = resolve(root, locator)
    if (!folder.startsWith(root + sep)) throw new EtlError('INTERNAL', `Landing '${locator}' lies outside ${root}.`)
    return folder
  }
  return {
    place: root,
    ready: async () => {
      try {
        await tree.ready()
      } catch (error) {
        throw diskError(error, root)
      }
    },
    create: async (name) => createLandingWriter(await openFolderSink(tree, folderOf(landingLocator(name))), name),
    open: (locator) => openLanding(folderOf(locator)),
    remove: (locator) => rm(folderOf(locator), { recursive: true, force: true }),
    older: (olderThanMs) => olderLandings(root, olderThanMs),
    below: (folder) => olderLandings(root, Number.POSITIVE_INFINITY, folder, folder.split('/').length),
    notes: folderNotes(root, tree),
    // What a writer that died left behind lies in a folder like any other.
    dropUnfinished: async () => undefined,
  }
}

const openLanding = (folder: string) => {
  const [manifest, data] = [join(folder, manifestFile), join(folder, dataFile)]
  return readLanding({
    manifestPlace: manifest,
    dataPlace: data,
    readManifest: async () => {
      try {
        return await readFile(manifest, 'utf8')
      } catch (error) {
        if (isGone(error)) return null
        throw diskError(error, manifest)
      }
    },
    readBytes: (offset, length) => createReadStream(data, { start: offset, end: offset + Math.max(0, length - 1) }),
  })
}

async function* olderLandings(root: string, olderThanMs: number, path = '', level = 0): AsyncGenerator<string> {
  const folder = join(root, path)
  if (level === landingDepth) {
    const written = (await unlessGone(stat(folder)))?.mtimeMs
    if (written !== undefined && written < olderThanMs) yield path
    return
  }
  for (const entry of (await unlessGone(readdir(folder, { withFileTypes: true }))) ?? []) {
    if (entry.isDirectory() && (level > 0 || entry.name !== notesFolder))
      yield* olderLandings(root, olderThanMs, join(path, entry.name), level + 1)
  }
}

/** Another machine may remove on a shared path what is being read. */
const unlessGone = <T>(looking: Promise<T>): Promise<T | null> =>
  looking.catch((error: unknown) => {
    if (isGone(error)) return null
    throw error
  })

const isGone = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')

const openFolderSink = async (tree: FolderTree, folder: string): Promise<LandingSink> => {
  const data = await inOwnWords(folder, () => openData(folder))
  let isOpen = true
  const closeData = (): void => {
    if (isOpen) closeSync(data)
    isOpen = false
  }
  return {
    write: (bytes) => inOwnWords(folder, () => writeAll(data, bytes)),
    close: () =>
      inOwnWords(folder, async () => {
        await file.sync(data)
        closeData()
      }),
    commit: (manifest, durable) => inOwnWords(folder, () => commitManifest(tree, folder, manifest, durable)),
    abort: async () => {
      closeData()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const inOwnWords = async <T>(folder: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    throw isEtlError(error) ? error : diskError(error, folder)
  }
}

const openData = async (folder: string): Promise<number> => {
  if ((await mkdir(folder, { recursive: true, mode: 0o700 })) === undefined) {
    // An earlier try of this very claim left it there; ask number and fence are ours, so nobody else writes it.
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { recursive: true, mode: 0o700 })
  }
  return file.open(join(folder, dataFile), 'wx', 0o600)
}

/** The manifest's presence means that the landing is whole: it gets its name when both files are on the disk. */
const commitManifest = async (tree: FolderTree, folder: string, manifest: string, durable: Promise<void>): Promise<void> => {
  const temporary = join(folder, `${manifestFile}.tmp`)
  const [data, written] = await Promise.allSettled([durable, writeDurable(temporary, manifest, 'w')])
  for (const one of [data, written]) if (one.status === 'rejected') throw one.reason
  await rename(temporary, join(folder, manifestFile))
  await tree.settle(folder)
}
