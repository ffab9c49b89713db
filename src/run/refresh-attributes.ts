// The folder attributes/ beside the pipelines: reads and checks it, runs its queries, and applies it to bi.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { AttributeRows } from '../core/attribute-types.ts'
import { EtlError, isEtlError } from '../core/errors.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { readTable } from '../db/read-list.ts'
import { type Attributes, readAttributes, subjectsOf } from '../definition/attributes.ts'
import { assertNoProblems } from '../definition/problem.ts'
import { type AppliedAttributes, applyAttributes } from '../publish/attribute-views.ts'

/** Longest time a query of attributes may take, and its rows at most. */
const timeoutMs = 30_000
const mostRows = 100_000

/** Attribute files that were read, and the definitions they were checked against. */
export interface AttributeFolder {
  readonly found: Attributes
  readonly definitions: readonly Definition[]
}

const folderOf = (pipelinesFolder: string): string => join(pipelinesFolder, '..', 'attributes')

/** Reads the folder each time it is asked. @param open gives every definition there is */
export const attributeFolder =
  (
    pipelinesFolder: string,
    open: () => Promise<{ readonly definitions: readonly Definition[]; readonly sources: ReadonlyMap<string, SourceSpec> }>,
  ): (() => Promise<AttributeFolder | null>) =>
  async () => {
    if (!existsSync(folderOf(pipelinesFolder))) return null
    const { definitions, sources } = await open()
    return { found: await attributesOf(pipelinesFolder, definitions, sources), definitions }
  }

/** Every attribute file of a user's folder, checked against what the definitions run for. */
export const attributesOf = (
  pipelinesFolder: string,
  definitions: readonly Definition[],
  sources: ReadonlyMap<string, SourceSpec>,
): Promise<Attributes> => readAttributes(folderOf(pipelinesFolder), subjectsOf(definitions, sources))

/** Throws DEFINITION with every mistake of files, and LIST_QUERY where a query cannot be read: then nothing is changed. */
export const publishAttributes = async (
  database: Database,
  attributes: Attributes,
  definitions: readonly Definition[],
): Promise<AppliedAttributes> => {
  const { sets } = assertNoProblems(attributes)
  const rows: AttributeRows[] = []
  for (const set of sets) rows.push('sql' in set ? await asked(database, set) : set)
  return database.kysely.transaction().execute((trx) => applyAttributes(trx, rows, definitions))
}

const asked = async (
  database: Database,
  { file, sql, rowsOf }: Extract<Attributes['sets'][number], { sql: string }>,
): Promise<AttributeRows> => {
  const { names, rows } = await readTable(database, { sql, timeoutMs, most: mostRows, readerUrl: null }).catch(
    (error: unknown) => {
      throw isEtlError(error) ? new EtlError(error.code, `${file}: ${error.message}`, { cause: error }) : error
    },
  )
  // A query that finds nothing has most likely lost its table, not all its rows.
  if (rows.length === 0)
    throw new EtlError('LIST_QUERY', `${file}: it gives no row; the attributes stay as they were. Delete the file to end them.`)
  const { set, problems } = rowsOf([
    { line: 1, cells: names },
    ...rows.map((cells, at) => ({ line: at + 1, cells: cells.map((cell) => cell ?? '') })),
  ])
  if (set !== null) return set
  throw new EtlError(
    'LIST_QUERY',
    problems
      .slice(0, 5)
      .map(({ line, message }) => `${file}, row ${line}: ${message}`)
      .join('\n'),
  )
}
