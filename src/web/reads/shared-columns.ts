// Columns that several reads share: bigint columns as numbers (bigint is text in JavaScript, but figures for people and charts fit a double); and boxes (units
// requested together) with their key.
import { type AliasedRawBuilder, type RawBuilder, sql } from 'kysely'
import type { Slice } from '../../core/types.ts'
import { unitKey } from '../../core/unit-key.ts'
import { asNumber, type Row } from '../../db/typed-row.ts'

/** Columns as numbers, under their names without the table's alias. */
export const asNumbers = <Name extends string>(table: string, ...names: readonly Name[]): AliasedRawBuilder<number, Name>[] =>
  names.map((name) => asNumber(`${table}.${name}`).as(name))

/** The same where there may be none. */
export const asNumbersOrNull = <Name extends string>(
  table: string,
  ...names: readonly Name[]
): AliasedRawBuilder<number | null, Name>[] => asNumbers(table, ...names)

/** Whether the column is one of the numbers; false for an empty list. */
export const amongIds = (column: string, ids: readonly number[]): RawBuilder<boolean> =>
  sql<boolean>`${sql.ref(column)} = any(${sql.val([...ids])}::bigint[])`

/** A box of more slices is named by their number: its values are not read. */
const mostSlices = 1_000

/** Columns of a box; `p` is its pipeline, `b` the job or load that has the box. */
export const boxColumns = [
  'p.pipeline',
  'p.version',
  'b.window_from',
  'b.window_to',
  sql<number>`cardinality(b.slice_ids)`.as('slices'),
  sql<Slice | null>`case when cardinality(b.slice_ids) <= ${sql.lit(mostSlices)} then etl.box_slice(p.dimensions, b.slice_ids) end`.as(
    'slice',
  ),
] as const

/** `slice`: a value or a list of them by dimension; null: too many to list. */
export type BoxColumns = Row<'etl.pipelines', 'pipeline' | 'version'> &
  Row<'etl.jobs', 'window_from' | 'window_to'> & { readonly slices: number; readonly slice: Slice | null }

/** The key that messages name it by; with very many slices, their number. */
export const boxKey = ({ pipeline, version, window_from, window_to, slices, slice }: BoxColumns): string => {
  const key = unitKey(pipeline, version, { from: window_from, to: window_to }, slice ?? {})
  return slice === null ? `${key}/${slices} slices` : key
}
