// Landings in a folder, on this machine's disk or on a path that machines share.
import { closeSync, createReadStream, fsync, open, openSync, write } from 'node:fs'
import { mkdir, readFile, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { promisify } from 'node:util'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { dataFile, landingDepth, landingLocator, manifestFile } from './landing-files.ts'
import { readLanding } from './landing-reader.ts'
import type { LandingStore } from './landing-store.ts'
import { type LandingSink, createLandingWriter } from './landing-writer.ts'

/** @param root absolute; made where it is missing. */
export const openLandingFolder = (root: string): LandingStore => {
  const folderOf = (locator: string): string => {
    const folder = resolve(root, locator)
    if (!folder.startsWith(root + sep)) throw new EtlError('INTERNAL', `Landing '${locator}' lies outside ${root}.`)
    return folder
  }
  return {
    place: root,
    ready: async () => {
      try {
        await mkdir(root, { recursive: true })
      } catch (error) {
        throw diskError(error, root)
      }
    },
    create: async (name) => createLandingWriter(await openFolderSink(folderOf(landingLocator(name))), name),
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

/** Of descriptors: closing one that is synced, or opening a folder just made, takes less than handing it to another thread. */
const file = { open: promisify(open), write: promisify(write), sync: promisify(fsync) }

const openFolderSink = async (folder: string): Promise<LandingSink> => {
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
    commit: (manifest, durable) => inOwnWords(folder, () => commitManifest(folder, manifest, durable)),
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
  if ((await mkdir(folder, { recursive: true })) === undefined) {
    // An earlier try of this very claim left it there; ask number and fence are ours, so nobody else writes it.
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { recursive: true })
  }
  return file.open(join(folder, dataFile), 'wx', 0o600)
}

const writeAll = async (descriptor: number, bytes: Uint8Array): Promise<void> => {
  for (let at = 0; at < bytes.length; ) at += (await file.write(descriptor, bytes, at, bytes.length - at)).bytesWritten
}

/** The manifest's presence means that the landing is whole: it gets its name when both files are on the disk. */
const commitManifest = async (folder: string, manifest: string, durable: Promise<void>): Promise<void> => {
  const temporary = join(folder, `${manifestFile}.tmp`)
  const [data, written] = await Promise.allSettled([durable, writeDurable(temporary, manifest)])
  for (const one of [data, written]) if (one.status === 'rejected') throw one.reason
  await rename(temporary, join(folder, manifestFile))
  await Promise.all([folder, dirname(folder)].map(syncFolder))
}

const writeDurable = async (path: string, text: string): Promise<void> => {
  const descriptor = await file.open(path, 'w', 0o600)
  try {
    await writeAll(descriptor, Buffer.from(text))
    await file.sync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

const syncFolder = async (path: string): Promise<void> => {
  const descriptor = openSync(path, 'r')
  try {
    await file.sync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

const advice: Readonly<Record<string, string>> = {
  ENOSPC: 'The disk is full: free space, then run the same command again.',
  EDQUOT: 'The disk quota is used up: free space, then run the same command again.',
  EACCES: 'No permission: give the user who runs Millrace the right to write there, or set MILLRACE_HOME.',
  EPERM: 'No permission: give the user who runs Millrace the right to write there, or set MILLRACE_HOME.',
  EROFS: 'The file system is read-only: set MILLRACE_HOME to one that is not.',
  ENOTDIR: 'A file stands where a folder must be: remove it, or set MILLRACE_HOME to a folder.',
  EEXIST: 'A file stands where a folder must be: remove it, or set MILLRACE_HOME to a folder.',
  EIO: 'The disk does not answer as it should: see whether it is well, and a shared path mounted.',
  ESTALE: 'The shared path went away: mount it again, then run the same command again.',
  EMFILE: 'Too many open files: lower limits.concurrency or raise the limit of the system.',
}

/** @param place what was being written. Anything that is no refusal of the disk comes back as it is. */
const diskError = (error: unknown, place: string): unknown => {
  if (isEtlError(error) || typeof error !== 'object' || error === null || !('code' in error)) return error
  const text = advice[String(error.code)]
  return text === undefined ? error : new EtlError('DISK', `${place}: ${messageOf(error)}. ${text}`, { cause: error })
}
