// Raw statements and their rows. A column of a table is typed from `Tables`, what is computed by its kind; nothing checks a raw statement's own word. Of
// statements that are sent for every unit the server parses and plans each once a connection instead of once a unit.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { Db, Tables } from './tables.ts'

/** Columns as they are read: `Row<'etl.units', 'slice_id' | 'window_from'>`. */
export type Row<Table extends keyof Tables, Column extends keyof Selectable<Tables[Table]>> = Readonly<
  Pick<Selectable<Tables[Table]>, Column>
>

/** The same where there may be none: a left join, an aggregate over no rows. */
export type Maybe<Of> = { readonly [Column in keyof Of]: Of[Column] | null }

/** bigint and numeric, such as count() and sum(): text in JavaScript. */
export type Counts<Name extends string> = Readonly<Record<Name, string>>

/** integer and float8. */
export type Numbers<Name extends string> = Readonly<Record<Name, number>>

/** A bigint or a numeric that a double holds. */
export const numberOf = (text: string | null): number | null => (text === null ? null : Number(text))

/** Such a column, read as a number. */
export const asNumber = (column: string) => sql<number>`${sql.ref(column)}::float8`

/** Conditions, such as exists(). */
export type Flags<Name extends string> = Readonly<Record<Name, boolean>>

/** Names, and what else is text by nature. */
export type Texts<Name extends string> = Readonly<Record<Name, string>>

/** The column's values as an array: `array_agg`. */
export type Lists<Of> = { readonly [Column in keyof Of]: readonly NonNullable<Of[Column]>[] }

interface Known {
  readonly name: string
  sent: number
}

/** A text is known for good, so texts must not hold values. */
const known = new Map<string, Known>()
/** Each costs every connection some memory; what comes after that many is sent as it is. */
const mostNames = 500

const remember = (text: string): void => {
  if (known.size >= mostNames || known.has(text)) return
  known.set(text, { name: `millrace_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`, sent: 0 })
}

/** Sent so often, four times, sixteen times as often, a statement is planned anew: tables grow, and nothing tells the server in time. */
const firstReplan = 64

/** Exported for tests. @param sent how often it was sent before */
export const generationOf = (sent: number): number => (sent < firstReplan ? 0 : 1 + Math.floor(Math.log2(sent / firstReplan) / 2))

const nameOf = (text: string): string | undefined => {
  const found = known.get(text)
  if (found === undefined) return undefined
  const name = `${found.name}_${generationOf(found.sent)}`
  found.sent += 1
  return name
}

/** What a connection is asked to send, with a known text under its name and arrays as texts. @param sent arguments of the driver's `query` */
export const byName = (sent: readonly unknown[]): readonly unknown[] => {
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

/** Its row where there always is one: figures over however many rows. */
export const queryOne =
  <Row>(db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<Row> => {
    const [row] = await query<Row>(db)(...statement)
    assert.ok(row !== undefined, 'the statement has a row')
    return row
  }

/** Its value where it has one column besides. */
export const queryValue =
  <Row extends object>(db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<Row[keyof Row]> =>
    Object.values(await queryOne<Row>(db)(...statement))[0]

/** The values of however many rows of one column. */
export const queryColumn =
  <Row extends object>(db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<Row[keyof Row][]> =>
    (await query<Row>(db)(...statement)).map((row) => Object.values(row)[0])

/** How many rows it gives: what it found, or changed. */
export const countRows =
  (db: Db) =>
  async (...statement: Parameters<typeof sql>): Promise<number> =>
    (await query(db)(...statement)).length

/**
 * The same for statements whose best plan does not depend on their values and whose columns are named one by one: a plan that is kept may be for any
 * values, and outlives a change of the tables only with the same columns.
 */
export const prepared =
  <Row>(db: Db) =>
  (...statement: Parameters<typeof sql>): Promise<Row[]> =>
    executePrepared(db, sql<Row>(...statement))

/** The same of a statement that is there already. */
export const executePrepared = async <Row>(db: Db, statement: RawBuilder<Row>): Promise<Row[]> => {
  const compiled = statement.compile(db)
  remember(compiled.sql)
  return (await db.executeQuery<Row>(compiled)).rows
}

/** Of integers, texts and nulls the text that the server reads; everything else is left to the driver. */
export const arrayText = (value: unknown): unknown => {
  if (!Array.isArray(value)) return value
  if (value.every((one) => Number.isSafeInteger(one) || isBare(one))) return `{${value.join()}}`
  return value.every(isText) ? `{${value.map(element).join()}}` : value
}

/** Needs no quotes. */
const isBare = (one: unknown): boolean => typeof one === 'string' && /^[\w.-]+$/.test(one) && !/^null$/i.test(one)

const isText = (one: unknown): one is string | null => typeof one === 'string' || one === null

const element = (one: string | null): string => (one === null ? 'NULL' : `"${one.replaceAll(/["\\]/g, '\\$&')}"`)

/** An integer[] of one dimension and without nulls; null: it is another. */
export const integersOf = (text: string): number[] | null =>
  text.lastIndexOf('{') !== 0 || /[^-\d,{}]/.test(text) ? null : inner(text).map(Number)

/** A text[] of one dimension whose texts need no quotes and of which none is null; null: it is another. */
export const textsOf = (text: string): string[] | null =>
  text.lastIndexOf('{') !== 0 || /["\\]|NULL/i.test(text) ? null : inner(text)

const inner = (text: string): string[] => (text === '{}' ? [] : text.slice(1, -1).split(','))
