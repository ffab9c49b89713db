// Raw statements and types for their rows: a table's column by `Tables`, a computed one by its kind. No check compares these types with the statement.
// Statements that run for every unit are prepared: the server parses and plans them once a connection instead of once a unit.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { Db, Tables } from './tables.ts'

/** Columns as they are read: `Row<'etl.units', 'slice_id' | 'window_from'>`. */
export type Row<Table extends keyof Tables, Column extends keyof Selectable<Tables[Table]>> = Readonly<
  Pick<Selectable<Tables[Table]>, Column>
>

/** The same, nullable: from a left join, or an aggregate over no rows. */
export type Maybe<Of> = { readonly [Column in keyof Of]: Of[Column] | null }

/** bigint and numeric, such as count() and sum(): text in JavaScript. */
export type Counts<Name extends string> = Readonly<Record<Name, string>>

/** integer and float8. */
export type Numbers<Name extends string> = Readonly<Record<Name, number>>

/** The number of a bigint or numeric that a double holds exactly. */
export const numberOf = (text: string | null): number | null => (text === null ? null : Number(text))

/** SQL that reads such a column as a number. */
export const asNumber = (column: string) => sql<number>`${sql.ref(column)}::float8`

/** Conditions, such as exists(). */
export type Flags<Name extends string> = Readonly<Record<Name, boolean>>

/** Text columns, such as names. */
export type Texts<Name extends string> = Readonly<Record<Name, string>>

/** The column's values as an array: `array_agg`. */
export type Lists<Of> = { readonly [Column in keyof Of]: readonly NonNullable<Of[Column]>[] }

interface Known {
  readonly name: string
  sent: number
}

/** Prepared statements by their SQL. Entries are never removed, so the SQL must not contain values. */
const known = new Map<string, Known>()
/** Each prepared statement costs memory on every connection; later statements are sent unprepared. */
const mostNames = 500

const remember = (text: string): void => {
  if (known.size >= mostNames || known.has(text)) return
  known.set(text, { name: `millrace_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`, sent: 0 })
}

/** After so many executions, and after 4 and 16 times as many, a statement is planned anew: tables grow, and the server does not notice in time. */
const firstReplan = 64

/** Which plan a statement uses: a new number forces a new plan. Exported for tests. @param sent earlier executions */
export const planNumber = (sent: number): number => (sent < firstReplan ? 0 : 1 + Math.floor(Math.log2(sent / firstReplan) / 2))

const nameOf = (text: string): string | undefined => {
  const found = known.get(text)
  if (found === undefined) return undefined
  const name = `${found.name}_${planNumber(found.sent)}`
  found.sent += 1
  return name
}

/** The arguments with arrays as text and, for a prepared statement, its name. @param sent arguments of the driver's `query` */
export const withStatementName = (sent: readonly unknown[]): readonly unknown[] => {
  const [text, values, ...others] = sent
  if (typeof text !== 'string' || !Array.isArray(values)) return sent
  const [name, texts] = [nameOf(text), values.map(arrayText)]
  return [name === undefined ? { text, values: texts } : { name, text, values: texts }, ...others]
}

/** Rows of one raw statement: query<Row>(db)`select …`. */
export const query =
  <Row>(db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<Row[]> =>
    (await sql<Row>(...statement).execute(db)).rows

/** The only row of a statement that always has one, such as an aggregate. */
export const queryOne =
  <Row>(db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<Row> => {
    const [row] = await query<Row>(db)(...statement)
    assert.ok(row !== undefined, 'the statement has a row')
    return row
  }

/** The only value of a statement with one row and one column. */
export const queryValue =
  <Row extends object>(db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<Row[keyof Row]> =>
    Object.values(await queryOne<Row>(db)(...statement))[0]

/** The values of a statement with one column. */
export const queryColumn =
  <Row extends object>(db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<Row[keyof Row][]> =>
    (await query<Row>(db)(...statement)).map((row) => Object.values(row)[0])

/** The number of rows that a statement returns. */
export const countRows =
  (db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<number> =>
    (await query(db)(...statement)).length

/**
 * As `query`, prepared. Only for statements whose best plan does not depend on values, because the plan is reused; and without `select *`, because a
 * prepared statement fails once its columns change.
 */
export const prepared =
  <Row>(db: Db) =>
  (...statement: Parameters<typeof sql>): Promise<Row[]> =>
    executePrepared(db, sql<Row>(...statement))

/** As `prepared`, for a statement that is already built. */
export const executePrepared = async <Row>(db: Db, statement: RawBuilder<Row>): Promise<Row[]> => {
  const compiled = statement.compile(db)
  remember(compiled.sql)
  return (await db.executeQuery<Row>(compiled)).rows
}

/** The array literal of integers, texts and nulls; the driver converts all other values. */
export const arrayText = (value: unknown): unknown => {
  if (!Array.isArray(value)) return value
  if (value.every((one) => Number.isSafeInteger(one) || isBare(one))) return `{${value.join()}}`
  return value.every(isText) ? `{${value.map(element).join()}}` : value
}

/** Whether the text needs no quotes in an array literal. */
const isBare = (one: unknown): boolean => typeof one === 'string' && /^[\w.-]+$/.test(one) && !/^null$/i.test(one)

const isText = (one: unknown): one is string | null => typeof one === 'string' || one === null

const element = (one: string | null): string => (one === null ? 'NULL' : `"${one.replaceAll(/["\\]/g, '\\$&')}"`)

/** Reads an integer[] with one dimension and without nulls; null: it is another array. */
export const integersOf = (text: string): number[] | null =>
  text.lastIndexOf('{') !== 0 || /[^-\d,{}]/.test(text) ? null : inner(text).map(Number)

/** Reads a text[] with one dimension, without quotes and without nulls; null: it is another array. */
export const textsOf = (text: string): string[] | null =>
  text.lastIndexOf('{') !== 0 || /["\\]|NULL/i.test(text) ? null : inner(text)

const inner = (text: string): string[] => (text === '{}' ? [] : text.slice(1, -1).split(','))
