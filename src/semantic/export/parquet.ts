// Writes the rows of a query to a Parquet file: types as data lakes expect them, exact numerics, lists as lists; streamed in row groups.
import type { SchemaElement } from 'hyparquet'
import { type RawBuilder, sql } from 'kysely'
import { type ColumnTypeEntry, columnTypes } from '../../core/column-types.ts'
import { withPackages } from '../../core/optional-package.ts'
import type { Db } from '../../db/tables.ts'

/** A column as the catalog has it. */
export interface ViewColumn {
  readonly name: string
  /** PostgreSQL's name of the type. */
  readonly type: string
}

/** Digits behind the point of a numeric column that are enough for every value; null: some value fits no DECIMAL, and the column is text. */
export type Scales = Readonly<Record<string, number | null>>

const rowsAtOnce = 20_000
/** Most digits that every Parquet reader supports; they fit into 16 bytes. */
const decimalDigits = 38
const decimalBytes = 16

interface Shape {
  readonly select: (name: RawBuilder<unknown>) => RawBuilder<unknown>
  /** The column's elements, itself first; a list has two more. */
  readonly elements: (name: string) => readonly SchemaElement[]
  readonly value: (found: unknown) => unknown
}

/** @param element the only schema element, without its name */
const shape = (
  element: Omit<SchemaElement, 'name'>,
  select: Shape['select'] = (name) => sql`${name}`,
  value: Shape['value'] = (found) => found,
): Shape => ({ select, elements: (name) => [{ name, repetition_type: 'OPTIONAL', ...element }], value })

const asText: Shape['select'] = (name) => sql`${name}::text`
const toBigint: Shape['value'] = (text) => BigInt(String(text))
const utf8 = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const

/** A decimal as a whole number without the point, exact. */
const asDecimal = (scale: number): Shape =>
  shape(
    { type: 'FIXED_LEN_BYTE_ARRAY', type_length: decimalBytes, converted_type: 'DECIMAL', precision: decimalDigits, scale },
    (name) => sql`round(${name} * 10::numeric ^ ${sql.lit(scale)})::text`,
    toBigint,
  )

/** How each kind of column is selected and written; decimals depend on their digits (`asDecimal`). */
const shapes: Readonly<Record<Exclude<ColumnTypeEntry['parquet'], 'decimal'> | 'double', Shape>> = {
  text: shape(utf8, asText),
  long: shape({ type: 'INT64' }, asText, toBigint),
  int: shape({ type: 'INT32' }),
  boolean: shape({ type: 'BOOLEAN' }),
  double: shape({ type: 'DOUBLE' }),
  // Days and microseconds since 1970, as Parquet keeps them.
  days: shape({ type: 'INT32', converted_type: 'DATE' }, (name) => sql`(${name} - date '1970-01-01')`),
  microseconds: shape(
    { type: 'INT64', converted_type: 'TIMESTAMP_MICROS' },
    (name) => sql`(extract(epoch from ${name}) * 1000000)::bigint::text`,
    toBigint,
  ),
  list: {
    ...shape({}),
    elements: (name) => [
      { name, repetition_type: 'OPTIONAL', converted_type: 'LIST', num_children: 1 },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      { name: 'element', repetition_type: 'OPTIONAL', ...utf8 },
    ],
  },
}

const byCatalog = new Map(Object.values(columnTypes).map(({ catalog, parquet }) => [catalog, parquet]))

const shapeOf = ({ name, type }: ViewColumn, scales: Scales): Shape => {
  if (type === 'double precision') return shapes.double
  const kind = byCatalog.get(type) ?? 'text'
  if (kind !== 'decimal') return shapes[kind]
  const scale = scales[name]
  return scale === null || scale === undefined ? shapes.text : asDecimal(scale)
}

/** The scales that the numeric columns of `rows` need. Reads all rows. */
export const scalesOf = async (trx: Db, columns: readonly ViewColumn[], rows: RawBuilder<unknown>): Promise<Scales> => {
  const numerics = columns.filter(({ type }) => byCatalog.get(type) === 'decimal').map(({ name }) => name)
  if (numerics.length === 0) return {}
  const wanted = numerics.flatMap((name, index) => {
    const column = sql.ref(name)
    return [
      sql`coalesce(max(scale(trim_scale(${column}))), 0) as ${sql.ref(`scale_${index}`)}`,
      sql`max(trunc(abs(${column})))::text as ${sql.ref(`most_${index}`)}`,
    ]
  })
  const found = await sql<Record<string, unknown>>`select ${sql.join(wanted)} from (${rows}) as rows`.execute(trx)
  const sizes = found.rows[0] ?? {}
  return Object.fromEntries(
    numerics.map((name, index) => [name, fitting(Number(sizes[`scale_${index}`]), String(sizes[`most_${index}`] ?? '0'))]),
  )
}

/** null for NaN and infinity, which no DECIMAL can hold. */
const fitting = (scale: number, most: string): number | null =>
  /^\d+$/.test(most) && most.length + scale <= decimalDigits ? scale : null

/** `scales`: digits after the point of each numeric column; see scalesOf. */
interface ParquetRequest {
  readonly columns: readonly ViewColumn[]
  /** `select` of exactly these columns. */
  readonly rows: RawBuilder<unknown>
  readonly scales: Scales
  readonly file: string
}

/** Returns the number of rows. Call inside a transaction, for one file at a time. */
export const writeParquet = async (trx: Db, { columns, rows, scales, file }: ParquetRequest): Promise<number> => {
  const { fileWriter, ParquetWriter } = await withPackages(
    'Parquet files',
    ['hyparquet-writer'],
    () => import('hyparquet-writer'),
  )
  const shaped = columns.map((column) => ({ name: column.name, of: shapeOf(column, scales) }))
  const writer = new ParquetWriter({
    writer: fileWriter(file),
    schema: [{ name: 'root', num_children: shaped.length }, ...shaped.flatMap(({ name, of }) => of.elements(name))],
    createdBy: 'millrace',
  })
  const list = sql.join(shaped.map(({ name, of }) => sql`${of.select(sql.ref(name))} as ${sql.ref(name)}`))
  await sql`declare export_rows no scroll cursor for select ${list} from (${rows}) as rows`.execute(trx)
  let written = 0
  for (;;) {
    const { rows: some } = await sql<Record<string, unknown>>`fetch ${sql.lit(rowsAtOnce)} from export_rows`.execute(trx)
    if (some.length === 0 && written > 0) break
    writer.write({
      columnData: shaped.map(({ name, of }) => ({
        ...{ name, data: some.map((row) => (row[name] === null ? null : of.value(row[name]))) },
      })),
      rowGroupSize: rowsAtOnce,
    })
    written += some.length
    if (some.length < rowsAtOnce) break
  }
  await sql`close export_rows`.execute(trx)
  writer.finish()
  return written
}
