// Numbers of a read: bigint is text in JavaScript, and what a person or a chart is shown fits a double.
import { type AliasedRawBuilder, type RawBuilder, sql } from 'kysely'

/** The column as a number under its own name, the table's alias left out. */
export const wholeAs = <Name extends string>(table: string, name: Name): AliasedRawBuilder<number, Name> =>
  sql<number>`${sql.ref(`${table}.${name}`)}::float8`.as(name)

export const wholeOrNullAs = <Name extends string>(table: string, name: Name): AliasedRawBuilder<number | null, Name> =>
  sql<number | null>`${sql.ref(`${table}.${name}`)}::float8`.as(name)

export const wholes = <Name extends string>(table: string, ...names: readonly Name[]): AliasedRawBuilder<number, Name>[] =>
  names.map((name) => wholeAs(table, name))

export const wholesOrNull = <Name extends string>(
  table: string,
  ...names: readonly Name[]
): AliasedRawBuilder<number | null, Name>[] => names.map((name) => wholeOrNullAs(table, name))

/** Whether the column is one of the numbers; of none, nothing is. */
export const amongIds = (column: string, ids: readonly number[]): RawBuilder<boolean> =>
  sql<boolean>`${sql.ref(column)} = any(${sql.val([...ids])}::bigint[])`

export const shortList = 50
