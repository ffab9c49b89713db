// Statistics of what autovacuum never analyzes (partitioned parents), or not soon enough (dimensions and summaries after a first load).
import { sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { isDatabaseError, sqlStateOf } from '../db/database-error.ts'
import { type Flags, query, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { tableName } from './table-columns.ts'

/** Rows per 100 that have to come or go before plans are likely to suffer. */
const changedPercent = 20
/** Below this any plan will do. */
const fewRows = 1_000
/**
 * Parents are sampled lightly, 300 rows for each step of the target: their months have statistics of their own. A page that is read for the first
 * time after a load is also written, and so is the write-ahead log.
 */
const parentTarget = 10
/** A statistic is not worth making a load or a reader wait. */
const lockTimeout = '1s'

type Grown = Texts<'name'> & Flags<'parent' | 'published'>

/** Analyzes the parents of these definitions and every table of `bi` that changed enough since it was last analyzed. Returns their names; one that others hold is left for the next time. */
export const analyzeChanged = async (database: Database, definitions: readonly Definition[]): Promise<string[]> => {
  const done: string[] = []
  for (const table of await changedTables(database.kysely, definitions)) if (await analyze(database, table)) done.push(table.name)
  return done
}

const changedTables = (db: Db, definitions: readonly Definition[]): Promise<readonly Grown[]> => {
  const parents = definitions.map((definition) => `data.${tableName(definition)}`)
  return query<Grown>(db)`
    with counted as (
      select c.oid, c.relkind = 'p' as parent, n.nspname = 'bi' as published, c.reltuples, case when c.relkind = 'p'
        then (select coalesce(sum(s.n_live_tup), 0) from pg_inherits i join pg_stat_all_tables s on s.relid = i.inhrelid where i.inhparent = c.oid)
        else (select s.n_live_tup from pg_stat_all_tables s where s.relid = c.oid) end as rows
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.oid = any(array(select to_regclass(name) from unnest(${parents}::text[]) as name)) or (n.nspname = 'bi' and c.relkind = 'r')
    )
    select oid::regclass::text as name, parent, published from counted
    where rows > ${fewRows} and abs(rows - greatest(reltuples, 0)) * 100 > ${changedPercent} * rows order by 1`
}

const analyze = async ({ kysely }: Database, { name, parent, published }: Grown): Promise<boolean> => {
  try {
    await kysely.transaction().execute(async (trx) => {
      await sql`set local lock_timeout = ${sql.lit(lockTimeout)}`.execute(trx)
      if (parent) await sql`set local default_statistics_target = ${sql.lit(parentTarget)}`.execute(trx)
      // Tables of bi are their owner's, which a loader need not be.
      await (published ? sql`select etl.analyze_published(${name}::regclass)` : sql`analyze ${sql.raw(name)}`).execute(trx)
    })
    return true
  } catch (error) {
    // Somebody holds it: lock_not_available.
    if (isDatabaseError(error) && sqlStateOf(error) === '55P03') return false
    throw error
  }
}
