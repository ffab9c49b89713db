// Compares columns, keys and indexes of the tables in `data` with their definitions: names each difference and how to fix it.
import { docPage } from '../core/shipped.ts'
import { columnTypes } from '../core/column-types.ts'
import type { DimensionTable } from '../core/dimension-table.ts'
import type { Column, Definition, TableIndex } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { lineage, tableName } from './table-columns.ts'
import { EtlError } from '../core/errors.ts'
import { missingRelations } from '../db/catalog.ts'
import type { Database } from '../db/connect.ts'
import { migrationState, migrationsCreating } from '../db/migrate.ts'
import { sql } from 'kysely'
import { type Flags, type Lists, query, type Texts } from '../db/typed-row.ts'

/** A column as the catalog has it, and spells its type: `timestamp with time zone`. `has_default`: rows that do not name it get a value. */
type LiveColumn = Texts<'table' | 'name' | 'type'> & Flags<'nullable' | 'has_default'>

/** In the order of the table. */
export const liveColumns = (db: Db, tables: readonly string[]): Promise<LiveColumn[]> =>
  query<LiveColumn>(db)`
    select c.relname as "table", a.attname as name, format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable, a.atthasdef or a.attidentity <> '' as has_default
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
    where n.nspname = 'data' and c.relname in (${sql.join([...tables])}) and a.attnum > 0 and not a.attisdropped
    order by c.relname, a.attnum`

/** Columns of the primary key, by table. */
const primaryKeys = async (db: Db, tables: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> => {
  const rows = await query<Texts<'table'> & Lists<Texts<'key'>>>(db)`
    select c.relname as "table", array_agg(a.attname::text order by k.place) as key
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
      cross join lateral unnest(i.indkey) with ordinality as k(attnum, place)
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
    where i.indisprimary and n.nspname = 'data' and c.relname in (${sql.join([...tables])}) group by c.relname`
  return new Map(rows.map((row) => [row.table, row.key]))
}

/** Names of the definitions' dimension tables that `bi` does not have. */
const missingDimensions = async (db: Db, definitions: readonly Definition[]): Promise<ReadonlySet<string>> => {
  const names = new Set(definitions.flatMap(({ dimensionTables }) => dimensionTables.map(({ name }) => `bi.${name}`)))
  return new Set((await missingRelations(db, [...names])).map((name) => name.slice('bi.'.length)))
}

/** `is_whole`: false while a month lacks its part of the index. An index that no definition asks for is somebody's own and left alone. */
type LiveIndex = Texts<'table'> & Lists<Texts<'columns' | 'include'>> & Flags<'is_whole'>

/** Plain ascending b-trees of the tables of `data`, by table. */
const liveIndexes = async (db: Db, tables: readonly string[]): Promise<ReadonlyMap<string, readonly LiveIndex[]>> => {
  const rows = await query<LiveIndex>(db)`
    select c.relname as "table", i.indisvalid as is_whole,
      array(select a.attname::text from unnest(i.indkey) with ordinality k (number, place) join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
        where place <= i.indnkeyatts order by place) as columns,
      array(select a.attname::text from unnest(i.indkey) with ordinality k (number, place) join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
        where place > i.indnkeyatts order by place) as include
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace join pg_class x on x.oid = i.indexrelid
      join pg_am m on m.oid = x.relam
    where n.nspname = 'data' and c.relname in (${sql.join([...tables])}) and m.amname = 'btree' and i.indpred is null and i.indexprs is null
      and not exists (select 1 from unnest(i.indoption) o where o <> 0)`
  return Map.groupBy(rows, ({ table }) => table)
}

/** What the definition asks for and the table lacks, in words. */
const missingIndexes = ({ indexes }: Definition, live: readonly LiveIndex[]): string[] =>
  indexes.flatMap((wanted) => {
    const found = live.filter((one) => serves(one, wanted))
    if (found.some((one) => one.is_whole)) return []
    const shown = `(${wanted.columns.join(', ')})${wanted.include.length === 0 ? '' : ` include (${wanted.include.join(', ')})`}`
    return found.length > 0
      ? [`lacks the index ${shown} in some months; drop it and create it again for the whole table.`]
      : [`has no index ${shown}, which the definition asks for; add it in a migration, or remove it from the definition.`]
  })

/** Whether an existing index serves the queries of a wanted one. */
export const serves = (live: TableIndex, wanted: TableIndex): boolean =>
  live.columns.join() === wanted.columns.join() && wanted.include.every((name) => live.include.includes(name))

/** One way in which a table is not as its definition says. */
export type Difference = ReturnType<typeof differenceOf>

/** @param level warning: queries take longer, or the difference is somebody's own; no row would be wrong */
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

/** Reads the catalog once for all definitions. Empty: everything is as defined. */
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

/** Values that are the same in all rows of a load are not sent with them. */
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
    ...columns.filter((column) => !wanted.has(column.name)).map((column) => undefinedColumn(definition, column, live)),
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

/** A column that a definition once had is in both tables. One in a single table, which takes rows without a value, somebody added: loads leave it alone. */
const undefinedColumn = (definition: Definition, column: LiveColumn, live: readonly LiveColumn[]): Difference => {
  const { table, name } = column
  const pair = [tableName(definition), `${tableName(definition)}_history`]
  const isOwn = !live.some((other) => other.name === name && other.table !== table && pair.includes(other.table))
  if (isOwn && (column.nullable || column.has_default))
    return differenceOf(
      definition,
      table,
      name,
      `data.${table}.${name} is not in the definition: loads do not write it.`,
      'warning',
    )
  const message = `data.${table}.${name} is not in the definition; add it there, or drop it in a migration.`
  return differenceOf(definition, table, name, message)
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

/** The table of facts with its history, and the dimension tables they join to; `table`: whose migration makes it. */
const tablesOf = (definition: Definition) => {
  const facts = tableName(definition)
  const { pipeline } = definition
  return [
    ...[facts, `${facts}_history`].map((name) => ({ schema: 'data' as const, table: facts, name, pipeline })),
    ...definition.dimensionTables.map(({ name }) => ({ schema: 'bi' as const, table: name, name, pipeline })),
  ]
}

/** Throws TABLE_DRIFT naming each table that no migration creates, and how to write one; else each that an applied migration made and that is gone. */
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
  const { applied } = await migrationState(database, { folders })
  const unmade: string[] = []
  const dropped: string[] = []
  for (const { schema, table, name, pipeline } of needed.filter((one) => missing.includes(`${one.schema}.${one.name}`))) {
    const creating = await migrationsCreating(schema, table, { folders })
    // A pending migration may make it again.
    const isGone = creating.length > 0 && creating.every((one) => applied.includes(one))
    if (isGone) dropped.push(`  ${schema}.${name}, which migration ${creating.join(', ')} made, was dropped.`)
    else if (creating.length === 0 && name === table)
      unmade.push(`  ${schema}.${name}: \`millrace new migration ${pipeline}\` writes it.`)
  }
  if (unmade.length > 0)
    throw new EtlError('TABLE_DRIFT', `No migration makes these tables, and nothing was changed:\n${unmade.join('\n')}`)
  if (dropped.length > 0)
    throw new EtlError(
      'TABLE_DRIFT',
      `No migration makes these tables again, and nothing was changed:\n${dropped.join('\n')}\n${restoreIt}`,
    )
}

/** After the migrations: throws TABLE_DRIFT naming each column that none of them has added. */
export const assertColumnsMade = async (db: Db, definitions: readonly Definition[]): Promise<void> => {
  const tables = (definition: Definition): readonly string[] => [tableName(definition), `${tableName(definition)}_history`]
  const live = await liveColumns(db, definitions.flatMap(tables))
  const isLive = (table: string, name: string): boolean => live.some((column) => column.table === table && column.name === name)
  const lines = definitions.flatMap((definition) =>
    definition.columns.flatMap(({ name }) => {
      const table = tables(definition).find((one) => !isLive(one, name))
      return table === undefined ? [] : [`  data.${table}.${name}: \`millrace new migration ${definition.pipeline}\` writes it.`]
    }),
  )
  if (lines.length > 0) throw new EtlError('TABLE_DRIFT', `No migration makes these columns:\n${lines.join('\n')}`)
}

const restoreIt = `Restore it from a backup (${docPage('restore.md')}), or begin with an empty database: the ledger says that its rows are there.`

export type TableChanges = Awaited<ReturnType<typeof tableChanges>>

/** What the next migration can bring, and what no migration can. Empty where the table is as defined. Throws TABLE_DRIFT where it was dropped. */
export const tableChanges = async (db: Db, definition: Definition) => {
  const table = tableName(definition)
  const columns = await liveColumns(db, [table, `${table}_history`])
  const gone = [table, `${table}_history`].find((one) => !columns.some((column) => column.table === one))
  if (gone !== undefined) throw new EtlError('TABLE_DRIFT', `data.${gone}, which a migration made, does not exist. ${restoreIt}`)
  const live = (await liveIndexes(db, [table])).get(table) ?? []
  // One of the two may have it: somebody dropped it from the other.
  const missing = definition.columns.filter((wanted) => columns.filter(({ name }) => name === wanted.name).length < 2)
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
