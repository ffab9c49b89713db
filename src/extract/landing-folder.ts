// Landings in a folder, on this machine's disk or on a shared path. Receipts and claims beside them are files of their own, which get a name once they are
// whole and are never overwritten. All survive a power cut: a name is durable once its folder was synced, and so on up to the folder that was there before.
import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, link, open, readdir, readFile, rename, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { codeOf, diskError, makeFolders } from '../core/disk-error.ts'
import { EtlError } from '../core/errors.ts'
import { dataFile, landingDepth, landingLocator, manifestFile, notesFolder } from './landing-files.ts'
import { missingLanding, readLanding } from './landing-reader.ts'
import type { LandingNotes, LandingStore, Note } from './landing-store.ts'
import { createLandingWriter, type LandingSink } from './landing-writer.ts'

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
    ready: () => inOwnWords(root, () => tree.ready()),
    room: () => checkRoom(root),
    create: async (name) => createLandingWriter(await openFolderSink(tree, folderOf(landingLocator(name))), name),
    open: (locator) => openLanding(folderOf(locator)),
    remove: (locator) => rm(folderOf(locator), { recursive: true, force: true }),
    older: (olderThanMs) => olderLandings(root, olderThanMs),
    below: (folder) => olderLandings(root, Number.POSITIVE_INFINITY, folder, folder.split('/').length),
    notes: folderNotes(root, tree),
    // The files of a dead writer lie in a folder like any other landing.
    dropUnfinished: async () => undefined,
  }
}

/** Bytes that must be free for in-flight pages and their records: a page that finds no room is bought again. On a small disk a quarter of it. */
const leastFree = 4 * 1024 * 1024

const checkRoom = async (root: string): Promise<void> => {
  const disk = await unlessGone(statfs(root))
  // Some file systems do not tell.
  if (disk === null || disk.bavail * disk.bsize >= Math.min(leastFree, (disk.blocks * disk.bsize) / 4)) return
  throw diskError(Object.assign(new Error('ENOSPC: too little space left for another page'), { code: 'ENOSPC' }), root)
}

const openLanding = async (folder: string) => {
  const [manifest, data] = [join(folder, manifestFile), join(folder, dataFile)]
  const landing = await readLanding({
    manifestPlace: manifest,
    dataPlace: data,
    readManifest: () => inOwnWords(manifest, () => unlessGone(readFile(manifest, 'utf8'))),
    readData: (length) => createReadStream(data, { end: length - 1 }),
  })
  if ((await inOwnWords(data, () => unlessGone(stat(data)))) === null) throw missingLanding(data)
  return landing
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

/** On a shared path another machine may remove a file while it is read. */
const unlessGone = <T>(looking: Promise<T>): Promise<T | null> => unlessCode(looking, gone)

const openFolderSink = async (tree: FolderTree, folder: string): Promise<LandingSink> => {
  const data = await inOwnWords(folder, () => openData(folder))
  return {
    write: (bytes) => inOwnWords(folder, () => data.appendFile(bytes)),
    close: () =>
      inOwnWords(folder, async () => {
        try {
          await data.sync()
        } finally {
          await data.close()
        }
      }),
    commit: (manifest, durable) => inOwnWords(folder, () => commitManifest(tree, folder, manifest, durable)),
    save: (manifest) => inOwnWords(folder, () => commitManifest(tree, folder, manifest, data.datasync())),
    abort: async () => {
      await data.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const inOwnWords = async <T>(folder: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    throw diskError(error, folder)
  }
}

const openData = async (folder: string): Promise<FileHandle> => {
  if ((await makeFolders(folder, 0o700)) === undefined) {
    // An earlier try of this very claim left it there; ask number and fence are ours, so no other process writes it.
    await rm(folder, { recursive: true, force: true })
    await makeFolders(folder, 0o700)
  }
  return open(join(folder, dataFile), 'wx', 0o600)
}

/** The manifest's presence means that the landing is whole: it gets its name when both files are on the disk. */
const commitManifest = async (tree: FolderTree, folder: string, manifest: string, durable: Promise<void>): Promise<void> => {
  const temporary = join(folder, `${manifestFile}.tmp`)
  const [data, written] = await Promise.allSettled([durable, writeDurable(temporary, manifest, 'w')])
  for (const one of [data, written]) if (one.status === 'rejected') throw one.reason
  await rename(temporary, join(folder, manifestFile))
  await tree.settle(folder)
}

/** @param root absolute */
const folderNotes = (root: string, tree: FolderTree): LandingNotes => ({
  write: (path, text) => inOwnWords(join(root, path), () => writeNew(tree, join(root, path), text)),
  read: (path) => inOwnWords(join(root, path), () => unlessGone(readFile(join(root, path), 'utf8'))),
  remove: (path) => inOwnWords(join(root, path), () => rm(join(root, path), { force: true })),
  list: (folder, after = '') => listNotes(root, folder, after),
})

const gone = ['ENOENT', 'ENOTDIR']
/** A shared file system may have no hard links. */
const noLinks = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV']

const unlessCode = <T>(work: Promise<T>, codes: readonly string[]): Promise<T | null> =>
  work.catch((error: unknown) => {
    if (codes.includes(codeOf(error))) return null
    throw error
  })

const writeNew = async (tree: FolderTree, path: string, text: string): Promise<boolean> => {
  await makeFolders(dirname(path), 0o700)
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(4).toString('hex')}`)
  try {
    await writeDurable(temporary, text, 'wx')
    if (!(await named(temporary, path, text))) return false
  } finally {
    await rm(temporary, { force: true })
  }
  await tree.settle(dirname(path))
  return true
}

/** False where there is one of that name. */
const named = async (temporary: string, path: string, text: string): Promise<boolean> => {
  try {
    await link(temporary, path)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    if (!noLinks.includes(codeOf(error))) throw error
    return (
      (await unlessCode(
        writeDurable(path, text, 'wx').then(() => true),
        ['EEXIST'],
      )) ?? false
    )
  }
}

async function* listNotes(root: string, folder: string, after: string): AsyncGenerator<Note> {
  const entries = (await unlessCode(readdir(join(root, folder), { withFileTypes: true }), gone)) ?? []
  const ordered = entries
    .filter(({ name }) => !name.startsWith('.'))
    .map((entry) => ({ path: `${folder}/${entry.name}`, isFolder: entry.isDirectory() }))
    .sort((left, right) => (sortKey(left) < sortKey(right) ? -1 : 1))
  for (const { path, isFolder } of ordered) {
    // A note that another sweep has removed meanwhile counts as old.
    const writtenMs = async (): Promise<number> => (await unlessGone(stat(join(root, path))))?.mtimeMs ?? 0
    if (!isFolder && path > after) yield { path, writtenMs }
    // A folder whose notes all come before `after` is skipped.
    if (isFolder && (`${path}/` > after || after.startsWith(`${path}/`))) yield* listNotes(root, path, after)
  }
}

const sortKey = ({ path, isFolder }: { readonly path: string; readonly isFolder: boolean }): string =>
  isFolder ? `${path}/` : path

/** @param flag `wx`: throws EEXIST where there is one. */
const writeDurable = (path: string, text: string, flag: 'w' | 'wx'): Promise<void> =>
  writeFile(path, text, { flag, mode: 0o600, flush: true })

/** Makes the names in the folder durable: syncing a file does so for its bytes alone. */
const syncFolder = async (path: string): Promise<void> => {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

type FolderTree = ReturnType<typeof folderTree>

/** Folders whose names outlive a power cut. @param root absolute */
const folderTree = (root: string) => {
  /** Folders whose name in the one above was synced since this process saw them. */
  const settled = new Set<string>()
  const settleName = async (folder: string, above: string): Promise<void> => {
    if (settled.has(folder)) return
    await syncFolder(above)
    settled.add(folder)
  }
  return {
    /** Makes the root where it is missing, with all above it. */
    ready: async (): Promise<void> => {
      const first = await makeFolders(root, 0o700)
      if (first === undefined) return
      for (let folder = root; folder.length >= first.length; folder = dirname(folder)) await syncFolder(dirname(folder))
    },
    /**
     * Syncs a folder below the root and all above it up to the root, so that the path to its files is durable. The two above it always:
     * another process may have made them a moment ago. Those further up once for each name in them.
     */
    settle: async (folder: string): Promise<void> => {
      const path = [...ancestors(root, folder)]
      await Promise.all(
        path.map((at, place) => {
          const below = path[place - 1]
          return place < 3 || below === undefined ? syncFolder(at) : settleName(below, at)
        }),
      )
    },
  }
}

/** The folder itself first, the root last. */
function* ancestors(root: string, folder: string): Generator<string> {
  for (let at = folder; at === root || at.startsWith(root + sep); at = dirname(at)) {
    yield at
    if (at === root) return
  }
}
