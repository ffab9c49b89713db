// What a definition asks of its table that is not there yet, and what no migration of the same version can bring.
import type { Column, Definition, TableIndex } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { compareTables } from './drift.ts'
import { liveColumns, liveIndexes, serves } from './live-tables.ts'
import { tableName } from './table-columns.ts'

/** What the next migration brings, and what none can. */
export interface TableChanges {
  readonly columns: readonly Column[]
  readonly indexes: readonly TableIndex[]
  /** In words with their remedy: a changed type or key, a column that is only in the table. */
  readonly refused: readonly string[]
}

/** Empty where the table is as defined. */
export const tableChanges = async (db: Db, definition: Definition): Promise<TableChanges> => {
  const table = tableName(definition)
  const names = new Set((await liveColumns(db, [table])).map(({ name }) => name))
  const live = (await liveIndexes(db, [table])).get(table) ?? []
  const missing = definition.columns.filter(({ name }) => !names.has(name))
  const isNew = new Set(missing.map(({ name }) => name))
  const differences = (await compareTables(db, [definition])).filter(
    ({ level, table: one }) => level === 'error' && [table, `${table}_history`].includes(one),
  )
  return {
    columns: missing,
    indexes: definition.indexes.filter((wanted) => !live.some((one) => serves(one, wanted))),
    refused: [
      ...missing.flatMap((column) => (column.isKey || !column.nullable ? [notAddable(table, column)] : [])),
      ...differences.filter(({ column }) => column === null || !isNew.has(column)).map(({ message }) => message),
    ],
  }
}

const notAddable = (table: string, { name, isKey }: Column): string =>
  isKey
    ? `data.${table}.${name} is new and part of the key; a new key is a new version.`
    : `data.${table}.${name} is new and not nullable, and loaded rows have no value for it; make it nullable, or raise the version.`
