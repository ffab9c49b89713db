// Resolves the table's columns: origin, type, description and allowed names; key columns first, in key order.
import { type ColumnType, columnTypes } from '../core/column-types.ts'
import type { FieldSpec } from '../core/source-spec.ts'
import type { Column, ColumnOrigin, Dimension, ParamValue, WindowSize } from '../core/types.ts'
import { isShippedMart } from './marts.ts'
import { suggest } from './problem.ts'
import { paramDescription, type Scope } from './scope.ts'
import type { RawColumn, RawDefinition } from './schema.ts'
import type { Path } from './yaml-file.ts'

/** Other parts of the definition that decide where a column's values come from. */
interface ColumnInput {
  readonly table: RawDefinition['table']
  readonly params: Readonly<Record<string, ParamValue>>
  readonly dimensions: readonly Dimension[]
  readonly every: WindowSize
}

/** Columns of the table, those of the key first. Problems go to the scope; a column with one is left out. */
export const resolveColumns = (input: ColumnInput, scope: Scope): readonly Column[] => {
  const { key, columns } = input.table
  checkKey(key, input.dimensions, input.every, scope)
  return [...new Set([...key, ...Object.keys(columns)])].flatMap((name) => {
    const raw = Object.hasOwn(columns, name) ? columns[name] : undefined
    const path: Path = raw === undefined ? ['table', 'key', key.indexOf(name)] : ['table', 'columns', name]
    return resolveColumn(name, raw, path, key.includes(name), input, scope) ?? []
  })
}

const resolveColumn = (
  name: string,
  raw: RawColumn | undefined,
  path: Path,
  isKey: boolean,
  input: ColumnInput,
  scope: Scope,
): Column | null => {
  const origin = originOf(name, raw, input, scope)
  if (origin === null) return comesFromNowhere(name, path, input, scope)
  const from = origin === 'response' ? spellings(name, raw, scope) : []
  const field = from.map((spelling) => fieldOf(spelling, scope)).find((found) => found !== null) ?? null
  if (origin === 'response' && !knowsField(name, from, field, path, scope)) return null
  const type = raw?.type ?? typeOf(name, origin, field, input)
  if (type === null) {
    scope.report(
      path,
      `column '${name}' has no type, and ${scope.source.name} does not know the field; add type: numeric, bigint, text ...`,
    )
    return null
  }
  const period = name === 'date' && type === 'date' ? 'period_start' : null
  const column: Column = {
    name,
    type,
    isKey,
    nullable: isKey ? false : (raw?.nullable ?? field?.nullable ?? true),
    description: raw?.description ?? describe(name, origin, field, from, scope),
    unit: raw?.unit ?? field?.unit ?? null,
    origin,
    from,
    ifAbsent: raw?.if_absent === undefined ? (isKey ? null : (field?.ifAbsent ?? null)) : writtenDefault(raw, name, scope),
    ...(raw?.may_vanish === undefined ? {} : { mayVanish: raw.may_vanish }),
    normalize:
      origin === 'response'
        ? (raw?.normalize ?? field?.normalize ?? period ?? scope.source.dimensions[name]?.normalize ?? null)
        : null,
    rounding: raw?.rounding ?? null,
  }
  checkSpelling(raw?.normalize, path, scope)
  checkColumn(column, { raw, field, path }, scope)
  return column
}

const originOf = (name: string, raw: RawColumn | undefined, input: ColumnInput, scope: Scope): ColumnOrigin | null => {
  if (raw?.from !== undefined) return 'response'
  if (name === 'month' && input.every === 'month') return 'window'
  if (name === 'date') return fieldOf('date', scope) === null ? 'window' : 'response'
  const dimension = input.dimensions.find((one) => one.name === name)
  if (dimension !== undefined) return (scope.source.dimensions[name]?.mostPerRequest ?? 1) > 1 ? 'response' : 'slice'
  if (Object.hasOwn(input.params, name)) return 'param'
  if (raw !== undefined || fieldOf(name, scope) !== null) return 'response'
  return null
}

/** The source's field with that name or alias. */
const fieldOf = (name: string, scope: Scope): FieldSpec | null => {
  const { fields } = scope.source
  if (Object.hasOwn(fields, name)) return fields[name] ?? null
  return Object.values(fields).find((field) => field.aliases?.includes(name)) ?? null
}

const spellings = (name: string, raw: RawColumn | undefined, scope: Scope): readonly string[] => {
  const written = raw?.from === undefined ? [name] : [raw.from].flat()
  return [...new Set([...written, ...written.flatMap((one) => fieldOf(one, scope)?.aliases ?? [])])]
}

const comesFromNowhere = (name: string, path: Path, input: ColumnInput, scope: Scope): null => {
  if (name === 'month') return null // checkKey has said it
  const known = [
    ...Object.keys(input.table.columns),
    input.every === 'month' ? 'month' : 'date',
    ...input.dimensions.map((dimension) => dimension.name),
    ...Object.keys(input.params),
    ...Object.keys(scope.source.fields),
  ]
  const hint = suggest(name, [...new Set(known)])
  const sources = 'the window, for_each, params, columns or a field the source knows'
  scope.report(
    path,
    `key column '${name}' has no origin: it is none of ${sources}.${hint} Correct it or declare it under columns.`,
  )
  return null
}

const knowsField = (name: string, from: readonly string[], field: FieldSpec | null, path: Path, scope: Scope): boolean => {
  if (field !== null || scope.source.openFields) return true
  const spelling = from[0] ?? name
  const hint = suggest(spelling, Object.keys(scope.source.fields))
  scope.report(
    path,
    `the response of ${scope.source.name} has no field '${spelling}'.${hint} Correct the name, or give the field in from.`,
    'key',
  )
  return false
}

const typeOf = (name: string, origin: ColumnOrigin, field: FieldSpec | null, input: ColumnInput): ColumnType | null => {
  if (origin === 'window') return 'date'
  if (origin === 'slice') return 'text'
  if (origin === 'response') return field?.type ?? (input.dimensions.some((one) => one.name === name) ? 'text' : null)
  const value = input.params[name]
  if (typeof value === 'boolean') return 'boolean'
  if (typeof value === 'number') return Number.isInteger(value) ? 'bigint' : 'numeric'
  return Array.isArray(value) ? 'text[]' : 'text'
}

const describe = (name: string, origin: ColumnOrigin, field: FieldSpec | null, from: readonly string[], scope: Scope): string => {
  if (origin === 'window') return 'First day of the period'
  if (origin === 'slice') return scope.source.dimensions[name]?.description ?? `The requested ${name}`
  if (origin === 'param') return paramDescription(scope, name) ?? `Parameter '${name}' of the request`
  return field?.description ?? `Field '${from[0] ?? name}' of the response`
}

const checkSpelling = (name: string | undefined, path: Path, scope: Scope): void => {
  const known = ['period_start', ...Object.keys(scope.source.spellings ?? {})]
  if (name !== undefined && !known.includes(name))
    scope.report(
      [...path, 'normalize'],
      `${scope.source.name} does not know the spelling '${name}'; write one of ${known.join(', ')}.`,
    )
}

const writtenDefault = (raw: RawColumn, name: string, scope: Scope): string | null => {
  if (raw.if_absent === undefined || raw.if_absent === null) return null
  return scope.yaml.written(['table', 'columns', name, 'if_absent']) ?? String(raw.if_absent)
}

const keyPath: Path = ['table', 'key']

/** The key must have one period column, every dimension and no name twice: else two units would share rows. */
const checkKey = (key: readonly string[], dimensions: readonly Dimension[], every: WindowSize, scope: Scope): void => {
  key.forEach((name, index) => {
    if (key.indexOf(name) < index) scope.report([...keyPath, index], `'${name}' appears twice in the key; keep one of the two.`)
  })
  const periods = key.filter((name) => name === 'month' || name === 'date')
  const wanted = every === 'month' ? "'month' or 'date'" : "'date'"
  if (new Set(periods).size !== 1) {
    const found = periods.length === 0 ? 'no period' : 'month and date'
    scope.report(keyPath, `the key has ${found}; it needs ${wanted}, by which the table is partitioned.`)
  }
  if (every !== 'month' && key.includes('month')) {
    scope.report([...keyPath, key.indexOf('month')], `'month' cannot be the period of windows of a ${every}; use 'date'.`)
  }
  for (const { name } of dimensions) {
    if (key.includes(name)) continue
    scope.report(
      keyPath,
      `the key lacks '${name}', which for_each runs for: units would overwrite each other's rows. Add it to the key.`,
    )
  }
}

/** A column as written, the source's field, and the path in the YAML. */
interface ColumnContext {
  readonly raw: RawColumn | undefined
  readonly field: FieldSpec | null
  readonly path: Path
}

/** Checks the resolved column; problems go to the scope. */
const checkColumn = (column: Column, context: ColumnContext, scope: Scope): void => {
  const { name, type, origin } = column
  const { raw, path } = context
  const wrong = columnNameProblem(name)
  if (wrong !== null) scope.report(path, wrong, 'key')
  const absent = raw?.if_absent === undefined ? null : column.ifAbsent
  if (absent !== null && !column.isKey && origin !== 'response') {
    scope.report([...path, 'if_absent'], `'${name}' is never absent; remove if_absent.`, 'key')
  } else if (absent !== null && !column.isKey && columnTypes[type].ifAbsent?.test(absent) !== true) {
    scope.report([...path, 'if_absent'], `if_absent '${absent}' is not a ${type}; write a value of that type or remove the line.`)
  }
  const isPeriod = origin === 'window' || (column.isKey && (name === 'month' || name === 'date'))
  if (isPeriod && type !== 'date') scope.report([...path, 'type'], `'${name}' is the first day of a period; its type is date.`)
  checkRounding(column, context, scope)
  if (column.isKey) checkKeyColumn(column, context, scope)
}

const checkRounding = ({ name, type, isKey, origin, rounding }: Column, { path }: ColumnContext, scope: Scope): void => {
  if (rounding === null) return
  const at: Path = [...path, 'rounding']
  if (columnTypes[type].rounded === null)
    scope.report(at, `'${name}' is ${type}; rounding is for bigint and integer. Remove rounding, or change the type.`, 'key')
  else if (isKey) scope.report(at, `key column '${name}' cannot be rounded: two rows would become one. Remove rounding.`, 'key')
  else if (origin !== 'response')
    scope.report(at, `'${name}' does not come from the response; there is nothing to round. Remove rounding.`, 'key')
}

const checkKeyColumn = ({ name, type, origin, ifAbsent }: Column, { raw, field, path }: ColumnContext, scope: Scope): void => {
  if (raw?.nullable === true) {
    scope.report([...path, 'nullable'], `key column '${name}' cannot be nullable; remove nullable or take it out of the key.`)
  } else if (origin === 'response' && raw?.nullable === undefined && field?.nullable === true) {
    const fix = 'take it out of the key, or declare nullable: false to reject such rows.'
    scope.report(path, `key column '${name}' may be null in the response; ${fix}`)
  }
  if (columnTypes[type].isList)
    scope.report(path, `key column '${name}' is a list; a key needs plain values. Take it out of the key.`)
  if (ifAbsent !== null) {
    scope.report([...path, 'if_absent'], `key column '${name}' cannot have a default; remove if_absent.`, 'key')
  }
}

// PostgreSQL cuts identifiers after 63 bytes; the longest name made from a pipeline is a partition of its history.
const longestIdentifier = 63
const longestSuffix = (version: number): string => `_v${version}_history_p202601`

const reservedColumns = ['valid_from', 'valid_to', 'is_final', 'restated_at']
const systemColumns = ['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid']

/** Why `name` cannot name a pipeline, or null. Its form was checked before. */
export const pipelineNameProblem = (name: string, version: number): string | null => {
  const most = longestIdentifier - longestSuffix(version).length
  if (name.length > most) {
    return `'${name}' has ${name.length} characters; at most ${most} leave room for ${longestSuffix(version)} in table names. Shorten it.`
  }
  const [taken = isShippedMart(name) ? name : null] =
    /_(history|as_of)$/.exec(name) ?? /^(dim|mart)_/.exec(name) ?? /^(freshness|attribute_versions)$/.exec(name) ?? []
  if (taken !== null) return `'${name}' would collide with views Millrace makes in bi ('${taken}'); choose another name.`
  return null
}

/** Why `name` cannot name a column, or null. */
export const columnNameProblem = (name: string): string | null => {
  if (name.length > longestIdentifier) {
    return `'${name}' has ${name.length} characters; PostgreSQL allows ${longestIdentifier}. Shorten it and name the field in from.`
  }
  if (reservedColumns.includes(name) || systemColumns.includes(name)) {
    return `'${name}' is a name the warehouse uses itself; choose another and name the field in from.`
  }
  return null
}
