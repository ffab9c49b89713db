// The generated documents of a repository: data dictionary and dbt sources, written or compared.
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
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
}

export interface DocsResult {
  readonly files: readonly string[]
  /** Files that differed from what the definitions say. */
  readonly stale: readonly string[]
}

/** Needs no database and no service. */
export const writeDocs = async ({ pipelinesFolder, out, check }: DocsRequest): Promise<DocsResult> => {
  const { definitions } = await openDefinitions(pipelinesFolder, [])
  const marts = await loadMarts(martFolders(pipelinesFolder))
  const documents = new Map([
    [join(out, 'data-dictionary.md'), dataDictionary(definitions, marts)],
    [join(out, 'dbt', 'sources.yml'), dbtSources(definitions, marts)],
  ])
  const stale: string[] = []
  for (const [file, text] of documents) {
    const old = existsSync(file) ? await readFile(file, 'utf8') : null
    if (old === text) continue
    stale.push(file)
    if (check) continue
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text)
  }
  return { files: [...documents.keys()], stale }
}
