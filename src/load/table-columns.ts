// A definition's columns as SQL: what is staged, what is constant for a scope, and which rows a scope may touch.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Column, ColumnType, Definition, Window } from '../core/types.ts'
import { type MergeScope, sameUnit } from './merge-scope.ts'

/** Without the schema; the version is part of the name. */
export const tableName = (definition: Definition): string => `${definition.pipeline}_v${definition.version}`

/** Current rows. */
export const dataTable = (definition: Definition): RawBuilder<unknown> => sql.table(`data.${tableName(definition)}`)

/** Ended revisions. */
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
export const stagedKey = (definition: Definition): readonly Column[] =>
  keyColumns(definition).filter((column) => column.origin === 'response')

/** Type names are ours (checked by the definition), so they may stand in SQL as they are. */
export const typed = (value: unknown, type: ColumnType): RawBuilder<unknown> => sql`${value}::${sql.raw(type)}`

type Constant = string | boolean | number | readonly string[]
type ConstantScope = Pick<MergeScope, 'name' | 'window' | 'slice'>

/** The scope's value of a column that does not come with the answer. */
const constantOf = (definition: Definition, scope: ConstantScope, column: Column): Constant => {
  if (column.origin === 'window') return scope.window.from
  const value = column.origin === 'slice' ? scope.slice[column.name] : definition.params[column.name]
  if (value === undefined || (column.origin === 'slice' && typeof value !== 'string'))
    throw new EtlError('INTERNAL', `${scope.name}: column ${column.name} has no ${column.origin} value of its own.`)
  return value
}

/** Columns that do not come with the answer, with the scope's values. */
export const constantColumns = (
  definition: Definition,
  scope: ConstantScope,
): readonly { readonly column: Column; readonly value: Constant }[] =>
  definition.columns
    .filter(({ origin }) => origin !== 'response')
    .map((column) => ({ column, value: constantOf(definition, scope, column) }))

/** `alias.column` of each staged column and the scope's constants for the others, in definition order. */
export const rowExpressions = (definition: Definition, scope: MergeScope, alias: string): RawBuilder<unknown>[] =>
  definition.columns.map((column) =>
    column.origin === 'response'
      ? sql`${sql.ref(`${alias}.${column.name}`)}`
      : typed(constantOf(definition, scope, column), column.type),
  )

/** True for exactly the rows the scope answers for: its window, its units, and the parameters that are part of the key. */
export const scopeOf = (definition: Definition, scope: MergeScope, alias: string): RawBuilder<unknown> => {
  const constants = joinedScopeOf(definition, scope, alias)
  if (scope.kind === 'one') return constants
  const { accepted, isWhole } = scope
  if (isWhole) return sql.join([constants, ...accepted.columns.map((column) => amongValues(scope, column, alias))], sql` and `)
  return sql`${constants} and exists (select 1 from ${accepted.name} taken
    where taken._outcome = 'accepted' and ${sameUnit(accepted, 'taken', alias)})`
}

const amongValues = ({ slice }: MergeScope, { name, type }: Column, alias: string): RawBuilder<unknown> =>
  sql`${sql.ref(`${alias}.${name}`)} = any(${[slice[name] ?? []].flat()}::${sql.raw(type)}[])`

/**
 * The scope of a statement whose rows are joined by key with rows that were found within the scope. What tells many units apart comes with
 * the answer, hence with the join.
 */
export const joinedScopeOf = (definition: Definition, scope: MergeScope, alias: string): RawBuilder<unknown> =>
  sql.join(
    [
      inWindow(definition, scope.window, `${alias}.${periodColumn(definition)}`),
      ...constantKeys(definition, scope).map(
        ({ column, value }) => sql`${sql.ref(`${alias}.${column.name}`)} = ${typed(value, column.type)}`,
      ),
    ],
    sql` and `,
  )

const constantKeys = (definition: Definition, scope: MergeScope) => {
  const told = scope.kind === 'one' ? [] : scope.accepted.columns.map(({ name }) => name)
  return keyColumns(definition).flatMap((column) => {
    const value = scope.slice[column.name] ?? (column.origin === 'param' ? definition.params[column.name] : undefined)
    return value === undefined || column.name === periodColumn(definition) || told.includes(column.name)
      ? []
      : [{ column, value }]
  })
}

/** A period that can only be the window's first day is looked up as such: a range of it would read the whole month of the index. */
export const inWindow = (definition: Definition, { from, to }: Window, column: string): RawBuilder<unknown> =>
  hasOnePeriod(definition)
    ? sql`${sql.ref(column)} = ${from}::date`
    : sql`${sql.ref(column)} >= ${from}::date and ${sql.ref(column)} < ${to}::date`

// Rows of monthly figures differ from others in their key, and parsing has brought their dates to the first of the month.
const hasOnePeriod = (definition: Definition): boolean =>
  keyColumns(definition).some(
    ({ name, origin, normalize }) =>
      name === periodColumn(definition) &&
      (origin === 'window' || (normalize === 'period_start' && definition.window.every === 'month' && isMonthly(definition))),
  )

const isMonthly = ({ period }: Definition): boolean => period.isInKey && period.every === 'month'

/** Staged rows that belong to the scope, as a table; those of many units bear the unit's number as `_unit`. @param table quoted name */
export const stagedRows = (definition: Definition, scope: MergeScope, table: string): RawBuilder<unknown> => {
  if (scope.kind === 'one') return sql.raw(table)
  const { accepted } = scope
  return sql`(select staged.*, taken._unit_id as _unit from ${sql.raw(table)} staged join ${accepted.name} taken
    on taken._outcome = 'accepted' and ${sameUnit(accepted, 'taken', 'staged')} where ${stagedInWindow(definition, scope)})`
}

/** The same rows without the number of their unit. */
export const bareStagedRows = (definition: Definition, scope: MergeScope, table: string): RawBuilder<unknown> =>
  scope.kind === 'one' || !scope.isWhole
    ? stagedRows(definition, scope, table)
    : sql`(select staged.* from ${sql.raw(table)} staged where ${stagedInWindow(definition, scope)})`

const stagedInWindow = (definition: Definition, { window }: MergeScope): RawBuilder<unknown> =>
  stagedColumns(definition).some(({ name }) => name === periodColumn(definition))
    ? inWindow(definition, window, `staged.${periodColumn(definition)}`)
    : sql`true`

/** `a.key = b.key` over the staged key columns; the others are constant within a scope. */
export const sameKey = (definition: Definition, left: string, right: string): RawBuilder<unknown> => {
  const staged = stagedKey(definition)
  if (staged.length === 0) return sql`true`
  return sql.join(
    staged.map((column) => sql`${sql.ref(`${left}.${column.name}`)} = ${sql.ref(`${right}.${column.name}`)}`),
    sql` and `,
  )
}

/** Quoted and joined by commas. */
export const names = (columns: readonly { readonly name: string }[]): RawBuilder<unknown> =>
  sql.join(columns.map((column) => sql.ref(column.name)))
