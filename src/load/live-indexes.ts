// The indexes a table has, against those its definition asks for. One more than asked for is somebody's own and left alone.
import { sql } from 'kysely'
import type { Definition, TableIndex } from '../core/types.ts'
import type { Database } from '../db/connect.ts'

export interface LiveIndex extends TableIndex {
  /** False while a month lacks its part of it. */
  readonly isWhole: boolean
}

/** Plain ascending b-trees of the tables of `data`, by table. */
export const liveIndexes = async (
  database: Database,
  tables: readonly string[],
): Promise<ReadonlyMap<string, readonly LiveIndex[]>> => {
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
export const missingIndexes = ({ indexes }: Definition, live: readonly LiveIndex[]): string[] =>
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
