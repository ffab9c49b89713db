// Dimension tables: every value that facts speak of is added in the transaction that brings it. Which tables there are, the definition says.
import { type RawBuilder, sql } from 'kysely'
import type { DimensionTable } from '../core/dimension-table.ts'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { MergeScope } from './merge-scope.ts'
import { dataTable, scopeOf, stagedRows } from './table-columns.ts'

/** The scope's values of an asked-for dimension as a table of one column, `v`. */
const valuesOf = (scope: MergeScope, column: string, type: RawBuilder<unknown>): RawBuilder<unknown> =>
  scope.kind === 'many' && scope.accepted.columns.some(({ name }) => name === column)
    ? sql`(select distinct ${sql.ref(column)}::${type} as v from ${scope.accepted.name} where _outcome = 'accepted') wanted`
    : sql`unnest(${allOf(scope, column)}::${type}[]) v`

/** Values of the scope's slice, accepted or not. */
const allOf = ({ slice }: MergeScope, column: string): readonly string[] => [slice[column] ?? []].flat()

/**
 * Adds what is new, in one statement and in one order everywhere, so that two loads never wait for each other in a circle. Rows that
 * changed or ended brought their values when they were inserted.
 * @param staging quoted name of the table that holds the answer's rows, whose values are read sooner than the loaded ones; default the latter
 */
export const addDimensions = async (
  trx: Db,
  definition: Definition,
  scope: MergeScope,
  rowsInserted: number,
  staging: string | null = null,
): Promise<void> => {
  if (rowsInserted === 0) return
  const inserts = dimensionInserts(definition, scope, {
    textOf,
    rows: (column) => rowsOf(definition, scope, column, staging),
    when: sql`true`,
    areFew: false,
  })
  if (inserts.length > 0) await sql`with ${sql.join(inserts)} select 1`.execute(trx)
}

/** What the source says of a value of the dimension; null where it knows nothing. */
export const textOf: DimensionOptions['textOf'] = ({ columns = {} }, name, value) => columns[name]?.textOf?.(value) ?? null

/** The staged rows have statistics; the month may be so new that it has none, and then each value would be looked up by itself. */
const rowsOf = (definition: Definition, scope: MergeScope, column: string, staging: string | null): RawBuilder<unknown> => {
  const isStaged = definition.columns.some(({ name, origin }) => name === column && origin === 'response')
  if (staging !== null && isStaged) return sql`(select ${sql.ref(column)} from ${stagedRows(definition, scope, staging)} s)`
  return sql`(select ${sql.ref(column)} from ${dataTable(definition)} t where ${scopeOf(definition, scope, 't')})`
}

/** How values are found and inserted. */
export interface DimensionOptions {
  /** What stands in a further column of the table for the value: a text, null, or a slot for it. */
  readonly textOf: (table: DimensionTable, column: string, value: string) => string | null
  /** The rows loaded, as far as this column goes. */
  readonly rows: (column: string) => RawBuilder<unknown>
  /** Nothing is added where it does not hold. */
  readonly when: RawBuilder<unknown>
  /** Few values are cheaper looked up one by one, by the insert itself; many are joined with what is there. */
  readonly areFew: boolean
}

/** One entry of a WITH for each dimension table of the definition, always in the same order. */
export const dimensionInserts = (definition: Definition, scope: MergeScope, options: DimensionOptions): RawBuilder<unknown>[] =>
  definition.dimensionTables.map((table, index) => {
    const insert = table.isAskedFor ? insertAskedFor(definition, scope, table, options) : insertFromRows(table, options)
    return sql`${sql.raw(`d${index}`)} as (${insert})`
  })

/** Further columns that the source can fill. */
export const textColumns = ({ columns = {} }: DimensionTable): readonly string[] =>
  Object.keys(columns).filter((name) => columns[name]?.textOf !== undefined)

const insertAskedFor = (
  definition: Definition,
  scope: MergeScope,
  table: DimensionTable,
  options: DimensionOptions,
): RawBuilder<unknown> => {
  const type = sql.raw(definition.columns.find(({ name }) => name === table.column)?.type ?? 'text')
  const values = valuesOf(scope, table.column, type)
  const further = textColumns(table)
  if (further.length === 0) return insertInto(table, [], sql`select v from ${values}`, options)
  // The texts come from here, hence the list of all values the scope may have.
  const all = allOf(scope, table.column)
  const texts = further.map((name) => sql`${all.map((value) => options.textOf(table, name, value))}::text[]`)
  return insertInto(
    table,
    further,
    sql`select v, ${references(further.map((name) => `named.${name}`))} from ${values}
      join unnest(${sql.join([sql`${all}::${type}[]`, ...texts])}) as named (of_value, ${references(further)}) on named.of_value = v`,
    options,
  )
}

const references = (names: readonly string[]): RawBuilder<unknown> => sql.join(names.map((name) => sql.ref(name)))

const insertFromRows = (table: DimensionTable, options: DimensionOptions): RawBuilder<unknown> =>
  insertInto(
    table,
    [],
    sql`select v from (select distinct ${sql.ref(table.column)} as v from ${options.rows(table.column)} loaded) seen`,
    options,
  )

/** @param values a query whose column `v` is the key, up to but without its WHERE */
const insertInto = (
  { name, column }: DimensionTable,
  further: readonly string[],
  values: RawBuilder<unknown>,
  { when, areFew }: DimensionOptions,
): RawBuilder<unknown> => {
  const table = sql.table(`bi.${name}`)
  const isNew = areFew ? when : sql`not exists (select 1 from ${table} d where ${sql.ref(`d.${column}`)} = v) and ${when}`
  return sql`insert into ${table} (${references([column, ...further])}) ${values}
    where ${isNew} order by v on conflict do nothing`
}
