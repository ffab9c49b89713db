// The live tables against their definitions: every difference by name, with the remedy.
import { docPage } from '../core/shipped.ts'
import { columnTypes } from '../core/column-types.ts'
import type { DimensionTable } from '../core/dimension-table.ts'
import type { Column, Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import {
  type LiveColumn,
  liveColumns,
  liveIndexes,
  missingDimensions,
  missingIndexes,
  primaryKeys,
  serves,
} from './live-tables.ts'
import { lineage, tableName } from './table-columns.ts'
import { EtlError } from '../core/errors.ts'
import { missingRelations } from '../db/catalog.ts'
import type { Database } from '../db/connect.ts'
import { migrationsCreating } from '../db/migrate.ts'

/** One way in which a table is not as its definition says. */
export type Difference = ReturnType<typeof differenceOf>

/** @param level warning: questions take longer; no row would be wrong */
const differenceOf = (
  { pipeline }: Definition,
  table: string,
  column: string | null,
  message: string,
  level: 'error' | 'warning' = 'error',
) => ({ pipeline, table, column, message, level })

const lineageOfHistory = {
  ...lineage,
  ...{ _valid_from: 'timestamp with time zone', _valid_to: 'timestamp with time zone', _ended_run_id: 'bigint' },
}

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
      ...compare(definition, `${name}_history`, columns, keys, [...definition.key, '_revision'], lineageOfHistory),
      ...(columns.some(({ table }) => table === name) ? missingIndexes(definition, indexes.get(name) ?? []) : []).map((text) =>
        differenceOf(definition, name, null, `data.${name} ${text}`, 'warning'),
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

const lacksDefaults = (definition: Definition, columns: readonly LiveColumn[]): Difference[] =>
  columns.flatMap(({ table, name, has_default: hasDefault }) => {
    const value = defaults[name]
    if (value === undefined || hasDefault) return []
    const message = `data.${table}.${name} has no default, which loads rely on; a migration adds it: alter table data.${table} alter column ${name} set default ${value}.`
    return [differenceOf(definition, table, name, message)]
  })

const lacks = (definition: Definition, { name, column }: DimensionTable): Difference => {
  const made = `Run \`millrace migrate\`; if no migration makes it, \`millrace new migration ${definition.pipeline}\` writes one.`
  return differenceOf(definition, name, null, `bi.${name}, which each ${column} is added to, does not exist. ${made}`)
}

const compare = (
  definition: Definition,
  table: string,
  live: readonly LiveColumn[],
  keys: ReadonlyMap<string, readonly string[]>,
  key: readonly string[],
  own: Readonly<Record<string, string>>,
): Difference[] => {
  const columns = live.filter((column) => column.table === table)
  const found = (column: string | null, text: string): Difference =>
    differenceOf(definition, table, column, `data.${table}${column === null ? '' : `.${column}`} ${text}`)
  if (columns.length === 0) {
    return [
      found(
        null,
        `does not exist. Run \`millrace migrate\`; a new dataset also needs its migration (\`millrace new migration ${definition.pipeline}\` writes one).`,
      ),
    ]
  }
  const byName = new Map(columns.map((column) => [column.name, column]))
  const wanted = new Set([...definition.columns.map((column) => column.name), ...Object.keys(own)])
  const liveKey = keys.get(table) ?? []
  return [
    ...definition.columns.flatMap((column) =>
      compareColumn(column, byName.get(column.name)).map((text) => found(column.name, text)),
    ),
    ...Object.entries(own).flatMap(([name, type]) => compareOwn(name, type, byName.get(name)).map((text) => found(name, text))),
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
  if (live === undefined) return [`is missing; every table carries its lineage (see ${docPage('adding-a-dataset.md')}).`]
  return live.type === type ? [] : [`is ${live.type}, expected ${type}; ${name} is part of every table's lineage.`]
}

/** The table of facts and the dimension tables they join to. */
const tablesOf = (definition: Definition) => [
  { schema: 'data' as const, name: tableName(definition), pipeline: definition.pipeline },
  ...definition.dimensionTables.map(({ name }) => ({ schema: 'bi' as const, name, pipeline: definition.pipeline })),
]

/** Throws TABLE_DRIFT naming each table that no migration creates, and what writes one. */
export const assertTablesMade = async (
  database: Database,
  definitions: readonly Definition[],
  folders: readonly string[],
): Promise<void> => {
  const needed = definitions.flatMap(tablesOf)
  const missing = await missingRelations(
    database.kysely,
    needed.map(({ schema, name }) => `${schema}.${name}`),
  )
  const lines: string[] = []
  for (const { schema, name, pipeline } of needed.filter((one) => missing.includes(`${one.schema}.${one.name}`)))
    if ((await migrationsCreating(schema, name, { folders })).length === 0)
      lines.push(`  ${schema}.${name}: \`millrace new migration ${pipeline}\` writes it.`)
  if (lines.length === 0) return
  throw new EtlError('TABLE_DRIFT', `No migration makes these tables, and nothing was changed:\n${lines.join('\n')}`)
}

export type TableChanges = Awaited<ReturnType<typeof tableChanges>>

/** What the next migration brings, and what none can. Empty where the table is as defined. */
export const tableChanges = async (db: Db, definition: Definition) => {
  const table = tableName(definition)
  const names = new Set((await liveColumns(db, [table])).map(({ name }) => name))
  const live = (await liveIndexes(db, [table])).get(table) ?? []
  const missing = definition.columns.filter(({ name }) => !names.has(name))
  const isNew = new Set(missing.map(({ name }) => name))
  const differences = (await compareTables(db, [definition])).filter(
    ({ level, table: one }) => level === 'error' && [table, `${table}_history`].includes(one),
  )
  return {
    columns: missing,
    indexes: definition.indexes.filter((wanted) => !live.some((one) => serves(one, wanted))),
    /** In words with their remedy: a changed type or key, a column that is only in the table. */
    refused: [
      ...missing.flatMap((column) => (column.isKey || !column.nullable ? [notAddable(table, column)] : [])),
      ...differences.filter(({ column }) => column === null || !isNew.has(column)).map(({ message }) => message),
    ],
  }
}

const notAddable = (table: string, { name, isKey }: Column): string =>
  isKey
    ? `data.${table}.${name} is new and part of the key; a new key is a new version.`
    : `data.${table}.${name} is new and not nullable, and loaded rows have no value for it; make it nullable, or raise the version.`
