// Exports a view of bi as one file for notebooks and spreadsheets: CSV with formulas made harmless, or Parquet; streamed, so that memory use is constant.
import { columnTypes } from '../../core/column-types.ts'
import { createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { type RawBuilder, sql } from 'kysely'
import { usageError } from '../../core/errors.ts'
import { type Database, copyOutOf } from '../../db/connect.ts'
import { suggest } from '../../definition/problem.ts'
import { withSession } from '../../db/session.ts'
import type { Db } from '../../db/tables.ts'
import { query, queryColumn, type Texts } from '../../db/typed-row.ts'
import { scalesOf, type ViewColumn, writeParquet } from './parquet.ts'
import { replaceFile } from './replace-file.ts'

/** One file of a whole view. */
interface ExportRequest {
  /** A table or view in `bi`, without the schema. */
  readonly view: string
  readonly format: 'csv' | 'parquet'
  /** Absolute path; the file need not exist. */
  readonly file: string
  readonly filter: RowFilter
}

/** Returns the number of rows. Throws USAGE as `viewRows` does. */
export const exportView = async (database: Database, { view, format, file, filter }: ExportRequest): Promise<number> => {
  const found = await viewRows(database.kysely, view, filter)
  const write = format === 'csv' ? exportCsv : exportParquet
  return replaceFile(file, (partial) => write(database, found, partial))
}

const textTypes = Object.values(columnTypes).flatMap(({ contract, catalog }) => (contract === 'string' ? [catalog] : []))

const isText = ({ type }: ViewColumn): boolean => textTypes.includes(type) || type.endsWith('[]') || type === 'jsonb'

/** A spreadsheet runs a cell that begins with one of these as a formula; an apostrophe before it makes it text. */
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

const exportParquet = (database: Database, found: ViewRows, file: string): Promise<number> =>
  atOneMoment(database, async (trx) => {
    const rows = selectRows(found)
    return writeParquet(trx, { columns: found.columns, rows, scales: await scalesOf(trx, found.columns, rows), file })
  })

/** Runs `work` in one REPEATABLE READ transaction, so that all reads see one snapshot. */
export const atOneMoment = <T>({ pool }: Database, work: (trx: Db) => Promise<T>): Promise<T> =>
  withSession(pool, ({ kysely }) => kysely.transaction().setIsolationLevel('repeatable read').execute(work))

/** A null field does not filter. */
export interface RowFilter {
  /** Values by column. */
  readonly only: ReadonlyMap<string, readonly string[]> | null
  /** First days of the first and last month, both included. */
  readonly from: string | null
  readonly to: string | null
}

/** The selected rows of a view. */
export interface ViewRows {
  readonly view: string
  readonly columns: readonly ViewColumn[]
  /** The column that says the month; null where the view has none. */
  readonly period: string | null
  /** Without parameters, which COPY does not take. */
  readonly where: RawBuilder<unknown>
}

/** Throws USAGE when there is no such view, no such column to filter by, or a value that pipelines run for is in no row and was never on a list. */
export const viewRows = async (db: Db, view: string, filter: RowFilter): Promise<ViewRows> => {
  const columns = await columnsOf(db, view)
  const names = columns.map(({ name }) => name)
  const period = ['month', 'date'].find((name) => columns.some((one) => one.name === name && one.type === 'date')) ?? null
  for (const name of filter.only?.keys() ?? [])
    if (!names.includes(name))
      throw usageError(`bi.${view} has no column '${name}' to filter by (--only); it has ${names.join(', ')}.`)
  for (const [name, values] of filter.only ?? []) {
    const strange = await strangeValues(db, view, name, values)
    if (strange.length > 0)
      throw usageError(
        `--only ${name}=${strange.join(',')}: bi.${view} has no such row, and no pipeline has requested it. Correct it, or add it to the list and load it first.`,
      )
  }
  if (period === null && (filter.from !== null || filter.to !== null))
    throw usageError(`bi.${view} has no month or date; leave --from and --to out.`)
  const conditions = [
    ...[...(filter.only ?? [])].map(
      ([name, values]) => sql`${sql.ref(name)}::text in (${sql.join(values.map((value) => sql.lit(value)))})`,
    ),
    ...(period === null || filter.from === null ? [] : [sql`${sql.ref(period)} >= ${sql.lit(filter.from)}::date`]),
    ...(period === null || filter.to === null
      ? []
      : [sql`${sql.ref(period)} < ${sql.lit(filter.to)}::date + interval '1 month'`]),
  ]
  return { view, columns, period, where: conditions.length === 0 ? sql`true` : sql.join(conditions, sql` and `) }
}

/** Values of a dimension that were never on a list and are in no row: the view, which may be large, is queried only for unlisted values. Other columns may have any value. */
const strangeValues = (db: Db, view: string, name: string, values: readonly string[]): Promise<readonly string[]> =>
  queryColumn<Texts<'v'>>(db)`
    with unlisted as materialized (
      select v from unnest(${values}::text[]) v where exists (select from etl.pipelines where ${name} = any(dimensions))
        and not exists (select from etl.pipelines p join etl.slices s using (pipeline_id)
          where s."values"[array_position(p.dimensions, ${name})] = v)
    )
    select v from unlisted where not exists (select from ${sql.table(`bi.${view}`)} where ${sql.ref(name)}::text = v)`

/** The query of the rows, of one month where it is given. */
export const selectRows = ({ view, columns, period, where }: ViewRows, month?: string): RawBuilder<unknown> => {
  const names = sql.join(columns.map(({ name }) => sql.ref(name)))
  const inMonth =
    month === undefined || period === null
      ? sql`true`
      : sql`${sql.ref(period)} >= ${sql.lit(month)}::date and ${sql.ref(period)} < ${sql.lit(month)}::date + interval '1 month'`
  return sql`select ${names} from ${sql.table(`bi.${view}`)} where ${where} and ${inMonth}`
}

const columnsOf = async (db: Db, view: string): Promise<readonly ViewColumn[]> => {
  const rows = await query<ViewColumn>(db)`
    select a.attname as name, format_type(a.atttypid, null) as type from pg_attribute a join pg_class c on c.oid = a.attrelid
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'bi' and c.relname = ${view} and c.relkind in ('r', 'v', 'p') and a.attnum > 0 and not a.attisdropped
    order by a.attnum`
  if (rows.length > 0) return rows
  const all = await query<Texts<'name'>>(
    db,
  )`select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'bi' and c.relkind in ('r', 'v', 'p') order by 1`
  const names = all.map(({ name }) => name)
  if (names.length === 0) throw usageError('There are no views yet: run `millrace migrate`.')
  throw usageError(`There is no bi.${view}.${suggest(view, names)} The data dictionary lists them.`)
}
