// Exports a view of bi for data lakes into a folder or bucket: one Parquet file a month and a list of files; later only months that changed.
import { copyFile, mkdtemp, readFile, rm, rmdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { sql } from 'kysely'
import { z } from 'zod'
import { jsonOrNull } from '../../core/json.ts'
import { usageError } from '../../core/errors.ts'
import type { Database } from '../../db/connect.ts'
import { makeLock, tryLockByName } from '../../db/named-lock.ts'
import { type Flags, type Numbers, query, queryValue, type Texts } from '../../db/typed-row.ts'
import type { Db } from '../../db/tables.ts'
import { type Scales, scalesOf, writeParquet } from './parquet.ts'
import { replaceFile, nullIfMissing } from './replace-file.ts'
import { atOneMoment, type RowFilter, selectRows, type ViewRows, viewRows } from './export-view.ts'

/** The place for the files. A file is complete or does not exist. */
export interface ExportTarget {
  /** For people. */
  readonly place: string
  /** null: no such file. */
  text(name: string): Promise<string | null>
  putText(name: string, text: string): Promise<void>
  /** Replaces a file of the same name. */
  putFile(name: string, file: string): Promise<void>
  /** Does nothing where there is no such file. */
  remove(name: string): Promise<void>
}

/** One file a month. */
interface MonthsRequest {
  readonly view: string
  readonly filter: RowFilter
  /** Whether to skip months that have not changed since the list was written. */
  readonly sinceLast: boolean
  readonly target: ExportTarget
}

const listName = '_millrace_export.json'

const listSchema = z.strictObject({
  view: z.string(),
  /** The filter of the rows; another filter is another export. */
  filter: z.string(),
  columns: z.array(z.strictObject({ name: z.string(), type: z.string() })),
  scales: z.record(z.string(), z.number().int().nullable()),
  /** `digest` null: an export has begun to write or remove the file, so its content is not known. */
  months: z.record(z.string(), z.strictObject({ file: z.string(), rows: z.number().int(), digest: z.string().nullable() })),
})
type FileList = z.infer<typeof listSchema>

const fileOf = (month: string): string => `export_month=${month}/data.parquet`

/** All files are from one snapshot. Throws USAGE where the view has no month, the place has other files, or another export is writing to it. */
export const exportMonths = async (database: Database, request: MonthsRequest) => {
  const found = await viewRows(database.kysely, request.view, request.filter)
  if (found.period === null) throw usageError(`bi.${request.view} has no month or date to make files by; leave --by out.`)
  const lock = `export to ${request.target.place}`
  const takesLocks = await canLock(database.kysely)
  if (takesLocks) await makeLock(database.kysely, lock)
  const folder = await mkdtemp(join(tmpdir(), 'millrace-export-'))
  try {
    return await atOneMoment(database, async (trx) => {
      // Digests are made from rows as text, which must not depend on the session.
      await sql`set local timezone = 'UTC'`.execute(trx)
      if (takesLocks) await holdPlace(trx, lock, request.target.place)
      const within = { ...request, target: await keptAlive(trx, request.target) }
      return writeMonths(trx, found, within, await readList(within), join(folder, 'month.parquet'))
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Sends queries while a bucket uploads, which may take longer than a transaction may be idle. A suspended process still loses its transaction. */
const keptAlive = async (trx: Db, target: ExportTarget): Promise<ExportTarget> => {
  const limit = await queryValue<Numbers<'ms'>>(
    trx,
  )`select setting::integer as ms from pg_settings where name = 'idle_in_transaction_session_timeout'`
  const during = async <T>(work: Promise<T>): Promise<T> => {
    let asked: Promise<unknown> = Promise.resolve()
    const ask = (): void => {
      asked = sql`select 1`.execute(trx).catch(() => undefined)
    }
    const timer = limit > 0 ? setInterval(ask, limit / 3) : undefined
    try {
      return await work
    } finally {
      clearInterval(timer)
      await asked
    }
  }
  return {
    place: target.place,
    text: (name) => during(target.text(name)),
    putText: (name, text) => during(target.putText(name, text)),
    putFile: (name, file) => during(target.putFile(name, file)),
    remove: (name) => during(target.remove(name)),
  }
}

/** Allows one export to a place at a time: takes a lock until the transaction ends. */
const holdPlace = async (trx: Db, lock: string, place: string): Promise<void> => {
  if (await tryLockByName(trx, lock)) return
  throw usageError(`Another export is writing to ${place}; run this one again when that has ended, or name another place.`)
}

/** A standby cannot take locks, so two concurrent exports from standbys to one place are not detected. */
const canLock = (db: Db): Promise<boolean> =>
  queryValue<Flags<'can'>>(db)`select not current_setting('transaction_read_only')::boolean as can`

const filterText = ({ only, from, to }: RowFilter): string =>
  JSON.stringify({ only: [...(only ?? [])].sort(([a], [b]) => (a < b ? -1 : 1)), from, to })

const readList = async ({ target, view, filter }: MonthsRequest): Promise<FileList | null> => {
  const text = await target.text(listName)
  if (text === null) return null
  const parsed = listSchema.safeParse(jsonOrNull(text))
  const wrong = !parsed.success
    ? 'a list of files that cannot be read'
    : parsed.data.view !== view
      ? `an export of bi.${parsed.data.view}`
      : parsed.data.filter !== filterText(filter)
        ? 'an export with other filters'
        : null
  if (wrong === null && parsed.success) return parsed.data
  throw usageError(`${target.place} holds ${wrong} (${listName}); name another place, or empty this one first.`)
}

/** Returns the `written` and `removed` months, and the number of rows in the written files. */
const writeMonths = async (
  trx: Db,
  found: ViewRows,
  { target, sinceLast, view, filter }: MonthsRequest,
  known: FileList | null,
  file: string,
) => {
  const rows = selectRows(found)
  const scales = grown(await scalesOf(trx, found.columns, rows), known)
  const columns = found.columns.map(({ name, type }) => ({ name, type }))
  // Readers treat the files of an export as one table, so all need the same columns and types.
  const isSame = known !== null && JSON.stringify([known.columns, known.scales]) === JSON.stringify([columns, scales])
  const months = await monthsOf(trx, found)
  const changed = months.filter(({ month, digest }) => !sinceLast || !isSame || known.months[month]?.digest !== digest)
  const removed = Object.keys(known?.months ?? {}).filter((name) => months.every(({ month }) => month !== name))
  const files = new Map(Object.entries(known?.months ?? {}))
  for (const month of [...changed.map((one) => one.month), ...removed])
    files.set(month, { file: fileOf(month), rows: 0, digest: null })
  const putList = (): Promise<void> =>
    target.putText(listName, listText({ view, filter: filterText(filter), columns, scales, months: Object.fromEntries(files) }))
  // Write the list before the first file changes: after a kill the state of the files is not known, and the next export could take them for unchanged.
  if (changed.length + removed.length > 0) await putList()
  let total = 0
  for (const { month, digest } of changed) {
    const count = await writeParquet(trx, { columns, rows: selectRows(found, `${month}-01`), scales, file })
    await target.putFile(fileOf(month), file)
    files.set(month, { file: fileOf(month), rows: count, digest })
    total += count
  }
  for (const month of removed) {
    await target.remove(fileOf(month))
    files.delete(month)
  }
  await putList()
  return { written: changed.map(({ month }) => month), unchanged: months.length - changed.length, removed, rows: total }
}

/** Months in order. */
const listText = ({ months, ...others }: FileList): string => {
  const sorted = Object.fromEntries(Object.entries(months).sort(([a], [b]) => (a < b ? -1 : 1)))
  return `${JSON.stringify({ ...others, months: sorted }, null, 2)}\n`
}

/** Scales never shrink, so that a month with fewer digits does not force writing all others again. */
const grown = (scales: Scales, known: FileList | null): Scales =>
  Object.fromEntries(
    Object.entries(scales).map(([name, scale]) => {
      const before = known?.scales[name]
      if (scale === null || before === null) return [name, null]
      return [name, Math.max(scale, before ?? 0)]
    }),
  )

/** Each month with a digest of its rows that does not depend on their order. */
const monthsOf = (trx: Db, found: ViewRows) =>
  query<Texts<'month' | 'digest'>>(trx)`
    select to_char(${sql.ref(found.period ?? '')}, 'YYYY-MM') as month,
      count(*) || ':' || sum(hashtextextended(rows::text, 0)::numeric) || ':' || sum(hashtextextended(rows::text, 1)::numeric) as digest
    from (${selectRows(found)}) as rows where ${sql.ref(found.period ?? '')} is not null group by 1 order by 1`

/** A folder for the files, made if missing. */
export const folderTarget = (folder: string): ExportTarget => ({
  place: folder,
  text: (name) => readFile(join(folder, name), 'utf8').catch(nullIfMissing),
  putText: (name, text) => replaceFile(join(folder, name), (path) => writeFile(path, text)),
  putFile: (name, file) => replaceFile(join(folder, name), (path) => copyFile(file, path)),
  remove: async (name) => {
    await rm(join(folder, name), { force: true })
    // Also remove the month's folder, if it is empty now.
    if (dirname(name) !== '.') await rmdir(join(folder, dirname(name))).catch(() => undefined)
  },
})
