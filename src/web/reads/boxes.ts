// What is asked for together, for people: the key of a box, from the values that the ledger gives for it.
import { sql } from 'kysely'
import type { Slice } from '../../core/types.ts'
import { boxOf } from '../../core/unit-key.ts'

/** A box of more slices is named by their number: its values are not read. */
const mostSlices = 1_000

/** Columns every box is read with; `p` is its pipeline, `b` what bears the box. */
export const boxColumns = [
  'p.pipeline',
  'p.version',
  'b.window_from',
  'b.window_to',
  sql<number>`cardinality(b.slice_ids)`.as('slices'),
  sql<unknown>`case when cardinality(b.slice_ids) <= ${sql.lit(mostSlices)} then etl.box_slice(p.dimensions, b.slice_ids) end`.as(
    'slice',
  ),
] as const

export interface BoxColumns {
  readonly pipeline: string
  readonly version: number
  readonly window_from: string
  readonly window_to: string
  readonly slices: number
  /** A value or a list of them by dimension; null: too many to list. */
  readonly slice: unknown
}

/** The key that messages name it by; with very many slices, their number. */
export const boxKey = ({ pipeline, version, window_from, window_to, slices, slice }: BoxColumns): string => {
  const window = { from: window_from, to: window_to }
  const lists = slice === null ? null : Object.entries(sliceOf(slice)).map(([name, value]) => [name, asList(value)] as const)
  if (lists === null) {
    const bare = boxOf({ pipeline, version, window, dimensions: [], slices: [] }).key
    return `${bare}/${slices} slices`
  }
  // A box is every combination of its values, so that any rows that hold each value once stand for it.
  const most = Math.max(1, ...lists.map(([, values]) => values.length))
  return boxOf({
    pipeline,
    version,
    window,
    dimensions: lists.map(([name]) => name),
    slices: Array.from({ length: most }, (_, row) => lists.map(([, values]) => values[Math.min(row, values.length - 1)] ?? '')),
  }).key
}

const asList = (value: string | readonly string[]): readonly string[] => (typeof value === 'string' ? [value] : value)

const isValue = (value: unknown): value is string | string[] =>
  typeof value === 'string' || (Array.isArray(value) && value.every((one) => typeof one === 'string'))

/** What the ledger gives as jsonb, as values by dimension. */
const sliceOf = (slice: unknown): Slice =>
  Object.fromEntries(Object.entries(slice ?? {}).flatMap(([name, value]) => (isValue(value) ? [[name, value] as const] : [])))
