// Landings in a folder, on this machine's disk or on a path that machines share.
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { EtlError } from '../core/errors.ts'
import { diskError } from './disk-error.ts'
import { dataFile, landingDepth, landingLocator, manifestFile } from './landing-files.ts'
import { readLanding } from './landing-reader.ts'
import type { LandingStore } from './landing-store.ts'
import { createLandingWriter, type LandingSink } from './landing-writer.ts'

/** @param root absolute; made where it is missing. */
export const openLandingFolder = (root: string): LandingStore => {
  const folderOf = (locator: string): string => {
    const folder = resolve(root, locator)
    if (!folder.startsWith(root + sep)) throw new EtlError('INTERNAL', `Landing '${locator}' lies outside ${root}.`)
    return folder
  }
  return {
    place: root,
    locator: landingLocator,
    ready: async () => {
      try {
        await mkdir(root, { recursive: true })
      } catch (error) {
        throw diskError(error, root)
      }
    },
    create: async (locator, owner) => {
      return createLandingWriter(await openFolderSink(folderOf(locator)), owner)
    },
    open: (locator) => openLanding(folderOf(locator)),
    remove: (locator) => rm(folderOf(locator), { recursive: true, force: true }),
    older: (olderThanMs) => olderLandings(root, olderThanMs),
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
    if (entry.isDirectory()) yield* olderLandings(root, olderThanMs, join(path, entry.name), level + 1)
  }
}

/** Another machine may remove on a shared path what is being looked at. */
const unlessGone = <T>(looking: Promise<T>): Promise<T | null> =>
  looking.catch((error: unknown) => {
    if (isGone(error)) return null
    throw error
  })

const isGone = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')

const openFolderSink = async (folder: string): Promise<LandingSink> => {
  const file = await openFile(folder)
  const inOwnWords = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work()
    } catch (error) {
      throw diskError(error, folder)
    }
  }
  return {
    write: (bytes) =>
      inOwnWords(async () => {
        for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten
      }),
    close: () =>
      inOwnWords(async () => {
        await file.sync()
        await file.close()
      }),
    commit: (manifest) => inOwnWords(() => writeManifest(folder, manifest)),
    abort: async () => {
      await file.close().catch(() => undefined)
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const openFile = async (folder: string): Promise<FileHandle> => {
  try {
    if ((await mkdir(folder, { recursive: true })) === undefined) {
      // An earlier walk, or a process that died, left it there; its fence is ours, so nobody else writes it.
      await rm(folder, { recursive: true, force: true })
      await mkdir(folder, { recursive: true })
    }
    return await open(join(folder, dataFile), 'wx', 0o600)
  } catch (error) {
    throw diskError(error, folder)
  }
}

/** The manifest comes last: its presence means that the landing is whole. */
const writeManifest = async (folder: string, manifest: string): Promise<void> => {
  const temporary = join(folder, `${manifestFile}.tmp`)
  const file = await open(temporary, 'w', 0o600)
  await file.writeFile(manifest)
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
