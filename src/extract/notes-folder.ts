// Receipts and claims in a folder: each a file of its own, whole before it has its name, and never overwritten.
import { randomBytes } from 'node:crypto'
import { link, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { diskError } from '../core/disk-error.ts'
import { type FolderTree, writeDurable } from './durable-files.ts'
import type { LandingNotes, Note } from './landing-store.ts'

/** @param root absolute */
export const folderNotes = (root: string, tree: FolderTree): LandingNotes => ({
  write: (path, text) => inOwnWords(join(root, path), () => writeNew(tree, join(root, path), text)),
  read: (path) => inOwnWords(join(root, path), () => unlessCode(readFile(join(root, path), 'utf8'), gone)),
  remove: (path) => inOwnWords(join(root, path), () => rm(join(root, path), { force: true })),
  list: (folder, after = '') => listNotes(root, folder, after),
})

const inOwnWords = async <T>(place: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    throw diskError(error, place)
  }
}

const gone = ['ENOENT', 'ENOTDIR']
/** A shared file system may know no second name for a file. */
const noLinks = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EXDEV']

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

const unlessCode = <T>(work: Promise<T>, codes: readonly string[]): Promise<T | null> =>
  work.catch((error: unknown) => {
    if (codes.includes(codeOf(error))) return null
    throw error
  })

const writeNew = async (tree: FolderTree, path: string, text: string): Promise<boolean> => {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
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
    if (!isFolder && path > after) yield { path, writtenMs: async () => (await stat(join(root, path))).mtimeMs }
    // All below it come before `after` unless it leads there.
    if (isFolder && (`${path}/` > after || after.startsWith(`${path}/`))) yield* listNotes(root, path, after)
  }
}

const sortKey = ({ path, isFolder }: { readonly path: string; readonly isFolder: boolean }): string =>
  isFolder ? `${path}/` : path
