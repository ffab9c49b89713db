// A view of bi as a folder or bucket for lakes: one Parquet file a month, and a list of them; later only the months that changed.
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
import { replaceFile, unlessMissing } from './replace-file.ts'
import { atOneMoment, type RowFilter, selectRows, type ViewRows, viewRows } from './export-view.ts'

/** Where the files go. A file is there whole or not at all. */
export interface ExportTarget {
  /** For people. */
  readonly place: string
  /** Null where there is none. */
  text(name: string): Promise<string | null>
  putText(name: string, text: string): Promise<void>
  /** Takes the place of a file of the same name. */
  putFile(name: string, file: string): Promise<void>
  /** Nothing happens where there is none. */
  remove(name: string): Promise<void>
}

/** One file a month. */
interface MonthsRequest {
  readonly view: string
  readonly filter: RowFilter
  /** Whether months that are as the list says are left alone. */
  readonly sinceLast: boolean
  readonly target: ExportTarget
}

const listName = '_millrace_export.json'

const listSchema = z.strictObject({
  view: z.string(),
  /** What the rows were filtered by; another filter is another export. */
  filter: z.string(),
  columns: z.array(z.strictObject({ name: z.string(), type: z.string() })),
  scales: z.record(z.string(), z.number().int().nullable()),
  /** A digest of null: an export began to write or remove the file, and its rows are unknown. */
  months: z.record(z.string(), z.strictObject({ file: z.string(), rows: z.number().int(), digest: z.string().nullable() })),
})
type FileList = z.infer<typeof listSchema>

const fileOf = (month: string): string => `export_month=${month}/data.parquet`

/** Throws USAGE when the view has no month, the place holds something else, or another export writes to it. All files show the same moment. */
export const exportMonths = async (database: Database, request: MonthsRequest) => {
  const found = await viewRows(database.kysely, request.view, request.filter)
  if (found.period === null) throw usageError(`bi.${request.view} has no month or date to make files by; leave --by out.`)
  const lock = `export to ${request.target.place}`
  const takesLocks = await canLock(database.kysely)
  if (takesLocks) await makeLock(database.kysely, lock)
  const folder = await mkdtemp(join(tmpdir(), 'millrace-export-'))
  try {
    return await atOneMoment(database, async (trx) => {
      // Digests are made of text, which must not depend on the session.
      await sql`set local timezone = 'UTC'`.execute(trx)
      if (takesLocks) await holdPlace(trx, lock, request.target.place)
      const within = { ...request, target: await keptAlive(trx, request.target) }
      return writeMonths(trx, found, within, await readList(within), join(folder, 'month.parquet'))
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** A bucket may take longer for a month than a transaction may be idle: meanwhile the server is asked something. A process that sleeps still loses it. */
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

/** One export at a time, until its transaction ends. */
const holdPlace = async (trx: Db, lock: string, place: string): Promise<void> => {
  if (await tryLockByName(trx, lock)) return
  throw usageError(`Another export writes to ${place} now; run this one again when it is done, or name another place.`)
}

/** A standby takes no locks: from there two exports at once to one place stay unseen. */
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

/** `written` and `removed` months, and the rows of the files that were written. */
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
  // Files of one export are read as one table, so they have the same columns and types.
  const isSame = known !== null && JSON.stringify([known.columns, known.scales]) === JSON.stringify([columns, scales])
  const months = await monthsOf(trx, found)
  const changed = months.filter(({ month, digest }) => !sinceLast || !isSame || known.months[month]?.digest !== digest)
  const removed = Object.keys(known?.months ?? {}).filter((name) => months.every(({ month }) => month !== name))
  const files = new Map(Object.entries(known?.months ?? {}))
  for (const month of [...changed.map((one) => one.month), ...removed])
    files.set(month, { file: fileOf(month), rows: 0, digest: null })
  const putList = (): Promise<void> =>
    target.putText(listName, listText({ view, filter: filterText(filter), columns, scales, months: Object.fromEntries(files) }))
  // Noted before the first file changes: how far a killed export came is unknown, and the rows may be as the list has them by the next one.
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

/** Digits are only ever added: a month with fewer does not make the others be written again. */
const grown = (scales: Scales, known: FileList | null): Scales =>
  Object.fromEntries(
    Object.entries(scales).map(([name, scale]) => {
      const before = known?.scales[name]
      if (scale === null || before === null) return [name, null]
      return [name, Math.max(scale, before ?? 0)]
    }),
  )

/** Each month with a digest of its rows, whatever order they lie in. */
const monthsOf = (trx: Db, found: ViewRows) =>
  query<Texts<'month' | 'digest'>>(trx)`
    select to_char(${sql.ref(found.period ?? '')}, 'YYYY-MM') as month,
      count(*) || ':' || sum(hashtextextended(rows::text, 0)::numeric) || ':' || sum(hashtextextended(rows::text, 1)::numeric) as digest
    from (${selectRows(found)}) as rows where ${sql.ref(found.period ?? '')} is not null group by 1 order by 1`

/** A folder that takes the files; made when it is not there. */
export const folderTarget = (folder: string): ExportTarget => ({
  place: folder,
  text: (name) => readFile(join(folder, name), 'utf8').catch(unlessMissing),
  putText: (name, text) => replaceFile(join(folder, name), (path) => writeFile(path, text)),
  putFile: (name, file) => replaceFile(join(folder, name), (path) => copyFile(file, path)),
  remove: async (name) => {
    await rm(join(folder, name), { force: true })
    // A month's own folder goes with its only file.
    if (dirname(name) !== '.') await rmdir(join(folder, dirname(name))).catch(() => undefined)
  },
})
