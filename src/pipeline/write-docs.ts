// The generated documents of a repository: data dictionary, dbt sources and what others make of the same files, written or compared.
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Definition } from '../core/types.ts'
import { loadMarts } from '../definition/marts.ts'
import { dbtSources } from '../publish/dbt.ts'
import { dataDictionary } from '../publish/dictionary.ts'
import { martFolders, openDefinitions } from './open-runtime.ts'

export interface DocsRequest {
  readonly pipelinesFolder: string
  /** Folder the documents go to. */
  readonly out: string
  /** Compares only. */
  readonly check: boolean
  /** What else is made of the definitions, by path from `out`. */
  readonly more: (definitions: readonly Definition[]) => Promise<ReadonlyMap<string, string>>
  /** A file that is there without this text is somebody's own and stays as it is. */
  readonly mark: string
}

export interface DocsResult {
  readonly files: readonly string[]
  /** Files that differed from what the definitions say. */
  readonly stale: readonly string[]
  /** Files that are somebody's own, hence left alone. */
  readonly kept: readonly string[]
}

/** Needs no database and no service. */
export const writeDocs = async ({ pipelinesFolder, out, check, more, mark }: DocsRequest): Promise<DocsResult> => {
  const { definitions } = await openDefinitions(pipelinesFolder, [])
  const marts = await loadMarts(martFolders(pipelinesFolder))
  const documents = new Map([
    [join(out, 'data-dictionary.md'), dataDictionary(definitions, marts)],
    [join(out, 'dbt', 'models', 'sources.yml'), dbtSources(definitions, marts)],
    ...[...(await more(definitions))].map(([path, text]): [string, string] => [join(out, path), text]),
  ])
  const stale: string[] = []
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
  return { files: [...documents.keys()], stale, kept }
}
