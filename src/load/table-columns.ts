// A definition's columns as SQL: what is staged, what is constant for a unit, and which rows a unit may touch.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Column, ColumnType, Definition, Unit } from '../core/types.ts'

export const tableName = (definition: Definition): string => `${definition.pipeline}_v${definition.version}`

export const dataTable = (definition: Definition): RawBuilder<unknown> => sql.table(`data.${tableName(definition)}`)

export const historyTable = (definition: Definition): RawBuilder<unknown> => sql.table(`data.${tableName(definition)}_history`)

/** Columns that come with the answer, in definition order: the order of the COPY. */
export const stagedColumns = (definition: Definition): readonly Column[] =>
  definition.columns.filter((column) => column.origin === 'response')

/** The column the table is partitioned by: the key's `month` or `date`. */
export const periodColumn = (definition: Definition): string => {
  const name = definition.key.find((column) => column === 'month' || column === 'date')
  if (name === undefined)
    throw new EtlError('DEFINITION', `${definition.pipeline}: the key has neither month nor date; one of them names the period.`)
  return name
}

export const measureColumns = (definition: Definition): readonly Column[] => definition.columns.filter((column) => !column.isKey)

export const keyColumns = (definition: Definition): readonly Column[] =>
  definition.key.map((name) => {
    const column = definition.columns.find((candidate) => candidate.name === name)
    if (column === undefined) throw new EtlError('INTERNAL', `${definition.pipeline}: key column ${name} has no definition.`)
    return column
  })

/** Type names are ours (checked by the definition), so they may stand in SQL as they are. */
export const typed = (value: unknown, type: ColumnType): RawBuilder<unknown> => sql`${value}::${sql.raw(type)}`

/** The unit's value of a column that does not come with the answer. */
export const constantOf = (definition: Definition, unit: Unit, column: Column): string | boolean | number | readonly string[] => {
  if (column.origin === 'window') return unit.window.from
  const value = column.origin === 'slice' ? unit.slice[column.name] : definition.params[column.name]
  if (value === undefined) throw new EtlError('INTERNAL', `${unit.key}: column ${column.name} has no ${column.origin} value.`)
  return value
}

/** `alias.column` of each staged column and the unit's constants for the others, in definition order. */
export const rowExpressions = (definition: Definition, unit: Unit, alias: string): RawBuilder<unknown>[] =>
  definition.columns.map((column) =>
    column.origin === 'response'
      ? sql`${sql.ref(`${alias}.${column.name}`)}`
      : typed(constantOf(definition, unit, column), column.type),
  )

/** True for exactly the rows the unit answers for: its window, its slice, and the parameters that are part of the key. */
export const scopeOf = (definition: Definition, unit: Unit, alias: string): RawBuilder<unknown> =>
  sql.join([...single(definition, unit, alias), ...listed(definition, unit, alias)], sql` and `)

/**
 * The scope of a statement whose rows are joined by key with rows that were found within the scope. What the unit holds several values of
 * comes with the answer, hence with the join; naming the lists again would only keep the planner from looking rows up by their key.
 */
export const joinedScopeOf = (definition: Definition, unit: Unit, alias: string): RawBuilder<unknown> =>
  sql.join(single(definition, unit, alias), sql` and `)

const scopeValues = (definition: Definition, unit: Unit) =>
  keyColumns(definition).flatMap((column) => {
    const value = unit.slice[column.name] ?? (column.origin === 'param' ? definition.params[column.name] : undefined)
    // A list that does not come with the answer would not be in the join.
    const isListed = Array.isArray(value) && column.origin === 'response'
    return value === undefined || column.name === periodColumn(definition) ? [] : [{ column, value, isListed }]
  })

const condition = (alias: string, column: Column, value: unknown): RawBuilder<unknown> => {
  const reference = sql.ref(`${alias}.${column.name}`)
  return Array.isArray(value)
    ? sql`${reference} = any(${[...value]}::${sql.raw(column.type)}[])`
    : sql`${reference} = ${typed(value, column.type)}`
}

const single = (definition: Definition, unit: Unit, alias: string): RawBuilder<unknown>[] => {
  const period = sql.ref(`${alias}.${periodColumn(definition)}`)
  return [
    sql`${period} >= ${unit.window.from}::date`,
    sql`${period} < ${unit.window.to}::date`,
    ...scopeValues(definition, unit)
      .filter(({ isListed }) => !isListed)
      .map(({ column, value }) => condition(alias, column, value)),
  ]
}

const listed = (definition: Definition, unit: Unit, alias: string): RawBuilder<unknown>[] =>
  scopeValues(definition, unit)
    .filter(({ isListed }) => isListed)
    .map(({ column, value }) => condition(alias, column, value))

/** `a.key = b.key` over the staged key columns; the others are constant within a unit. */
export const sameKey = (definition: Definition, left: string, right: string): RawBuilder<unknown> => {
  const staged = keyColumns(definition).filter((column) => column.origin === 'response')
  if (staged.length === 0) return sql`true`
  return sql.join(
    staged.map((column) => sql`${sql.ref(`${left}.${column.name}`)} = ${sql.ref(`${right}.${column.name}`)}`),
    sql` and `,
  )
}

export const names = (columns: readonly { readonly name: string }[]): RawBuilder<unknown> =>
  sql.join(columns.map((column) => sql.ref(column.name)))
