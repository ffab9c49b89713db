// Keys that come twice in one answer: identical rows collapse, conflicting ones leave the staging altogether.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import { anotherWay } from './another-way.ts'
import { type ManyUnits, sameUnit } from './merge-scope.ts'
import type { Staging } from './staging.ts'
import { inWindow, measureColumns, names, periodColumn, stagedKey } from './table-columns.ts'
import type { Counts, Lists } from '../db/row.ts'

/** Rows that share a key and differ, by their place among the staged rows (from 1), and the key they share. */
export interface Conflict {
  readonly ordinals: readonly number[]
  readonly key: readonly (string | null)[]
}

/** What was found of rows that share a key. */
export interface Repeated {
  /** Rows beyond the first of identical ones. */
  readonly duplicates: number
  /** Rows that share their key with others and differ. */
  readonly conflicting: number
  /** Keys that they share. */
  readonly conflictingKeys: number
  /** Places of the first of them, at most as many as asked for. */
  first(most: number): Promise<readonly number[]>
}

/** Filled by `findRepeated`. */
export const repeatedTable = sql.raw('pg_temp."repeated"')

/** Whether any key is there more than once. */
export const hasRepeated = async (session: Session, definition: Definition, staging: Staging): Promise<boolean> => {
  const key = stagedKey(definition)
  const twice = key.length === 0 ? sql`having count(*) > 1` : sql`group by ${names(key)} having count(*) > 1`
  const { rows } = await sql`select 1 from ${sql.raw(staging.table)} ${twice} limit 1`.execute(session.kysely)
  return rows.length > 0
}

/** Fills the session's table of repeated rows, which stays until `dropRepeated`. Asks for another way where rows are not numbered. */
export const findRepeated = async (session: Session, definition: Definition, staging: Staging): Promise<Repeated> => {
  if (!staging.isNumbered) throw anotherWay({ name: staging.table }, 'rows that repeat a key are looked for in staging only')
  const staged = stagedKey(definition)
  const measures = measureColumns(definition).filter((column) => column.origin === 'response')
  const table = sql.raw(staging.table)
  const key = staged.length === 0 ? sql`true` : names(staged)
  const kept = staged.length === 0 ? sql`` : sql`, ${names(staged)}`
  const value = sql`row(${measures.length === 0 ? sql`1` : names(measures)})`
  await dropRepeated(session)
  await sql`create temporary table "repeated" as
    select _n, bool_or(differs) over (partition by _key_number) as _conflicts, _place, _key_number${kept} from (
      select _n, _place, _key_number${kept}, ${value} is distinct from first_value(${value}) over (partition by _key_number order by _n) as differs
      from (select *, dense_rank() over (order by ${key}) as _key_number, row_number() over (partition by ${key} order by _n) as _place,
          count(*) over (partition by ${key}) as _copies from ${table}) numbered
      where _copies > 1) compared`.execute(session.kysely)
  const { rows } = await sql<Counts<'duplicates' | 'conflicting' | 'keys'>>`
    select count(*) filter (where not _conflicts and _place > 1) as duplicates, count(*) filter (where _conflicts) as conflicting,
      count(*) filter (where _conflicts and _place = 1) as keys from ${repeatedTable}`.execute(session.kysely)
  return {
    duplicates: Number(rows[0]?.duplicates ?? 0),
    conflicting: Number(rows[0]?.conflicting ?? 0),
    conflictingKeys: Number(rows[0]?.keys ?? 0),
    first: async (most) => {
      const found = await sql<Counts<'n'>>`
        select _n as n from ${repeatedTable} where _conflicts order by _n limit ${most}`.execute(session.kysely)
      return found.rows.map((row) => Number(row.n))
    },
  }
}

/** Of the repeated rows that were found. */
export const conflictsOf = async (session: Session, definition: Definition): Promise<readonly Conflict[]> => {
  const staged = stagedKey(definition)
  const key = staged.length === 0 ? sql`null` : sql.join(staged.map((column) => sql`${sql.ref(column.name)}::text`))
  const { rows } = await sql<Lists<Counts<'ordinals'>> & Pick<Conflict, 'key'>>`
    select array_agg(_n order by _n) as ordinals, (array_agg(array[${key}]::text[] order by _n))[1:1] as key
    from ${repeatedTable} where _conflicts group by _key_number order by min(_n)`.execute(session.kysely)
  return rows.map((row) => ({ ordinals: row.ordinals.map(Number), key: row.key.flat() }))
}

/** Takes them out of the staging, all but the first of identical ones. */
export const removeRepeated = async (session: Session, staging: Staging): Promise<void> => {
  await sql`delete from ${sql.raw(staging.table)} s using ${repeatedTable} r
    where s._n = r._n and (r._conflicts or r._place > 1)`.execute(session.kysely)
}

/** Idempotent. */
export const dropRepeated = async (session: Session): Promise<void> => {
  await sql`drop table if exists ${repeatedTable}`.execute(session.kysely)
}

/** Of the rows taken out, how many were the accepted units', for the account of their load. */
export const countRemoved = async (
  session: Session,
  definition: Definition,
  { accepted, window }: ManyUnits,
): Promise<{ duplicates: number; conflicting: number }> => {
  const isStaged = stagedKey(definition).some(({ name }) => name === periodColumn(definition))
  const period: RawBuilder<unknown> = isStaged ? inWindow(definition, window, `r.${periodColumn(definition)}`) : sql`true`
  const { rows } = await sql<Counts<'duplicates' | 'conflicting'>>`
    select count(*) filter (where not r._conflicts) as duplicates, count(*) filter (where r._conflicts) as conflicting
    from ${repeatedTable} r join ${accepted.name} taken on taken._outcome = 'accepted' and ${sameUnit(accepted, 'taken', 'r')}
    where ${period} and (r._conflicts or r._place > 1)`.execute(session.kysely)
  return { duplicates: Number(rows[0]?.duplicates ?? 0), conflicting: Number(rows[0]?.conflicting ?? 0) }
}
