// The live tables and their indexes against their definitions: every difference by name, with the remedy.
import { sql } from 'kysely'
import type { Column, Definition, TableIndex } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { tableName } from './table-columns.ts'

export interface Difference {
  readonly pipeline: string
  readonly table: string
  readonly column: string | null
  readonly message: string
  /** warning: questions take longer; no row would be wrong. */
  readonly level: 'error' | 'warning'
}

interface LiveColumn {
  readonly table: string
  readonly name: string
  readonly type: string
  readonly nullable: boolean
}

/** Names a definition's types have in the catalog. */
const catalogTypes: Readonly<Record<string, string>> = {
  text: 'text',
  bigint: 'bigint',
  integer: 'integer',
  numeric: 'numeric',
  boolean: 'boolean',
  date: 'date',
  timestamptz: 'timestamp with time zone',
  'text[]': 'text[]',
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

/** One look at the catalog for all definitions. Empty: everything is as defined. */
export const compareTables = async (database: Database, definitions: readonly Definition[]): Promise<Difference[]> => {
  const tables = definitions.flatMap((definition) => [tableName(definition), `${tableName(definition)}_history`])
  if (tables.length === 0) return []
  const columns = await liveColumns(database, tables)
  const keys = await primaryKeys(database, tables)
  const indexes = await liveIndexes(database, tables)
  return definitions.flatMap((definition) => {
    const name = tableName(definition)
    return [
      ...compare(definition, name, columns, keys, definition.key, lineage),
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
    ]
  })
}

const liveColumns = async (database: Database, tables: readonly string[]): Promise<LiveColumn[]> => {
  const { rows } = await sql<LiveColumn>`
    select c.relname as "table", a.attname as name, format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
    where n.nspname = 'data' and c.relname in (${sql.join([...tables])}) and a.attnum > 0 and not a.attisdropped
    order by c.relname, a.attnum`.execute(database.kysely)
  return rows
}

const primaryKeys = async (database: Database, tables: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> => {
  const { rows } = await sql<{ table: string; key: string[] }>`
    select c.relname as "table", array_agg(a.attname::text order by k.place) as key
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
      cross join lateral unnest(i.indkey) with ordinality as k(attnum, place)
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
    where i.indisprimary and n.nspname = 'data' and c.relname in (${sql.join([...tables])}) group by c.relname`.execute(
    database.kysely,
  )
  return new Map(rows.map((row) => [row.table, row.key]))
}

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
        `does not exist. Run \`millrace migrate\`; a new dataset also needs its migration (\`millrace new dataset ${pipeline}\` writes one).`,
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
  if (live === undefined) return [`is in the definition but not in the table; add it in a migration.`]
  const problems: string[] = []
  if (live.type !== catalogTypes[column.type])
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

interface LiveIndex extends TableIndex {
  /** False while a month lacks its part of it. */
  readonly isWhole: boolean
}

/** Plain ascending b-trees of the tables of `data`, by table. */
const liveIndexes = async (database: Database, tables: readonly string[]): Promise<ReadonlyMap<string, readonly LiveIndex[]>> => {
  const { rows } = await sql<{ table: string; columns: string[]; include: string[]; whole: boolean }>`
    select c.relname as "table", i.indisvalid as whole,
      array(select a.attname::text from unnest(i.indkey) with ordinality k (number, place) join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
        where place <= i.indnkeyatts order by place) as columns,
      array(select a.attname::text from unnest(i.indkey) with ordinality k (number, place) join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
        where place > i.indnkeyatts order by place) as include
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace join pg_class x on x.oid = i.indexrelid
      join pg_am m on m.oid = x.relam
    where n.nspname = 'data' and c.relname in (${sql.join([...tables])}) and m.amname = 'btree' and i.indpred is null and i.indexprs is null
      and not exists (select 1 from unnest(i.indoption) o where o <> 0)`.execute(database.kysely)
  const byTable = new Map<string, LiveIndex[]>()
  for (const { table, columns, include, whole } of rows)
    byTable.set(table, [...(byTable.get(table) ?? []), { columns, include, isWhole: whole }])
  return byTable
}

/** What the definition asks for and the table lacks, in words. */
const missingIndexes = ({ indexes }: Definition, live: readonly LiveIndex[]): string[] =>
  indexes.flatMap((wanted) => {
    const found = live.filter((one) => answers(one, wanted))
    if (found.some((one) => one.isWhole)) return []
    const shown = `(${wanted.columns.join(', ')})${wanted.include.length === 0 ? '' : ` include (${wanted.include.join(', ')})`}`
    return found.length > 0
      ? [`has the index ${shown} not in every month; drop it and make it again for the whole table.`]
      : [`has no index ${shown}, which the definition asks for; add it in a migration, or take it out of the definition.`]
  })

const answers = (live: TableIndex, wanted: TableIndex): boolean =>
  live.columns.join() === wanted.columns.join() && wanted.include.every((name) => live.include.includes(name))
