// Adds every new value of the facts to the dimension tables, in the transaction that brings it. The definition names the tables.
import { type RawBuilder, sql } from 'kysely'
import type { DimensionTable } from '../core/dimension-table.ts'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { executePrepared } from '../db/typed-row.ts'

/** What may bring new values. */
interface NewValues {
  /** Values of each dimension that the loaded units have. */
  readonly slice: ReadonlyMap<string, readonly string[]>
  /** The rows that were inserted, or more of the same units. */
  readonly rows: RawBuilder<unknown>
  /** Whether they are a tiny unit's, of which many more may follow: then the statement is prepared. */
  readonly isTiny?: boolean
}

/**
 * Adds what is new, in one statement and in one order everywhere, so that two loads never wait for each other in a circle. Rows that
 * changed or ended brought their values when they were inserted.
 */
export const addDimensions = async (trx: Db, definition: Definition, values: NewValues): Promise<void> => {
  const inserts = definition.dimensionTables.map((table, index) => {
    const insert = table.isAskedFor ? insertAskedFor(definition, table, values) : insertFromRows(table, values)
    return sql`${sql.raw(`d${index}`)} as (${insert})`
  })
  if (inserts.length === 0) return
  const statement = sql`with ${sql.join(inserts)} select 1`
  await (values.isTiny === true ? executePrepared(trx, statement) : statement.execute(trx))
}

/** Further columns that the source can fill. */
const textColumns = ({ columns = {} }: DimensionTable): readonly string[] =>
  Object.keys(columns).filter((name) => columns[name]?.textOf !== undefined)

const insertAskedFor = (definition: Definition, table: DimensionTable, { slice }: NewValues): RawBuilder<unknown> => {
  const type = sql.raw(definition.columns.find(({ name }) => name === table.column)?.type ?? 'text')
  const values = [...(slice.get(table.column) ?? [])]
  const further = textColumns(table)
  const texts = further.map((name) => sql`${values.map((value) => table.columns?.[name]?.textOf?.(value) ?? null)}::text[]`)
  return insertInto(
    table,
    further,
    sql`select ${references(['v', ...further])} from unnest(${sql.join([sql`${values}::${type}[]`, ...texts])}) as named (${references(['v', ...further])})`,
  )
}

const references = (names: readonly string[]): RawBuilder<unknown> => sql.join(names.map((name) => sql.ref(name)))

const insertFromRows = (table: DimensionTable, { rows }: NewValues): RawBuilder<unknown> =>
  insertInto(table, [], sql`select v from (select distinct ${sql.ref(table.column)} as v from ${rows} loaded) seen`)

/** @param values a query whose column `v` is the key, up to but without its WHERE */
const insertInto = (
  { name, column }: DimensionTable,
  further: readonly string[],
  values: RawBuilder<unknown>,
): RawBuilder<unknown> => {
  const table = sql.table(`bi.${name}`)
  return sql`insert into ${table} (${references([column, ...further])}) ${values}
    where not exists (select 1 from ${table} d where ${sql.ref(`d.${column}`)} = v) order by v on conflict do nothing`
}
