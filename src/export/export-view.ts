// A view of bi as one file for notebooks and spreadsheets: CSV with formulas made harmless, or Parquet; streamed, so that size costs no memory.
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { type RawBuilder, sql } from 'kysely'
import { type Database, copyOutOf } from '../db/connect.ts'
import { withSession } from '../db/session.ts'
import { scalesOf, type ViewColumn, writeParquet } from './parquet.ts'
import { everyRow, type RowFilter, selectRows, type ViewRows, viewRows } from './view-rows.ts'

/** One file of a whole view. */
export interface ExportRequest {
  /** A table or view in `bi`, without the schema. */
  readonly view: string
  readonly format: 'csv' | 'parquet'
  /** Absolute path; written beside it first and renamed when whole. */
  readonly file: string
  readonly filter?: RowFilter
}

/** Rows written. Throws USAGE when there is no such view, or no such column to filter by. */
export const exportView = async (
  database: Database,
  { view, format, file, filter = everyRow }: ExportRequest,
): Promise<number> => {
  const found = await viewRows(database.kysely, view, filter)
  const partial = `${file}.partial`
  try {
    const rows = format === 'csv' ? await exportCsv(database, found, partial) : await exportParquet(database, found, partial)
    await rename(partial, file)
    return rows
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  }
}

const isText = ({ type }: ViewColumn): boolean => type === 'text' || type.endsWith('[]') || type === 'jsonb'

/** A spreadsheet takes a cell that begins with one of these for a formula; with an apostrophe before it, it is a word again. */
const harmless = (column: ViewColumn): RawBuilder<unknown> => {
  const name = sql.ref(column.name)
  if (!isText(column)) return name
  return sql`case when left(${name}::text, 1) in ('=', '+', '-', '@', E'\\t', E'\\r') then '''' || ${name}::text else ${name}::text end as ${name}`
}

const exportCsv = async (database: Database, found: ViewRows, file: string): Promise<number> => {
  const cells = sql.join(found.columns.map(harmless))
  const query = sql`copy (select ${cells} from (${selectRows(found)}) as rows) to stdout with (format csv, header)`
  return withSession(database.pool, async ({ client }) => {
    const stream = copyOutOf(client, query.compile(database.kysely).sql)
    await pipeline(stream, createWriteStream(file, { flags: 'w' }))
    return stream.rowCount
  })
}

/** One repeatable-read transaction: the file is the view at one moment. */
const exportParquet = (database: Database, found: ViewRows, file: string): Promise<number> =>
  withSession(database.pool, ({ kysely }) =>
    kysely
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute(async (trx) => {
        const rows = selectRows(found)
        return writeParquet(trx, { columns: found.columns, rows, scales: await scalesOf(trx, found.columns, rows), file })
      }),
  )
