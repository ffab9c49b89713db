// A view of bi as one file for notebooks and lakes: CSV with formulas made harmless, or Parquet; streamed, so that size costs no memory.
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import { copyOutOf, type Database } from '../db/connect.ts'
import { withSession } from '../db/session.ts'
import { writeParquet } from './write-parquet.ts'

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
