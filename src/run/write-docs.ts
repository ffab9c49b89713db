// The generated documents of a repository: data dictionary, dbt sources and what others make of the same files, written or compared.
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { loadMarts } from '../definition/marts.ts'
import { dataDictionary } from '../publish/dictionary.ts'
import { martFolders } from './known-marts.ts'
import { openDefinitions } from './open-runtime.ts'

export interface DocsRequest {
  readonly pipelinesFolder: string
  /** Folder the documents go to. */
  readonly out: string
  /** Compares only. */
  readonly check: boolean
  /** What else is made of the definitions, by path from `out`. */
  readonly more: (definitions: readonly Definition[], marts: readonly Mart[]) => Promise<ReadonlyMap<string, string>>
  /** A file that is there without this text is somebody's own and stays as it is. */
  readonly mark: string
}

export interface DocsResult {
  readonly files: readonly string[]
  /** Files that differed from what the definitions say. */
  readonly stale: readonly string[]
  /** Generated files of what is gone: removed, or stale where nothing is written. */
  readonly removed: readonly string[]
  /** Files that are somebody's own, hence left alone. */
  readonly kept: readonly string[]
}

/** Needs no database and no service. */
export const writeDocs = async ({ pipelinesFolder, out, check, more, mark }: DocsRequest): Promise<DocsResult> => {
  const { definitions } = await openDefinitions(pipelinesFolder, [])
  const marts = await loadMarts(martFolders(pipelinesFolder))
  const documents = new Map([
    [join(out, 'data-dictionary.md'), dataDictionary(definitions, marts)],
    ...[...(await more(definitions, marts))].map(([path, text]): [string, string] => [join(out, path), text]),
  ])
  const left = await leftOver(out, documents)
  if (!check) for (const file of left) await rm(file)
  const stale: string[] = [...left]
  const kept: string[] = []
  for (const [file, text] of documents) {
    const old = existsSync(file) ? await readFile(file, 'utf8') : null
    if (old === text) continue
    if (old !== null && text.includes(mark) && !old.includes(mark)) {
      kept.push(file)
      continue
    }
    stale.push(file)
    if (check) continue
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text)
  }
  return { files: [...documents.keys(), ...left], stale, removed: left, kept }
}

/** Generated files of what is gone: in the folders that are made as a whole, and marked as made. */
const leftOver = async (out: string, documents: ReadonlyMap<string, string>): Promise<string[]> => {
  const left: string[] = []
  for (const folder of ['dbt', 'lightdash', 'superset-bundle']) {
    if (!existsSync(join(out, folder))) continue
    for (const entry of await readdir(join(out, folder), { recursive: true, withFileTypes: true })) {
      const file = join(entry.parentPath, entry.name)
      if (!entry.isFile() || documents.has(file)) continue
      const [first = ''] = (await readFile(file, 'utf8')).split('\n', 1)
      if (/^(?:#|--|\{#) Made by `?millrace docs`? from (?:semantic|pipelines)/.test(first)) left.push(file)
    }
  }
  return left.sort()
}
