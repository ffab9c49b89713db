// Marts in bi: views over what is published, and summaries as tables that each load keeps up to date.
import { type RawBuilder, sql } from 'kysely'
import { randomBytes } from 'node:crypto'
import { EtlError, isEtlError, messageOf, settingError } from '../core/errors.ts'
import { type Mart, summarySignature } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { windowAt } from '../core/window.ts'
import { columnNames, missingRelations } from '../db/catalog.ts'
import type { Database } from '../db/connect.ts'
import { isTransient, sqlStateOf } from '../db/database-error.ts'
import { tooWideError, successorFrom, beforeSuccessor, type SummaryInput, summaryQuery } from '../db/summary-query.ts'
import { inRetriedTransaction, type LockWait } from '../db/lock-retry.ts'
import { type Maybe, query, queryColumn, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { commentAll, commentOn, joinsOf } from './comments.ts'
import type { MartReaders } from './mart-readers.ts'
import { dropRelation, dropToReplace, inSavepoint, replaceView, restoreSettings, settingsOn } from './replace-view.ts'
import { stillCounted, keptUnits, recordVersion, type Series, seriesOf } from './versions.ts'
import { describedColumns, type DescribedView, wrongNames } from './view-columns.ts'
import { currentRows, periodOf } from './views.ts'

/** What publishing a mart needs. `views`: all views as the definitions and headers describe them. */
interface Publishing {
  readonly readers: MartReaders
  readonly summaries: PreparedSummaries
  readonly views: readonly DescribedView[]
}

/** Publishes one mart if everything that it reads exists; returns whether bi has the mart now. */
export const publishMart = async (
  trx: Db,
  mart: Mart,
  definitions: readonly Definition[],
  { readers, summaries, views }: Publishing,
): Promise<boolean> => {
  if (!(await readable(trx, mart.reads))) return false
  // A summary whose pipeline is no longer defined or published stays as it is.
  if (mart.summaryOf !== null && summedFrom(mart, definitions) === undefined) return readable(trx, [mart.name])
  const made = await orLeftOut(trx, mart, async () => {
    if (mart.summaryOf === null) await replaceView(trx, mart.name, sql.raw(mart.sql), () => readers.dropOf(trx, mart.name))
    else {
      const name = summaries.get(mart.name)
      if (name !== undefined) await putSummary(trx, mart, name, readers)
      if (name === null) return false
    }
    await readers.restore(trx, mart.name)
    return true
  })
  if (made?.result !== true) return false
  const view = views.find(({ name }) => name === mart.name)
  await describe(trx, mart, definitions, view)
  return true
}

/** The definition whose rows a summary sums up; undefined: none that is published. */
export const summedFrom = ({ summaryOf }: Pick<Mart, 'summaryOf'>, definitions: readonly Definition[]): Definition | undefined =>
  definitions.find(({ pipeline, publish }) => publish && pipeline === summaryOf)

/** null: a shipped mart reads a column that the definition lacks or has in another type. Other errors of the query are thrown in words. */
const orLeftOut = <T>(trx: Db, mart: Mart, work: () => Promise<T>): Promise<{ result: T } | null> =>
  inSavepoint(trx, (error) => isShippedMismatch(mart, error), work).catch((error: unknown) => refused(mart, error))

/** Codes of a missing column (42703), of a missing function or operator for the type (42883), and of a wrong or impossible type (42804, 42846). */
export const isShippedMismatch = ({ isShipped }: Mart, error: unknown): boolean =>
  isShipped && ['42703', '42883', '42804', '42846'].includes(sqlStateOf(error))

const refused = ({ file }: Mart, error: unknown): never => {
  if (isEtlError(error) || isTransient(error)) throw error
  if (sqlStateOf(error) === '42501')
    throw settingError(
      `${file}: this login has no right to publish it: ${messageOf(error)}. Grant the right; if another login owns the view, run the SQL of \`millrace roles\` again.`,
      error,
    )
  throw new EtlError(
    'DEFINITION',
    `${file}: PostgreSQL refuses the query: ${messageOf(error)}. Correct it; nothing of it was published.`,
    { cause: error },
  )
}

const readable = async (trx: Db, names: readonly string[]): Promise<boolean> => {
  const wanted = names.map((name) => (name.includes('.') ? name : `bi.${name}`))
  return (await missingRelations(trx, wanted)).length === 0
}

/** Marts that could not be published, although what they read exists or is itself in this list. @param marts in the order in which they read each other */
export const unpublishedMarts = async (
  db: Db,
  marts: readonly Mart[],
  published: readonly string[],
  definitions: readonly Definition[],
): Promise<string[]> => {
  const left: string[] = []
  for (const mart of marts.filter(({ name }) => !published.includes(name))) {
    const { name, reads, summaryOf } = mart
    if (summaryOf !== null && summedFrom(mart, definitions) === undefined) continue
    const others = reads.filter((one) => !left.includes(one))
    if (!mart.isShipped || (await readable(db, others))) left.push(name)
  }
  return left
}

/** A view that a definition makes under the mart's name; null: there is none. */
export const nameProblem = ({ file, name }: Mart, definitions: readonly Definition[]): string | null => {
  const own = ['freshness', ...definitions.flatMap(viewsOf)]
  return own.includes(name) ? `${file}: bi.${name} is a view of Millrace itself. Give the file another name.` : null
}

const viewsOf = ({ pipeline }: Definition): readonly string[] => [pipeline, `${pipeline}_history`]

/** Throws DEFINITION where a mart has the name of one of our views, and CONFIGURATION where bi has a relation with such a name that Millrace never published: bi may be older than the warehouse, and a person's table would be lost. */
export const assertOwnNames = async (trx: Db, definitions: readonly Definition[], marts: readonly Mart[]): Promise<void> => {
  const [taken = null] = marts.map((mart) => nameProblem(mart, definitions)).filter((words) => words !== null)
  if (taken !== null) throw new EtlError('DEFINITION', taken)
  const pipelines = definitions.filter(({ publish }) => publish).map(({ pipeline }) => pipeline)
  const endings = sql`unnest(array['', '_history']) as e (ending)`
  const foreign = await query<Texts<'name'>>(
    trx,
  )`select c.relname as name from pg_class c where c.relnamespace = to_regnamespace('bi') and c.relname in (
      select unnest(${['freshness', ...marts.map(({ name }) => name)]}::text[]) union all select p.name || e.ending from unnest(${pipelines}::text[]) as p (name), ${endings})
    -- A name may move from a pipeline to a mart, and back.
    and c.relname not in (select name from etl.marts union all select v.pipeline || e.ending from etl.published_versions v, ${endings})
    and not (c.relname = 'freshness' and coalesce(pg_get_viewdef(c.oid), '') ~ 'etl[.]|window_states') order by 1`
  if (foreign.length === 0) return
  const list = foreign.map(({ name }) => `bi.${name}`).join(', ')
  throw settingError(
    `${list}: Millrace needs this name for a view of its own. Rename the object or move it to another schema, then migrate. Nothing was changed.`,
  )
}

/** Fills new summary tables. Makes no reader wait, because it changes nothing that bi shows. Call it in the transaction that publishes, before any view is replaced. */
export const prepareSummaries = async (
  trx: Db,
  marts: readonly Mart[],
  definitions: readonly Definition[],
): Promise<PreparedSummaries> => {
  const prepared = new Map<string, string | null>()
  for (const mart of marts) {
    const source = summedFrom(mart, definitions)
    if (source === undefined) continue
    const lacks = summaryKeyProblem(mart, source)
    if (lacks !== null) throw new EtlError('DEFINITION', `${mart.file}: ${lacks}`)
    if (!mart.isShipped) await orLeftOut(trx, mart, () => assertColumnsNamed(trx, mart, source))
    const there = await query<Maybe<Texts<'about'>>>(trx)`
      select obj_description(to_regclass(${`bi.${mart.name}`}), 'pg_class') as about`
    const isMade = there[0]?.about?.endsWith(`[${summarySignature(mart, source.version)}]`) === true
    const isRight = isMade && (!mart.isShipped || (await orLeftOut(trx, mart, () => tryQuery(trx, mart, source))) !== null)
    if (isRight) continue
    const filled = await orLeftOut(trx, mart, () => fillSummary(trx, mart, source))
    prepared.set(mart.name, filled?.result ?? null)
  }
  return prepared
}

/** By mart: the new table; null: the mart is left out. A mart whose table is up to date has no entry. */
type PreparedSummaries = ReadonlyMap<string, string | null>

const tryQuery = async (trx: Db, mart: Mart, source: Definition): Promise<void> => {
  const facts = sql`(${currentRows(source, await seriesOf(trx, source))})`
  await sql`select from (${summaryQuery(mart, source, { facts, units: sql`false` })}) as q limit 0`.execute(trx)
}

/** Throws DEFINITION where the query passes all columns of the facts on (`*`): after a change of the definition, loads would write into wrong columns. */
const assertColumnsNamed = async (trx: Db, mart: Mart, source: Definition): Promise<void> => {
  const facts = sql`(select r.*, null::text as ${sql.ref(probeColumn)} from (${currentRows(source, await seriesOf(trx, source))}) r)`
  await sql`create temporary view publish_probe as ${summaryQuery(mart, source, { facts, units: sql`false` })}`.execute(trx)
  const names = await columnNames(trx, 'pg_temp.publish_probe')
  await sql`drop view pg_temp.publish_probe`.execute(trx)
  if (names.includes(probeColumn)) throw new EtlError('DEFINITION', `${mart.file}: ${columnsUnnamed}`)
}

/** A probe column: it appears in the result only where the query uses `*`. */
export const probeColumn = 'millrace_one_more'
export const columnsUnnamed = "write the columns of a summary out: '*' in its query would change with the pipeline."

/** Fills a new table for a summary that is new, or whose query or pipeline version changed; later, loads keep it up to date. Returns the table's name in `data`. */
const fillSummary = async (trx: Db, mart: Mart, source: Definition): Promise<string> => {
  const data = sql.table(`data.${source.pipeline}_v${source.version}`)
  const signature = summarySignature(mart, source.version)
  // Random, because constraints keep this name in bi, where another mart may have the same query.
  const name = `summary_${signature}_${randomBytes(4).toString('hex')}`
  const table = sql.table(`data.${name}`)
  // Loads wait until the table is in place, so that it misses none; readers of the facts do not wait.
  await sql`lock table ${data} in share mode`.execute(trx)
  // Cells that only a former version has count here as they do in the view.
  await recordVersion(trx, source)
  const series = await seriesOf(trx, source)
  for (const { version } of stillCounted(series))
    await sql`lock table ${sql.table(`data.${source.pipeline}_v${version}`)} in share mode`.execute(trx)
  const shown = shownRows(source, series)
  await refuseWider(trx, mart, source, shown)
  const query = summaryQuery(mart, source, beforeSuccessor(source, periodOf(source), shown))
  await sql`create table ${table} as ${query}`.execute(trx)
  await sql`alter table ${table} add primary key (${sql.join(mart.key.map((column) => sql.ref(column)))})`.execute(trx)
  for (const { column, table: dimension, to } of joinsOf(source).filter(
    (one) => one.isOfUnits && mart.key.includes(one.column),
  )) {
    const values = sql.table(`bi.${dimension}`)
    // Values of units without rows, loaded by a version of Millrace that did not add them to the dimension.
    await sql`insert into ${values} (${sql.ref(to)}) select distinct ${sql.ref(column)} from ${table}
      except select ${sql.ref(to)} from ${values} on conflict do nothing`.execute(trx)
    await sql`alter table ${table} add foreign key (${sql.ref(column)})
      references ${values} (${sql.ref(to)})`.execute(trx)
  }
  await commentOn('table', table, `${aboutOf(mart)} [${signature}]`).execute(trx)
  return name
}

/** Throws DEFINITION where a summary row spans several windows: such a row lies outside of one of the two newest windows, when each is summed up alone. */
const refuseWider = async (trx: Db, mart: Mart, source: Definition, { facts, units }: SummaryInput): Promise<void> => {
  const period = sql.ref(periodOf(source))
  let before = 'infinity'
  for (const _ of ['newest', 'second']) {
    const [day = null] = await queryColumn<Maybe<Texts<'day'>>>(trx)`
      select max(${period})::text as day from ${sql.table(`data.${source.pipeline}_v${source.version}`)} where ${period} < ${before}::date`
    if (day === null) return
    const { from, to } = windowAt(day, source.window.every)
    const isOfWindow = sql`${period} >= ${from}::date and ${period} < ${to}::date`
    const part = {
      facts: sql`(select w.* from ${facts} as w where ${isOfWindow})`,
      units: sql`(${units}) and u.window_from = ${from}::date`,
    }
    const [stray = null] = await queryColumn<Maybe<Texts<'day'>>>(trx)`
      select min(${period})::text as day from (${summaryQuery(mart, source, beforeSuccessor(source, periodOf(source), part))}) as q where not (${isOfWindow})`
    if (stray !== null) throw tooWideError(mart, stray)
    before = from
  }
}

/** Rows and units of the published version, and of former versions where they still count. */
const shownRows = (source: Definition, series: Series): SummaryInput => {
  const kept = stillCounted(series).map(({ version }) => sql`u.unit_id in (${keptUnits(source, version)})`)
  const units = sql`p.pipeline = ${sql.lit(source.pipeline)} and (${sql.join([sql`p.version = ${sql.lit(source.version)}`, ...kept], sql` or `)})`
  return { facts: sql`(${currentRows(source, series)})`, units }
}

/**
 * Removes from a summary the days that a successor has taken over, so that it agrees with bi.<pipeline>; adds days that came back. Call after
 * `recordHandOver`. @param changedFrom the first day whose pipeline changed in this transaction; null: none
 */
export const applyHandOver = async (trx: Db, mart: Mart, source: Definition, changedFrom: string | null): Promise<void> => {
  const table = sql.table(`bi.${mart.name}`)
  const period = periodOf(source)
  if (changedFrom === null) {
    // Without a successor the first condition is false, and no row is read.
    await sql`delete from ${table} where ${successorFrom(source)} < 'infinity' and ${sql.ref(period)} >= ${successorFrom(source)}`.execute(
      trx,
    )
    return
  }
  // Waits for a load that has written days into the summary that it must no longer have.
  await sql`lock table ${table} in share row exclusive mode`.execute(trx)
  const from = sql`${changedFrom}::date`
  const { facts, units } = beforeSuccessor(source, period, shownRows(source, await seriesOf(trx, source)))
  const since = {
    facts: sql`(select changed.* from ${facts} as changed where ${sql.ref(`changed.${period}`)} >= ${from})`,
    units: sql`${units} and u.window_from >= ${from}`,
  }
  await sql`delete from ${table} where ${sql.ref(period)} >= ${from}`.execute(trx)
  await sql`insert into ${table} ${summaryQuery(mart, source, since)}`.execute(trx)
}

/** Replaces a summary's table. Waits for readers of the old table; new readers wait from here until the transaction ends. */
const putSummary = async (trx: Db, mart: Mart, name: string | null, readers: MartReaders): Promise<void> => {
  const table = sql.table(`bi.${mart.name}`)
  const settings = await settingsOn(trx, mart.name)
  await readers.dropOf(trx, mart.name)
  await dropToReplace(trx, mart.name)
  if (name === null) return
  await sql`alter table ${sql.table(`data.${name}`)} set schema bi`.execute(trx)
  await sql`alter table ${sql.table(`bi.${name}`)} rename to ${sql.id(mart.name)}`.execute(trx)
  await restoreSettings(trx, mart.name, settings)
  await grantLoaders(trx, table)
}

/** Roles that may insert into dimensions are loaders (`millrace roles`, also under another name), and refresh summaries; a new table lacks their rights. */
const grantLoaders = async (trx: Db, table: RawBuilder<unknown>): Promise<void> => {
  const rows = await query<Texts<'role'>>(trx)`select distinct r.rolname as role
    from pg_class c cross join lateral aclexplode(c.relacl) g join pg_roles r on r.oid = g.grantee
    where c.relnamespace = 'bi'::regnamespace and c.relkind = 'r' and c.relname like 'dim\\_%'
      and g.privilege_type = 'INSERT' and g.grantee <> c.relowner order by 1`
  for (const { role } of rows) await sql`grant select, insert, delete on ${table} to ${sql.id(role)}`.execute(trx)
}

/** A load replaces its unit's rows in a summary, so the summary's key must hold the unit's columns. null: it does; else how to fix it. */
export const summaryKeyProblem = ({ key }: Mart, source: Definition): string | null => {
  const lacking = source.columns.filter(({ name, isKey, origin }) => isKey && origin !== 'response' && !key.includes(name))
  return lacking.length === 0
    ? null
    : `the key lacks ${lacking.map(({ name }) => name).join(', ')}, which distinguish the loads of ${source.pipeline}. Add ${lacking.length === 1 ? 'it' : 'them'} to '-- key:' and to the query.`
}

/** Records which marts bi has from a file; removes records whose name a definition uses now. Idempotent. @param shown definitions that are published */
export const recordMarts = async (trx: Db, names: readonly string[], shown: readonly Definition[]): Promise<void> => {
  await trx
    .deleteFrom('etl.marts')
    .where('name', 'in', ['freshness', ...shown.flatMap(viewsOf)])
    .execute()
  if (names.length === 0) return
  await trx
    .insertInto('etl.marts')
    .values(names.map((name) => ({ name })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Drops published marts whose file is gone, unless another object reads them. */
export const dropMarts = async (database: Database, files: readonly Mart[], patience: LockWait) => {
  const { kysely } = database
  const recorded = await kysely.selectFrom('etl.marts').select('name').orderBy('name').execute()
  const gone = recorded.map(({ name }) => name).filter((name) => files.every((file) => file.name !== name))
  const removed: string[] = []
  // In rounds, because marts read each other: a mart can go once its readers are gone.
  for (let left = gone, before = -1; left.length !== before; ) {
    before = left.length
    for (const name of left) if (await dropMart(database, name, patience)) removed.push(name)
    left = left.filter((name) => !removed.includes(name))
  }
  if (removed.length > 0) await kysely.deleteFrom('etl.marts').where('name', 'in', removed).execute()
  return { removed, kept: gone.filter((name) => !removed.includes(name)) }
}

const dropMart = async (database: Database, name: string, patience: LockWait): Promise<boolean> => {
  try {
    await inRetriedTransaction(database, `drop bi.${name}`, patience, (trx) => dropRelation(trx, name))
    return true
  } catch (error) {
    // dependent_objects_still_exist
    if (sqlStateOf(error) === '2BP01') return false
    throw error
  }
}

const aboutOf = (mart: Mart): string => `${mart.purpose} Grain: ${mart.grain} For example: ${mart.question}`

const describe = async (trx: Db, mart: Mart, definitions: readonly Definition[], view: DescribedView | undefined) => {
  const names = await columnNames(trx, `bi.${mart.name}`)
  const [wrong] = wrongNames(mart, view, names)
  if (wrong !== undefined) throw new EtlError('DEFINITION', `${mart.file}: ${wrong.words}; nothing of it was published.`)
  // Where several pipelines have the column, the description comes from one that the mart reads.
  const columns = [...definitions]
    .sort((a, b) => Number(mart.reads.includes(b.pipeline)) - Number(mart.reads.includes(a.pipeline)))
    .flatMap((one) => one.columns)
  const described = describedColumns({ columns }, names).map((one) => ({
    ...one,
    about: mart.columns.get(one.name) ?? one.about,
  }))
  // A summary's table already has its comment, which ends with the signature of its query.
  await commentAll(trx, 'view', `bi.${mart.name}`, mart.summaryOf === null ? aboutOf(mart) : null, described)
}
