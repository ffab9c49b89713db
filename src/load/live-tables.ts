// The columns, keys and indexes that tables of `data` have, and which dimension tables there are.
import { sql } from 'kysely'
import type { Definition, TableIndex } from '../core/types.ts'
import { missingRelations } from '../db/catalog.ts'
import { type Flags, type Lists, query, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'

/** A column as the catalog has it, and spells its type: `timestamp with time zone`. `has_default`: rows that do not name it get a value. */
export type LiveColumn = Texts<'table' | 'name' | 'type'> & Flags<'nullable' | 'has_default'>

/** In the order of the table. */
export const liveColumns = (db: Db, tables: readonly string[]): Promise<LiveColumn[]> =>
  query<LiveColumn>(db)`
    select c.relname as "table", a.attname as name, format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable, a.atthasdef as has_default
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
    where n.nspname = 'data' and c.relname in (${sql.join([...tables])}) and a.attnum > 0 and not a.attisdropped
    order by c.relname, a.attnum`

/** Columns of the primary key, by table. */
export const primaryKeys = async (db: Db, tables: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> => {
  const rows = await query<Texts<'table'> & Lists<Texts<'key'>>>(db)`
    select c.relname as "table", array_agg(a.attname::text order by k.place) as key
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
      cross join lateral unnest(i.indkey) with ordinality as k(attnum, place)
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
    where i.indisprimary and n.nspname = 'data' and c.relname in (${sql.join([...tables])}) group by c.relname`
  return new Map(rows.map((row) => [row.table, row.key]))
}

/** Names of the definitions' dimension tables that `bi` does not have. */
export const missingDimensions = async (db: Db, definitions: readonly Definition[]): Promise<ReadonlySet<string>> => {
  const names = new Set(definitions.flatMap(({ dimensionTables }) => dimensionTables.map(({ name }) => `bi.${name}`)))
  return new Set((await missingRelations(db, [...names])).map((name) => name.slice('bi.'.length)))
}

/** `is_whole`: false while a month lacks its part of it. One more than asked for is somebody's own and left alone. */
type LiveIndex = Texts<'table'> & Lists<Texts<'columns' | 'include'>> & Flags<'is_whole'>

/** Plain ascending b-trees of the tables of `data`, by table. */
export const liveIndexes = async (db: Db, tables: readonly string[]): Promise<ReadonlyMap<string, readonly LiveIndex[]>> => {
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
export const missingIndexes = ({ indexes }: Definition, live: readonly LiveIndex[]): string[] =>
  indexes.flatMap((wanted) => {
    const found = live.filter((one) => serves(one, wanted))
    if (found.some((one) => one.is_whole)) return []
    const shown = `(${wanted.columns.join(', ')})${wanted.include.length === 0 ? '' : ` include (${wanted.include.join(', ')})`}`
    return found.length > 0
      ? [`has the index ${shown} not in every month; drop it and make it again for the whole table.`]
      : [`has no index ${shown}, which the definition asks for; add it in a migration, or take it out of the definition.`]
  })

/** Whether an index answers what another one was asked for. */
export const serves = (live: TableIndex, wanted: TableIndex): boolean =>
  live.columns.join() === wanted.columns.join() && wanted.include.every((name) => live.include.includes(name))
