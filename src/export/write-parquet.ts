// Parquet in row groups, read through a cursor: whole numbers, dates and times keep their type, numerics every digit as text.
import type { SchemaElement } from 'hyparquet'
import { fileWriter, ParquetWriter } from 'hyparquet-writer'
import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../db/connect.ts'
import { withSession } from '../db/session.ts'
import type { ViewColumn } from './export-view.ts'

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

export interface ParquetRequest {
  readonly view: string
  readonly columns: readonly ViewColumn[]
  readonly file: string
}

/** Rows written. One repeatable-read transaction: the file is the view at one moment. */
export const writeParquet = async (database: Database, { view, columns, file }: ParquetRequest): Promise<number> => {
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
