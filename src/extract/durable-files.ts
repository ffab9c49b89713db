// Files and folders that stand after a power cut: a name is durable once its folder was synced, and so up to the folder that was there before.
import { closeSync, fsync, open, openSync, write } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import { promisify } from 'node:util'

/** Of descriptors: closing one that is synced, or opening a folder just made, takes less than handing it to another thread. */
export const file = { open: promisify(open), write: promisify(write), sync: promisify(fsync) }

/** A write may take less than it is given. */
export const writeAll = async (descriptor: number, bytes: Uint8Array): Promise<void> => {
  for (let at = 0; at < bytes.length; ) at += (await file.write(descriptor, bytes, at, bytes.length - at)).bytesWritten
}

/** @param flags `wx`: throws EEXIST where there is one. */
export const writeDurable = async (path: string, text: string, flags: 'w' | 'wx'): Promise<void> => {
  const descriptor = await file.open(path, flags, 0o600)
  try {
    await writeAll(descriptor, Buffer.from(text))
    await file.sync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Makes the names in the folder durable: syncing a file does so for its bytes alone. */
export const syncFolder = async (path: string): Promise<void> => {
  const descriptor = openSync(path, 'r')
  try {
    await file.sync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Folders whose names outlive a power cut. */
export interface FolderTree {
  /** Makes the root where it is missing, with all above it. */
  ready(): Promise<void>
  /**
   * Syncs a folder below the root, and those above it up to the root, so that what was made in it has a way to it. The two above it always:
   * another process may have made them a moment ago. Those further up once for each name in them.
   */
  settle(folder: string): Promise<void>
}

/** @param root absolute */
export const folderTree = (root: string): FolderTree => {
  /** Folders whose name in the one above was synced since this process saw them. */
  const settled = new Set<string>()
  const settleName = async (folder: string, above: string): Promise<void> => {
    if (settled.has(folder)) return
    await syncFolder(above)
    settled.add(folder)
  }
  return {
    ready: async () => {
      const first = await mkdir(root, { recursive: true, mode: 0o700 })
      if (first === undefined) return
      for (let folder = root; folder.length >= first.length; folder = dirname(folder)) await syncFolder(dirname(folder))
    },
    settle: async (folder) => {
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
