// What a merge answers for: one unit, known by constants, or the accepted units of one window of an answer, known by a table.
import { type RawBuilder, sql } from 'kysely'
import type { Box, Column, Definition, Slice, Window } from '../core/types.ts'

interface Scope {
  /** For messages. */
  readonly name: string
  readonly window: Window
  /** Values of the dimensions; several of one only where the accepted units' table tells them apart. */
  readonly slice: Slice
}

/** Its values are constants of the statement. */
export interface OneUnit extends Scope {
  readonly kind: 'one'
  readonly unitId: number | string | RawBuilder<unknown>
}

/** Their values stand in a table. */
export interface ManyUnits extends Scope {
  readonly kind: 'many'
  readonly accepted: AcceptedTable
  /** Every unit of the box takes the answer, and nothing but theirs is staged: then the values of the slice name the same units, in less time. */
  readonly isWhole: boolean
}

/** What a merge may touch. */
export type MergeScope = OneUnit | ManyUnits

/** Units of one window by the values that come with their rows; see accepted-units.ts. */
export interface AcceptedTable {
  readonly name: RawBuilder<unknown>
  /** Columns of the answer that tell the units apart. */
  readonly columns: readonly Column[]
}

/** @param unitId a number, or SQL that gives it */
export const oneUnit = (unit: Pick<Box, 'key' | 'window' | 'slice'>, unitId: OneUnit['unitId']): OneUnit => ({
  kind: 'one',
  name: unit.key,
  window: unit.window,
  slice: unit.slice,
  unitId,
})

/** @param isWhole see `ManyUnits` */
export const manyUnits = (
  box: Pick<Box, 'key' | 'slice'>,
  window: Window,
  accepted: AcceptedTable,
  isWhole = false,
): ManyUnits => ({
  kind: 'many',
  isWhole,
  name: `${box.key}, window of ${window.from}`,
  window,
  slice: box.slice,
  accepted,
})

/** The unit that a row of `alias` belongs to; rows of many units bear it as `_unit`. */
export const unitIdOf = (scope: MergeScope, alias: string): RawBuilder<unknown> =>
  scope.kind === 'one' ? sql`${scope.unitId}::bigint` : sql.ref(`${alias}._unit`)

/** `a.domain = t.domain and …` over what tells the units apart. @param units alias of the accepted units' table */
export const sameUnit = ({ columns }: AcceptedTable, units: string, rows: string): RawBuilder<unknown> =>
  columns.length === 0
    ? sql`true`
    : sql.join(
        columns.map(({ name }) => sql`${sql.ref(`${units}.${name}`)} = ${sql.ref(`${rows}.${name}`)}`),
        sql` and `,
      )

/** Key columns by which an answer's rows are shared out among the units of a box. */
export const unitColumns = (definition: Definition): readonly Column[] =>
  definition.key.flatMap((name) =>
    definition.columns.filter(
      (column) =>
        column.name === name &&
        column.origin === 'response' &&
        definition.dimensions.some((dimension) => dimension.name === name),
    ),
  )
