// Reads `tests` of a definition: each has a rule for the rows, a column of a type that the rule fits, and what happens to a unit that breaks it.
import { columnTypes, typeNames } from '../core/column-types.ts'
import type { Bounds, DataTest, RowTest } from '../core/data-test.ts'
import type { Column } from '../core/types.ts'
import { suggest } from './problem.ts'
import type { RawDataTest } from './schema.ts'
import type { Scope } from './scope.ts'
import type { Path } from './yaml-file.ts'

const kinds = ['range', 'accepted', 'not_null', 'sum_of', 'ratio', 'restated'] as const
type Kind = (typeof kinds)[number]

/** Further options of each kind of test, besides column and on_failure. */
const extras: Readonly<Record<Kind, readonly ('allow' | 'within' | 'at_least')[]>> = {
  range: ['allow'],
  accepted: ['allow'],
  not_null: [],
  sum_of: ['within', 'allow'],
  ratio: ['at_least'],
  restated: ['at_least'],
}

/** Tests in the order of the YAML. Problems go to the scope; a test with one is left out. @param columns empty where they could not be resolved */
export const readTests = (
  raw: Readonly<Record<string, RawDataTest>>,
  columns: readonly Column[],
  scope: Scope,
): readonly DataTest[] => Object.entries(raw).flatMap(([name, test]) => readTest(name, test, columns, scope) ?? [])

const readTest = (name: string, raw: RawDataTest, columns: readonly Column[], scope: Scope): DataTest | null => {
  const path: Path = ['tests', name]
  const before = scope.problems.length
  const [kind, ...others] = kinds.filter((one) => raw[one] !== undefined)
  if (kind === undefined) {
    scope.report(path, `the test '${name}' has no rule; add one of ${kinds.join(', ')}.`, 'key')
    return null
  }
  for (const other of others)
    scope.report([...path, other], `the test '${name}' has the rule ${kind} already; put ${other} into a test of its own.`, 'key')
  for (const word of ['allow', 'within', 'at_least'] as const)
    if (raw[word] !== undefined && !extras[kind].includes(word))
      scope.report([...path, word], `'${word}' has no effect with ${kind}; remove it.`, 'key')
  checkColumns(raw, kind, columns, path, scope)
  const test = testOf(name, raw, kind, path, scope)
  return scope.problems.length > before ? null : test
}

const testOf = (name: string, raw: RawDataTest, kind: Kind, path: Path, scope: Scope): DataTest => {
  const named = { name, onFailure: raw.on_failure ?? 'warn' } as const
  const column = raw.column ?? null
  const atLeast = String(raw.at_least ?? 0)
  if (kind === 'ratio') return { ...named, kind, column, atLeast, bounds: boundsOf(raw.ratio, [...path, kind], scope) }
  if (kind === 'restated') return { ...named, kind, column, atLeast, share: raw.restated ?? 0 }
  return { ...named, column: column ?? '', ...rowTest(raw, kind, path, scope) }
}

type OfRows = RowTest extends infer Test ? (Test extends RowTest ? Omit<Test, 'name' | 'onFailure' | 'column'> : never) : never

const rowTest = (raw: RawDataTest, kind: Exclude<Kind, 'ratio' | 'restated'>, path: Path, scope: Scope): OfRows => {
  const { allow = 0, within = 0 } = raw
  if (kind === 'range') return { kind, allow, bounds: boundsOf(raw.range, [...path, kind], scope) }
  if (kind === 'accepted') return { kind, allow, values: (raw.accepted ?? []).map(String) }
  // From the share of values that must be present to the share that may be missing.
  if (kind === 'not_null') return { kind, allow: Number((1 - (raw.not_null ?? 1)).toPrecision(12)) }
  return {
    kind,
    allow,
    of: raw.sum_of ?? [],
    within: typeof within === 'number' ? { amount: String(within) } : within,
  }
}

const boundsOf = (text: string | undefined, path: Path, scope: Scope): Bounds => {
  const [from = '', to = ''] = (text ?? '').split('..')
  if (from !== '' && to !== '' && Number(from) > Number(to))
    scope.report(path, `${path.join('.')} is ${text}, and ${from} is more than ${to}; write the smaller one first.`)
  return { from: from === '' ? null : from, to: to === '' ? null : to }
}

/** Types of columns that this kind of test accepts. */
const typesOf = (kind: Kind): readonly string[] =>
  typeNames.filter((name) => {
    if (kind === 'not_null') return true
    return kind === 'accepted' ? columnTypes[name].isListable : columnTypes[name].isNumber
  })

const checkColumns = (raw: RawDataTest, kind: Kind, columns: readonly Column[], path: Path, scope: Scope): void => {
  if (raw.column === undefined && kind !== 'ratio' && kind !== 'restated')
    scope.report(path, `${path.join('.')} lacks column; name the column that ${kind} tests.`, 'key')
  if (columns.length === 0) return
  const named: readonly { name: string; at: Path }[] = [
    ...(raw.column === undefined ? [] : [{ name: raw.column, at: [...path, 'column'] }]),
    ...(kind === 'sum_of' ? (raw.sum_of ?? []).map((name, place) => ({ name, at: [...path, 'sum_of', place] })) : []),
  ]
  for (const { name, at } of named) {
    const wrong = columnProblem(name, kind, columns)
    if (wrong !== null) scope.report(at, wrong)
  }
}

const columnProblem = (name: string, kind: Kind, columns: readonly Column[]): string | null => {
  const column = columns.find((one) => one.name === name)
  if (column === undefined) {
    const known = columns.map((one) => one.name)
    return `the table has no column '${name}' to test.${suggest(name, known)} Correct the name.`
  }
  if (column.origin !== 'response')
    return `'${name}' does not come with the answer, so there is nothing to test; name another column or remove the test.`
  const types = typesOf(kind)
  if (!types.includes(column.type))
    return `'${name}' is ${column.type}; ${kind} tests columns of type ${types.join(', ')}. Name another column.`
  if (kind === 'not_null' && !column.nullable) return `'${name}' always has a value; remove the test.`
  return null
}
