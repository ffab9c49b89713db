// Keys that come twice in one answer: identical rows collapse, conflicting ones leave the staging altogether.
import { sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import type { Staging } from './staging.ts'
import { keyColumns, measureColumns, names } from './table-columns.ts'

/** Rows that share a key and differ, by their place among the staged rows (from 1), and the key they share. */
export interface Conflict {
  readonly ordinals: readonly number[]
  readonly key: readonly (string | null)[]
}

export const dedupeStaging = async (
  session: Session,
  definition: Definition,
  staging: Staging,
): Promise<{ duplicates: number; conflicts: Conflict[] }> => {
  const staged = keyColumns(definition).filter((column) => column.origin === 'response')
  const measures = measureColumns(definition).filter((column) => column.origin === 'response')
  const table = sql.raw(staging.table)
  const key = staged.length === 0 ? sql`true` : names(staged)
  const value = sql`row(${measures.length === 0 ? sql`1` : names(measures)})`
  await sql`create temporary table "repeated" on commit drop as
    select at, ordinal, bool_or(differs) over (partition by key_number) as conflicts, place, key_number from (
      select ctid as at, ordinal, place, key_number, ${value} is distinct from first_value(${value}) over (partition by key_number order by ordinal) as differs
      from (select *, ctid, dense_rank() over (order by ${key}) as key_number, row_number() over (order by ctid) as ordinal,
          row_number() over (partition by ${key} order by ctid) as place, count(*) over (partition by ${key}) as copies from ${table}) numbered
      where copies > 1) compared`.execute(session.kysely)
  const { rows } = await sql<{ ordinals: string[]; key: (string | null)[] }>`
    select array_agg(r.ordinal order by r.ordinal) as ordinals,
      (array_agg(array[${staged.length === 0 ? sql`null` : sql.join(staged.map((column) => sql`${sql.ref(`s.${column.name}`)}::text`))}]::text[]
        order by r.ordinal))[1:1] as key
    from "repeated" r join ${table} s on s.ctid = r.at where r.conflicts group by r.key_number`.execute(session.kysely)
  const removed = await sql<{ conflicts: boolean }>`
    delete from ${table} s using "repeated" r where s.ctid = r.at and (r.conflicts or r.place > 1) returning r.conflicts`.execute(
    session.kysely,
  )
  await sql`drop table "repeated"`.execute(session.kysely)
  return {
    duplicates: removed.rows.filter((row) => !row.conflicts).length,
    conflicts: rows.map((row) => ({ ordinals: row.ordinals.map(Number), key: row.key.flat() })),
  }
}
