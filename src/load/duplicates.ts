// Keys that come twice in one answer: of identical rows one stays, conflicting rows all leave the staging table. Only deduplicating loads look for them.
import { columnTypes } from '../core/column-types.ts'
import { sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import { type Counts, type Flags, type Lists, type Maybe, query, type Texts } from '../db/typed-row.ts'
import type { StagingTable } from './difference.ts'
import { measureColumns, names, parsedKey } from './table-columns.ts'

/** What was found of rows that share a key, and taken out. */
export type Repeated = Awaited<ReturnType<typeof removeRepeated>>

/** Of an answer where no key comes twice. */
export const noneRepeated: Repeated = {
  duplicates: new Map(),
  conflicts: [],
  conflictingKeys: 0,
  filled: { duplicates: 0, conflicts: 0 },
}

type Found = Counts<'unit_id' | 'rows' | 'filled'> & Maybe<Counts<'n'>> & Flags<'conflicts' | 'first'> & Lists<Texts<'key'>>

/** Finds and removes them, except the first of identical rows; then removes all rows of units that the job is not for. */
export const removeRepeated = async ({ kysely }: Session, definition: Definition, { table }: StagingTable) => {
  const inAnswer = parsedKey(definition)
  const measures = measureColumns(definition).filter((column) => column.origin === 'response')
  const key = inAnswer.length === 0 ? sql`true` : names(inAnswer)
  const texts = inAnswer.length === 0 ? sql`null` : sql.join(inAnswer.map(({ name }) => sql`${sql.ref(`t.${name}`)}::text`))
  const value = sql`row(${measures.length === 0 ? sql`1` : names(measures)})`
  const values = measures.map(({ name, type }) =>
    columnTypes[type].isText ? sql`nullif(${sql.ref(`t.${name}`)}, '')` : sql.ref(`t.${name}`),
  )
  const rows = await query<Found>(kysely)`
    with repeated as materialized (
      select _n, _place, bool_or(differs) over (partition by _key_number) as conflicts from (
        select _n, _place, _key_number, ${value} is distinct from first_value(${value}) over (partition by _key_number order by _n) as differs
        from (select *, dense_rank() over (order by ${key}) as _key_number, row_number() over (partition by ${key} order by _n) as _place,
            count(*) over (partition by ${key}) as _copies from ${table}) numbered
        where _copies > 1) compared
    ), removed as (
      delete from ${table} t using repeated r where t._n = r._n and (r.conflicts or r._place > 1)
      returning t._n as n, t._unit_id as unit_id, r.conflicts, r._place = 1 as first, array[${texts}]::text[] as key,
        ${measures.length === 0 ? sql`0` : sql`num_nonnulls(${sql.join(values)})`} as filled
    )
    select null::bigint as n, unit_id, false as conflicts, false as first, '{}'::text[] as key, count(*) as rows, sum(filled) as filled
    from removed where not conflicts group by unit_id
    union all select n, unit_id, true, first, key, 1, filled from removed where conflicts order by n`
  await sql`delete from ${table} where _unit_id = 0`.execute(kysely)
  const twins = rows.filter(({ conflicts }) => !conflicts)
  const conflicts = rows.filter((row) => row.conflicts)
  const filledOf = (some: readonly Found[]): number => some.reduce((sum, row) => sum + Number(row.filled), 0)
  return {
    /** Rows beyond the first of identical ones, by number of the unit. */
    duplicates: new Map(twins.map((row) => [Number(row.unit_id), Number(row.rows)])),
    /** Rows that share a key and differ, of which none is loaded: place among those of the answer, from 1; unit, 0: the job is not for it; parsed key columns, in key order. */
    conflicts: conflicts.map((row) => ({ ordinal: Number(row.n), unitId: Number(row.unit_id), key: row.key })),
    /** How many keys they share. */
    conflictingKeys: conflicts.filter(({ first }) => first).length,
    /** Values of measures: in the duplicates, and in all but the first of rows that conflict. */
    filled: { duplicates: filledOf(twins), conflicts: filledOf(conflicts.filter(({ first }) => !first)) },
  }
}
