// The live tables against their definitions: every difference by name, with the remedy.
import { columnTypes } from '../core/column-types.ts'
import type { DimensionTable } from '../core/dimension-table.ts'
import type { Column, Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { type LiveColumn, liveColumns, liveIndexes, missingDimensions, missingIndexes, primaryKeys } from './live-tables.ts'
import { tableName } from './table-columns.ts'

/** One way in which a table is not as its definition says. */
export interface Difference {
  readonly pipeline: string
  readonly table: string
  readonly column: string | null
  readonly message: string
  /** warning: questions take longer; no row would be wrong. */
  readonly level: 'error' | 'warning'
}

const lineage: readonly (readonly [string, string])[] = [
  ['_unit_id', 'bigint'],
  ['_run_id', 'bigint'],
  ['_revision', 'integer'],
  ['_loaded_at', 'timestamp with time zone'],
]
const historyOnly: readonly (readonly [string, string])[] = [
  ['_valid_from', 'timestamp with time zone'],
  ['_valid_to', 'timestamp with time zone'],
  ['_ended_run_id', 'bigint'],
]

/** One question to the catalog for all definitions. Empty: everything is as defined. */
export const compareTables = async (db: Db, definitions: readonly Definition[]): Promise<Difference[]> => {
  const tables = definitions.flatMap((definition) => [tableName(definition), `${tableName(definition)}_history`])
  if (tables.length === 0) return []
  const columns = await liveColumns(db, tables)
  const keys = await primaryKeys(db, tables)
  const indexes = await liveIndexes(db, tables)
  const noDimension = await missingDimensions(db, definitions)
  return definitions.flatMap((definition) => {
    const name = tableName(definition)
    return [
      ...compare(definition, name, columns, keys, definition.key, lineage),
      ...lacksDefaults(
        definition,
        columns.filter(({ table }) => table === name),
      ),
      ...compare(definition, `${name}_history`, columns, keys, [...definition.key, '_revision'], [...lineage, ...historyOnly]),
      ...(columns.some(({ table }) => table === name) ? missingIndexes(definition, indexes.get(name) ?? []) : []).map(
        (text): Difference => ({
          pipeline: definition.pipeline,
          table: name,
          column: null,
          message: `data.${name} ${text}`,
          level: 'warning',
        }),
      ),
      ...definition.dimensionTables
        .filter(({ name: dimension }) => noDimension.has(dimension))
        .map((table) => lacks(definition, table)),
    ]
  })
}

/** What is the same in all rows of a load is not sent with them. */
const defaults: Readonly<Record<string, string>> = {
  _run_id: `current_setting('millrace.run_id')::bigint`,
  _revision: '1',
  _loaded_at: 'transaction_timestamp()',
}

const lacksDefaults = ({ pipeline }: Definition, columns: readonly LiveColumn[]): Difference[] =>
  columns.flatMap(({ table, name, has_default: hasDefault }): Difference[] => {
    const value = defaults[name]
    if (value === undefined || hasDefault) return []
    const message = `data.${table}.${name} has no default, which loads rely on; a migration adds it: alter table data.${table} alter column ${name} set default ${value}.`
    return [{ pipeline, table, column: name, message, level: 'error' }]
  })

const lacks = ({ pipeline }: Definition, { name, column }: DimensionTable): Difference => ({
  pipeline,
  table: name,
  column: null,
  message: `bi.${name}, which each ${column} is added to, does not exist. Run \`millrace migrate\`; if no migration makes it, \`millrace new migration ${pipeline}\` writes one.`,
  level: 'error',
})

const compare = (
  definition: Definition,
  table: string,
  live: readonly LiveColumn[],
  keys: ReadonlyMap<string, readonly string[]>,
  key: readonly string[],
  own: readonly (readonly [string, string])[],
): Difference[] => {
  const { pipeline } = definition
  const columns = live.filter((column) => column.table === table)
  const found = (column: string | null, text: string): Difference => ({
    pipeline,
    table,
    column,
    message: `data.${table}${column === null ? '' : `.${column}`} ${text}`,
    level: 'error',
  })
  if (columns.length === 0) {
    return [
      found(
        null,
        `does not exist. Run \`millrace migrate\`; a new dataset also needs its migration (\`millrace new migration ${pipeline}\` writes one).`,
      ),
    ]
  }
  const byName = new Map(columns.map((column) => [column.name, column]))
  const wanted = new Set([...definition.columns.map((column) => column.name), ...own.map(([name]) => name)])
  const liveKey = keys.get(table) ?? []
  return [
    ...definition.columns.flatMap((column) =>
      compareColumn(column, byName.get(column.name)).map((text) => found(column.name, text)),
    ),
    ...own.flatMap(([name, type]) => compareOwn(name, type, byName.get(name)).map((text) => found(name, text))),
    ...columns
      .filter((column) => !wanted.has(column.name))
      .map((column) => found(column.name, 'is not in the definition; add it there, or drop it in a migration.')),
    ...(liveKey.join() === key.join()
      ? []
      : [
          found(
            null,
            `has the key (${liveKey.join(', ')}), the definition says (${key.join(', ')}); a new key is a new version.`,
          ),
        ]),
  ]
}

const compareColumn = (column: Column, live: LiveColumn | undefined): string[] => {
  if (live === undefined) return [`is in the definition but not in the table; \`millrace new migration\` writes what adds it.`]
  const problems: string[] = []
  if (live.type !== columnTypes[column.type].catalog)
    problems.push(`is ${live.type}, the definition says ${column.type}; a changed type is a new version.`)
  if (live.nullable !== column.nullable) {
    problems.push(
      `${live.nullable ? 'may be NULL' : 'is NOT NULL'}, the definition says ${column.nullable ? 'nullable' : 'not nullable'}; change one of them.`,
    )
  }
  return problems
}

const compareOwn = (name: string, type: string, live: LiveColumn | undefined): string[] => {
  if (live === undefined) return ['is missing; every table carries its lineage (see docs/adding-a-dataset.md).']
  return live.type === type ? [] : [`is ${live.type}, expected ${type}; ${name} is part of every table's lineage.`]
}
