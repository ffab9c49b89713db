// What a table is looked up by besides its key: each index names columns the table has, and none that would fail a load.
import type { Column, TableIndex } from '../core/types.ts'
import { suggest } from './problem.ts'
import type { RawDefinition, RawIndex } from './schema.ts'
import { report, type Scope } from './scope.ts'
import type { Path } from './yaml-file.ts'

/** PostgreSQL's limit, included columns counted. */
const mostColumns = 32

/** Indexes in the order of the YAML. Problems go to the scope. @param columns those that could be made out; none where the parameters are wrong. */
export const resolveIndexes = (
  { key, indexes = [] }: RawDefinition['table'],
  columns: readonly Column[],
  scope: Scope,
): readonly TableIndex[] =>
  indexes.map((raw, place) => {
    const path: Path = ['table', 'indexes', place]
    const index = { columns: raw.columns, include: raw.include ?? [] }
    if (columns.length > 0) checkNames(raw, path, columns, scope)
    checkUse(index, path, key, scope)
    const twin = indexes.slice(0, place).some((one) => sameIndex({ columns: one.columns, include: one.include ?? [] }, index))
    if (twin) report(scope, path, 'the same index appears twice; keep one of the two.')
    return index
  })

/** The order of included columns means nothing. */
const sameIndex = (left: TableIndex, right: TableIndex): boolean =>
  left.columns.join() === right.columns.join() && [...left.include].sort().join() === [...right.include].sort().join()

const checkNames = (raw: RawIndex, path: Path, columns: readonly Column[], scope: Scope): void => {
  const names = [...raw.columns, ...(raw.include ?? [])]
  const numerics = names.filter((name) => isNumeric(name, columns))
  names.forEach((name, at) => {
    const wrong =
      names.indexOf(name) < at
        ? `'${name}' appears twice in the index; keep one of the two.`
        : numerics.indexOf(name) > 0
          ? `'${name}' is the index's second numeric column outside the key; together they may be longer than an index entry. Take one out.`
          : columnProblem(name, columns)
    const inColumns = at < raw.columns.length
    const place: Path = [...path, inColumns ? 'columns' : 'include', inColumns ? at : at - raw.columns.length]
    if (wrong !== null) report(scope, place, wrong)
  })
}

/** Parsing bounds a number's digits so that one of them fits beside the longest key. */
const isNumeric = (name: string, columns: readonly Column[]): boolean =>
  columns.some((column) => column.name === name && !column.isKey && column.type === 'numeric')

const columnProblem = (name: string, columns: readonly Column[]): string | null => {
  const column = columns.find((one) => one.name === name)
  const known = columns.map((one) => one.name)
  if (column === undefined) return `the table has no column '${name}' to index.${suggest(name, known)}`
  // The key's length is checked row by row; another text could be longer than an index entry may be, and fail its whole unit.
  if (column.isKey || !['text', 'text[]'].includes(column.type)) return null
  const fix = 'Take it out; of columns outside the key only numbers, boolean, date and timestamptz fit.'
  return `'${name}' is ${column.type} and may be longer than an index entry. ${fix}`
}

const checkUse = (index: TableIndex, path: Path, key: readonly string[], scope: Scope): void => {
  const count = index.columns.length + index.include.length
  if (count > mostColumns) report(scope, path, `an index of ${count} columns; PostgreSQL allows ${mostColumns}.`)
  const isPartOfKey = index.include.length === 0 && index.columns.every((name, at) => name === key[at])
  if (isPartOfKey) report(scope, path, 'the key begins with these columns and is an index already; remove this one.')
}
