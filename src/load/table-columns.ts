// A definition's columns as SQL: which are copied, which rows an answer covers, and when two rows are the same.
import { type RawBuilder, sql } from 'kysely'
import type { ColumnType } from '../core/column-types.ts'
import { EtlError } from '../core/errors.ts'
import type { Box, Column, Definition, Slice, Window } from '../core/types.ts'

/** What each row bears besides its own columns, with the type as the catalog writes it. */
export const lineage: Readonly<Record<string, string>> = {
  ...{ _unit_id: 'bigint', _run_id: 'bigint', _revision: 'integer', _loaded_at: 'timestamp with time zone' },
}

/** Without the schema; the version is part of the name. */
export const tableName = (definition: Definition): string => `${definition.pipeline}_v${definition.version}`

/** Current rows. */
export const dataTable = (definition: Definition): RawBuilder<unknown> => sql.table(`data.${tableName(definition)}`)

/** Ended revisions. */
export const historyTable = (definition: Definition): RawBuilder<unknown> => sql.table(`data.${tableName(definition)}_history`)

/** Columns that come with the answer, in definition order. */
export const parsedColumns = (definition: Definition): readonly Column[] =>
  definition.columns.filter((column) => column.origin === 'response')

/** In the order of the COPY, which the number of the row's unit follows: what comes with the answer, then what is the same in all its rows. */
export const copiedColumns = (definition: Definition): readonly Column[] => [
  ...parsedColumns(definition),
  ...definition.columns.filter((column) => column.origin !== 'response'),
]

/** The column the table is partitioned by: the key's `month` or `date`. */
export const periodColumn = (definition: Definition): string => {
  const name = definition.key.find((column) => column === 'month' || column === 'date')
  if (name === undefined)
    throw new EtlError('DEFINITION', `${definition.pipeline}: the key has neither month nor date; one of them names the period.`)
  return name
}

/** A change in one of them is a new revision. */
export const measureColumns = (definition: Definition): readonly Column[] => definition.columns.filter((column) => !column.isKey)

/** In the order of the key. */
export const keyColumns = (definition: Definition): readonly Column[] =>
  definition.key.map((name) => {
    const column = definition.columns.find((candidate) => candidate.name === name)
    if (column === undefined) throw new EtlError('INTERNAL', `${definition.pipeline}: key column ${name} has no definition.`)
    return column
  })

/** Key columns that come with the answer, in key order. */
export const parsedKey = (definition: Definition): readonly Column[] =>
  keyColumns(definition).filter((column) => column.origin === 'response')

/** Key columns that assign the rows of an answer to the slices of a box. */
export const unitColumns = (definition: Definition): readonly Column[] =>
  parsedKey(definition).filter(({ name }) => definition.dimensions.some((dimension) => dimension.name === name))

/** Type names are ours (checked by the definition), so they may stand in SQL as they are. */
export const typed = (value: unknown, type: ColumnType): RawBuilder<unknown> => sql`${value}::${sql.raw(type)}`

type Constant = string | boolean | number | readonly string[]

/** Columns that do not come with the answer, with their value. Throws DEFINITION where the box has several values of one. */
export const constantColumns = (
  definition: Definition,
  { key, window, slice }: Pick<Box, 'key' | 'window' | 'slice'>,
): readonly { readonly column: Column; readonly value: Constant }[] => {
  const constantOf = ({ name, origin }: Column): Constant => {
    if (origin === 'window') return window.from
    const value = origin === 'slice' ? slice[name] : definition.params[name]
    if (origin === 'slice' && typeof value === 'object') throw cannotShare(key, name)
    if (value === undefined) throw new EtlError('INTERNAL', `${key}: column ${name} has no ${origin} value of its own.`)
    return value
  }
  for (const [name, value] of Object.entries(slice))
    if (typeof value !== 'string' && !unitColumns(definition).some((column) => column.name === name)) throw cannotShare(key, name)
  return copiedColumns(definition)
    .filter(({ origin }) => origin !== 'response')
    .map((column) => ({ column, value: constantOf(column) }))
}

const cannotShare = (key: string, dimension: string): EtlError =>
  new EtlError(
    'DEFINITION',
    `${key}: the answer has rows of several values of ${dimension}, and no key column says which row is whose. ` +
      `Name a field of the response in columns.${dimension}.from, or request one value at a time.`,
  )

/** What a load may touch: rows of these windows and values, but for units that keep what they have. */
export interface UnitScope {
  readonly window: Window
  /** All values of the units; every combination of them is one of the units. */
  readonly slice: Slice
  /** Numbers of units whose rows are left alone. */
  readonly leftOut: readonly number[]
}

/**
 * True for exactly the rows of the scope. Decided by their keys and not by their numbers, so that the next load of the unit ends or corrects a row that
 * somebody put there by hand, on another day or with another number.
 */
export const inScope = (definition: Definition, scope: UnitScope, alias: string): RawBuilder<unknown> => {
  const kept =
    scope.leftOut.length === 0 ? [] : [sql`${sql.ref(`${alias}._unit_id`)} <> all(${scope.leftOut.map(String)}::bigint[])`]
  return sql.join([isOfValues(definition, scope, alias), ...kept], sql` and `)
}

/** The same for tables that do not know units. */
export const isOfValues = (
  definition: Definition,
  { window, slice }: Pick<UnitScope, 'window' | 'slice'>,
  alias: string,
): RawBuilder<unknown> => {
  const conditions = keyColumns(definition).flatMap(({ name, origin, type }) => {
    const value = slice[name] ?? (origin === 'param' ? definition.params[name] : undefined)
    if (value === undefined || name === periodColumn(definition)) return []
    const column = sql.ref(`${alias}.${name}`)
    const isList = origin !== 'param' && typeof value === 'object'
    return [isList ? sql`${column} = any(${value}::${sql.raw(type)}[])` : sql`${column} = ${typed(value, type)}`]
  })
  return sql.join([inWindow(definition, window, alias), ...conditions], sql` and `)
}

export const inWindow = (definition: Definition, { from, to }: Window, alias: string): RawBuilder<unknown> => {
  const period = sql.ref(`${alias}.${periodColumn(definition)}`)
  return sql`${period} >= ${from}::date and ${period} < ${to}::date`
}

/** `a.key = b.key` for the key columns that come with the answer; the others are the same in all rows of a scope. */
export const sameKey = (definition: Definition, left: string, right: string): RawBuilder<unknown> => {
  const inAnswer = parsedKey(definition)
  if (inAnswer.length === 0) return sql`true`
  return sql.join(
    inAnswer.map((column) => sql`${sql.ref(`${left}.${column.name}`)} = ${sql.ref(`${right}.${column.name}`)}`),
    sql` and `,
  )
}

/** Quoted and joined by commas. */
export const names = (columns: readonly { readonly name: string }[]): RawBuilder<unknown> =>
  sql.join(columns.map((column) => sql.ref(column.name)))
