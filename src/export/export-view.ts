// A view of bi as one file for notebooks and lakes: CSV with formulas made harmless, or Parquet in row groups; streamed, so that size costs no memory.
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import type { SchemaElement } from 'hyparquet'
import { ParquetWriter, fileWriter } from 'hyparquet-writer'
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import { type Database, copyOutOf } from '../db/connect.ts'
import { withSession } from '../db/session.ts'

export interface ExportRequest {
  /** A table or view in `bi`, without the schema. */
  readonly view: string
  readonly format: 'csv' | 'parquet'
  /** Absolute path; written beside it first and renamed when whole. */
  readonly file: string
}

export interface ViewColumn {
  readonly name: string
  /** PostgreSQL's name of the type. */
  readonly type: string
}

/** Rows written. Throws USAGE when there is no such view. */
export const exportView = async (database: Database, { view, format, file }: ExportRequest): Promise<number> => {
  const columns = await columnsOf(database, view)
  const partial = `${file}.partial`
  try {
    const rows =
      format === 'csv'
        ? await exportCsv(database, view, columns, partial)
        : await writeParquet(database, { view, columns, file: partial })
    await rename(partial, file)
    return rows
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  }
}

const columnsOf = async ({ kysely }: Database, view: string): Promise<readonly ViewColumn[]> => {
  const { rows } = await sql<ViewColumn>`
    select a.attname as name, format_type(a.atttypid, null) as type from pg_attribute a join pg_class c on c.oid = a.attrelid
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'bi' and c.relname = ${view} and c.relkind in ('r', 'v', 'p') and a.attnum > 0 and not a.attisdropped
    order by a.attnum`.execute(kysely)
  if (rows.length > 0) return rows
  const all = await sql<{ name: string }>`select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'bi' and c.relkind in ('r', 'v', 'p') order by 1`.execute(kysely)
  throw new EtlError(
    'USAGE',
    `There is no bi.${view}; there are ${all.rows.map(({ name }) => name).join(', ') || 'no views yet: run `millrace migrate`'}.`,
  )
}

const isText = ({ type }: ViewColumn): boolean => type === 'text' || type.endsWith('[]') || type === 'jsonb'

/** A spreadsheet takes a cell that begins with one of these for a formula; with an apostrophe before it, it is a word again. */
const harmless = (column: ViewColumn): RawBuilder<unknown> => {
  const name = sql.ref(column.name)
  if (!isText(column)) return name
  return sql`case when left(${name}::text, 1) in ('=', '+', '-', '@', E'\\t', E'\\r') then '''' || ${name}::text else ${name}::text end as ${name}`
}

const exportCsv = async (database: Database, view: string, columns: readonly ViewColumn[], file: string): Promise<number> => {
  const query = sql`copy (select ${sql.join(columns.map(harmless))} from ${sql.table(`bi.${view}`)}) to stdout with (format csv, header)`
  return withSession(database.pool, async ({ client }) => {
    const stream = copyOutOf(client, query.compile(database.kysely).sql)
    await pipeline(stream, createWriteStream(file, { flags: 'w' }))
    return stream.rowCount
  })
}

const rowsAtOnce = 20_000

interface Shape {
  readonly select: (name: RawBuilder<unknown>) => RawBuilder<unknown>
  readonly element: Omit<SchemaElement, 'name'>
  readonly value: (text: unknown) => unknown
}

const asText: Shape = {
  select: (name) => sql`${name}::text`,
  element: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  value: (text) => text,
}
const asBigint = (select: Shape['select'], converted?: 'TIMESTAMP_MICROS'): Shape => ({
  select,
  element: { type: 'INT64', ...(converted === undefined ? {} : { converted_type: converted }) },
  value: (text) => BigInt(String(text)),
})

const shapes: Readonly<Record<string, Shape>> = {
  bigint: asBigint((name) => sql`${name}::text`),
  integer: { select: (name) => sql`${name}`, element: { type: 'INT32' }, value: (number) => number },
  boolean: { select: (name) => sql`${name}`, element: { type: 'BOOLEAN' }, value: (flag) => flag },
  'double precision': { select: (name) => sql`${name}`, element: { type: 'DOUBLE' }, value: (number) => number },
  // Days and microseconds since 1970, as Parquet keeps them.
  date: {
    select: (name) => sql`(${name} - date '1970-01-01')`,
    element: { type: 'INT32', converted_type: 'DATE' },
    value: (days) => days,
  },
  'timestamp with time zone': asBigint((name) => sql`(extract(epoch from ${name}) * 1000000)::bigint::text`, 'TIMESTAMP_MICROS'),
}

interface ParquetRequest {
  readonly view: string
  readonly columns: readonly ViewColumn[]
  readonly file: string
}

/** Rows written. One repeatable-read transaction: the file is the view at one moment. */
const writeParquet = async (database: Database, { view, columns, file }: ParquetRequest): Promise<number> => {
  const shaped = columns.map((column) => ({ name: column.name, shape: shapes[column.type] ?? asText }))
  const writer = new ParquetWriter({
    writer: fileWriter(file),
    schema: [
      { name: 'root', num_children: shaped.length },
      ...shaped.map(({ name, shape }): SchemaElement => ({ name, repetition_type: 'OPTIONAL', ...shape.element })),
    ],
    createdBy: 'millrace',
  })
  const list = sql.join(shaped.map(({ name, shape }) => sql`${shape.select(sql.ref(name))} as ${sql.ref(name)}`))
  return withSession(database.pool, ({ kysely }) =>
    kysely
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute(async (trx) => {
        await sql`declare export_rows no scroll cursor for select ${list} from ${sql.table(`bi.${view}`)}`.execute(trx)
        let written = 0
        for (;;) {
          const { rows } = await sql<Record<string, unknown>>`fetch ${sql.lit(rowsAtOnce)} from export_rows`.execute(trx)
          if (rows.length === 0) break
          writer.write({
            columnData: shaped.map(({ name, shape }) => ({
              name,
              data: rows.map((row) => (row[name] === null ? null : shape.value(row[name]))),
            })),
            rowGroupSize: rowsAtOnce,
          })
          written += rows.length
        }
        writer.finish()
        return written
      }),
  )
}
