// What a key and its columns must hold so that the warehouse can be true to them.
import type { FieldSpec } from '../core/source-spec.ts'
import type { Column, ColumnType, Dimension, WindowSize } from '../core/types.ts'
import { columnNameProblem } from './names.ts'
import type { RawColumn } from './schema.ts'
import { report, type Scope } from './scope.ts'
import type { Path } from './yaml-file.ts'

const keyPath: Path = ['table', 'key']

/** One period column, no name twice, and every dimension: else two units would share rows. */
export const checkKey = (key: readonly string[], dimensions: readonly Dimension[], every: WindowSize, scope: Scope): void => {
  key.forEach((name, index) => {
    if (key.indexOf(name) < index) report(scope, [...keyPath, index], `'${name}' appears twice in the key; keep one of the two.`)
  })
  const periods = key.filter((name) => name === 'month' || name === 'date')
  const wanted = every === 'month' ? "'month' or 'date'" : "'date'"
  if (new Set(periods).size !== 1) {
    const found = periods.length === 0 ? 'no period' : 'month and date'
    report(scope, keyPath, `the key holds ${found}; it needs ${wanted}, the table is partitioned by it.`)
  }
  if (every !== 'month' && key.includes('month')) {
    report(scope, [...keyPath, key.indexOf('month')], `'month' cannot be the period of windows of a ${every}; use 'date'.`)
  }
  for (const { name } of dimensions) {
    if (key.includes(name)) continue
    report(
      scope,
      keyPath,
      `the key lacks '${name}', which for_each runs for: units would overwrite each other's rows. Add it to the key.`,
    )
  }
}

const defaultForms: Readonly<Record<ColumnType, RegExp | null>> = {
  text: /^/,
  bigint: /^-?\d{1,18}$/,
  integer: /^-?\d{1,9}$/,
  numeric: /^-?\d+(\.\d+)?$/,
  boolean: /^(true|false)$/,
  date: /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/,
  timestamptz: null,
  'text[]': null,
}

/** Where a column comes from: as written, as the source knows it, and its place in the YAML. */
export interface ColumnContext {
  readonly raw: RawColumn | undefined
  readonly field: FieldSpec | null
  readonly path: Path
}

/** Whether the resolved column can be what it says; problems go to the scope. */
export const checkColumn = (column: Column, context: ColumnContext, scope: Scope): void => {
  const { name, type, origin } = column
  const { raw, path } = context
  const wrong = columnNameProblem(name)
  if (wrong !== null) report(scope, path, wrong, 'key')
  const absent = raw?.if_absent === undefined ? null : column.ifAbsent
  if (absent !== null && !column.isKey && origin !== 'response') {
    report(scope, [...path, 'if_absent'], `'${name}' is never absent; remove if_absent.`, 'key')
  } else if (absent !== null && !column.isKey && defaultForms[type]?.test(absent) !== true) {
    report(
      scope,
      [...path, 'if_absent'],
      `if_absent '${absent}' is not a ${type}; write a value of that type or remove the line.`,
    )
  }
  const isPeriod = origin === 'window' || (column.isKey && (name === 'month' || name === 'date'))
  if (isPeriod && type !== 'date') report(scope, [...path, 'type'], `'${name}' is the first day of a period; its type is date.`)
  checkRounding(column, context, scope)
  if (column.isKey) checkKeyColumn(column, context, scope)
}

const checkRounding = ({ name, type, isKey, origin, rounding }: Column, { path }: ColumnContext, scope: Scope): void => {
  if (rounding === null) return
  const at: Path = [...path, 'rounding']
  if (type !== 'bigint' && type !== 'integer')
    report(scope, at, `'${name}' is ${type}; rounding is for bigint and integer. Remove rounding, or change the type.`, 'key')
  else if (isKey) report(scope, at, `key column '${name}' cannot be rounded: two rows would become one. Remove rounding.`, 'key')
  else if (origin !== 'response')
    report(scope, at, `'${name}' does not come from the response; there is nothing to round. Remove rounding.`, 'key')
}

const checkKeyColumn = ({ name, type, origin, ifAbsent }: Column, { raw, field, path }: ColumnContext, scope: Scope): void => {
  if (raw?.nullable === true) {
    report(scope, [...path, 'nullable'], `key column '${name}' cannot be nullable; remove nullable or take it out of the key.`)
  } else if (origin === 'response' && raw?.nullable === undefined && field?.nullable === true) {
    const fix = 'take it out of the key, or declare nullable: false to reject such rows.'
    report(scope, path, `key column '${name}' may be null in the response; ${fix}`)
  }
  if (type === 'text[]') report(scope, path, `key column '${name}' is a list; a key needs plain values. Take it out of the key.`)
  if (ifAbsent !== null) {
    report(scope, [...path, 'if_absent'], `key column '${name}' cannot have a default; remove if_absent.`, 'key')
  }
}
