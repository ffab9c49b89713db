// How much an answer changes figures, computed from the rows that a load compares and writes anyway: nothing is read for it.
import { type RawBuilder, sql } from 'kysely'
import { columnTypes } from '../core/column-types.ts'
import type { Column, Definition } from '../core/types.ts'
import { measureColumns } from './table-columns.ts'

/** Rows whose figure changed, and the sums of their changes as parts of the larger of both values, without and with the sign. */
interface FigureChanges {
  readonly rows: number
  readonly size: number
  readonly shift: number
}

/** By number of the unit and name of the column. */
export type ChangesByUnit = ReadonlyMap<number, ReadonlyMap<string, FigureChanges>>

const figuresOf = (definition: Definition): readonly Column[] =>
  measureColumns(definition).filter(({ type }) => columnTypes[type].isNumber)

/** Changes are computed for up to so many rows of an answer; of a larger one, for a random sample of so many. */
const drawnRows = 20_000

/** A part of the rows, from 0 to 1. @param rows of the answer */
const partOf = (rows: number): number => Math.min(1, drawnRows / Math.max(1, rows))

/** For each figure its change from `t` to `s`, as real[]; NULL where one of them has none. Of the larger of both, so that no figure is out of range. */
export const changesBetween = (definition: Definition, rows: number): RawBuilder<unknown> =>
  sql`case when ${sql.lit(partOf(rows))} = 1 or random() < ${sql.lit(partOf(rows))} then array[${sql.join(
    figuresOf(definition).map(({ name }) => {
      const [came, loaded] = [sql`${sql.ref(`s.${name}`)}::numeric`, sql`${sql.ref(`t.${name}`)}::numeric`]
      return sql`round((${came} - ${loaded}) / nullif(greatest(abs(${came}), abs(${loaded})), 0), 6)`
    }),
  )}]::real[] end`

/** Of a column of such arrays: float8[] of the three sums of each figure. */
export const sumOfChanges = (definition: Definition, column: string): RawBuilder<unknown> =>
  sql`array[${sql.join(
    figuresOf(definition).map((_, at) => {
      const change = sql`${sql.ref(column)}[${sql.lit(at + 1)}]`
      return sql`count(*) filter (where ${change} <> 0), sum(abs(${change})), sum(${change})`
    }),
  )}]::float8[]`

/** Scales the sums of the sample up to all rows. @param sums as `sumOfChanges` has them @param rows of the answer */
export const readChanges = (
  definition: Definition,
  sums: readonly (number | null)[],
  rows: number,
): ReadonlyMap<string, FigureChanges> => {
  const sum = (at: number): number => (sums[at] ?? 0) / partOf(rows)
  return new Map(
    figuresOf(definition).map(({ name }, at) => [name, { rows: sum(3 * at), size: sum(3 * at + 1), shift: sum(3 * at + 2) }]),
  )
}

/** Of several units together; null: no figure changed. */
export const addChanges = (changes: ChangesByUnit, units: readonly number[]): Readonly<Record<string, FigureChanges>> | null => {
  const all = units.flatMap((unit) => [...(changes.get(unit) ?? [])]).filter(([, { rows }]) => rows > 0)
  if (all.length === 0) return null
  const sum = (of: (one: FigureChanges) => number, some: typeof all): number =>
    some.reduce((total, [, one]) => total + of(one), 0)
  return Object.fromEntries(
    [...Map.groupBy(all, ([name]) => name)].map(([name, some]) => [
      name,
      { rows: sum(({ rows }) => rows, some), size: sum(({ size }) => size, some), shift: sum(({ shift }) => shift, some) },
    ]),
  )
}
