// Numbers of a read: bigint is text in JavaScript, and what a person or a chart is shown fits a double.
import { type AliasedRawBuilder, type RawBuilder, sql } from 'kysely'
import { asNumber } from '../../db/typed-row.ts'

/** Columns as numbers under their own names, the table's alias left out. */
export const wholes = <Name extends string>(table: string, ...names: readonly Name[]): AliasedRawBuilder<number, Name>[] =>
  names.map((name) => asNumber(`${table}.${name}`).as(name))

/** The same where there may be none. */
export const wholesOrNull = <Name extends string>(
  table: string,
  ...names: readonly Name[]
): AliasedRawBuilder<number | null, Name>[] => wholes(table, ...names)

/** Whether the column is one of the numbers; of none, nothing is. */
export const amongIds = (column: string, ids: readonly number[]): RawBuilder<boolean> =>
  sql<boolean>`${sql.ref(column)} = any(${sql.val([...ids])}::bigint[])`
