// Brings the schema `bi` in line with the definitions: views, functions, comments and rights. A view never disappears for its readers.
import { setTimeout } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import { messageOf } from '../core/errors.ts'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { isLockedOut, sqlStateOf } from '../db/database-error.ts'
import { lockByName } from '../db/named-lock.ts'
import { inRetriedTransaction, type LockWait } from '../db/lock-retry.ts'
import type { Db } from '../db/tables.ts'
import { commentAll, commentOn, grainOf } from './comments.ts'
import { type MartReaders, openMartReaders } from './mart-readers.ts'
import { assertOwnNames, applyHandOver, prepareSummaries, publishMart, recordMarts, summedFrom } from './publish-marts.ts'
import { inSavepoint, replaceView } from './replace-view.ts'
import { describedColumns, type DescribedView, describedViews } from './view-columns.ts'
import { asOfFunction, asOfName, currentView, freshnessView, historyView, tableColumns } from './views.ts'
import { continuedSeries, recordHandOver, recordVersion } from './versions.ts'
import { relationColumns, roleExists } from '../db/catalog.ts'
import { readerRole } from '../db/read-list.ts'
import { functionsOfViews, loaderRole, sessionLimits } from '../db/role-statements.ts'
import { type Lists, query, type Texts } from '../db/typed-row.ts'

/**
 * Idempotent, safe when several processes run it at once. One transaction, so a reader sees the old views or the new ones. A view whose columns change waits
 * for its readers, for `patience`; then throws DATABASE naming them. Returns the marts.
 */
export const publish = (
  database: Database,
  definitions: readonly Definition[],
  marts: readonly Mart[] = [],
  patience: LockWait = {},
): Promise<string[]> =>
  inRetriedTransaction(database, 'publish the views of bi', patience, (trx) => publishWithin(trx, definitions, marts, patience))

/** The same inside a transaction of the caller, so that the caller's changes and the new views commit together. */
export const publishWithin = async (
  trx: Db,
  definitions: readonly Definition[],
  marts: readonly Mart[],
  { waitMs = longestReaderMs }: LockWait = {},
): Promise<string[]> => {
  await lockByName(trx, 'publish')
  await assertOwnNames(trx, definitions, marts)
  const readers = openMartReaders(marts)
  // Slow steps first: a new summary has no readers yet, but readers of views replaced below wait until the transaction ends.
  const summaries = await prepareSummaries(trx, marts, definitions)
  let hasFilled = summaries.size > 0
  const step = <T>(work: () => Promise<T>): Promise<T> => (hasFilled ? patiently(trx, waitMs, work) : work())
  await step(() => publishShared(trx, definitions, readers))
  const shown = definitions.filter((one) => one.publish)
  // Record all versions and hand-overs first: the views of a pipeline depend on the records of its successor.
  const changedFrom = await step(async () => {
    const days = new Map<string, string | null>()
    for (const definition of shown) {
      await recordVersion(trx, definition)
      days.set(definition.pipeline, await recordHandOver(trx, definition, definitions))
    }
    return days
  })
  const adjust = async (mart: Mart): Promise<void> => {
    const source = summedFrom(mart, shown)
    if (source !== undefined) await applyHandOver(trx, mart, source, changedFrom.get(source.pipeline) ?? null)
  }
  for (const mart of marts.filter(({ name }) => !summaries.has(name))) await step(() => adjust(mart))
  if ([...changedFrom.values()].some((day) => day !== null)) hasFilled = true
  for (const definition of shown) await step(() => publishOne(trx, definition, definitions, readers))
  return step(async () => {
    const published: string[] = []
    const views = describedViews(definitions, marts)
    for (const mart of marts)
      if (await publishMart(trx, mart, definitions, { readers, summaries, views })) published.push(mart.name)
    for (const mart of marts.filter(({ name }) => summaries.has(name) && published.includes(name))) await adjust(mart)
    await grantReader(trx)
    // In the same transaction: a load that sees the mart's record must see its table, or a new summary would lack the load's rows.
    await recordMarts(trx, published, shown)
    return published
  })
}

/** Retries one step while a reader holds a lock, without rolling back earlier steps: filling summaries may have taken minutes. */
const patiently = async <T>(trx: Db, waitMs: number, work: () => Promise<T>): Promise<T> => {
  const until = performance.now() + waitMs
  for (;;) {
    const done = await inSavepoint(trx, (error) => isLockedOut(error) && performance.now() <= until, work)
    if (done !== null) return done.result
    await setTimeout(retryEveryMs)
  }
}

/** How long a reader's statement may take. */
const longestReaderMs = 60_000
const retryEveryMs = 300

const publishShared = async (trx: Db, definitions: readonly Definition[], readers: MartReaders): Promise<void> => {
  await sql`create schema if not exists bi`.execute(trx)
  const comments: readonly [string, string][] = [
    ['bi', 'Views for people and BI tools: current rows, every revision, freshness. NULL means no data, never 0.'],
    ['data', 'The tables behind bi. Read bi instead: names here carry versions.'],
    ['etl', 'The ledger: runs, units, reports, requests, loads, quota, quarantine.'],
  ]
  for (const [schema, text] of comments) await commentOn('schema', sql.id(schema), text).execute(trx)
  await replaceView(trx, 'freshness', freshnessView, () => readers.dropOf(trx, 'freshness'))
  await commentViews(trx, definitions, ['dimension', 'freshness'])
}

const publishOne = async (trx: Db, definition: Definition, all: readonly Definition[], readers: MartReaders): Promise<void> => {
  const { pipeline } = definition
  // Before the steps that make readers of the views wait.
  await commentTables(trx, definition)
  const series = await continuedSeries(trx, definition, all)
  // The _as_of function returns the view's row type: dropping the view drops the function, so it is made again below.
  const put = (name: string, wanted: RawBuilder<unknown>) => replaceView(trx, name, wanted, () => readers.dropOf(trx, name))
  await put(pipeline, currentView(definition, series))
  await put(`${pipeline}_history`, historyView(definition, series))
  await asOfFunction(definition).execute(trx)
  await giveToOwner(trx, definition)
  await publishFormer(trx, definition, series.readable)
  await commentViews(trx, [definition], ['facts', 'history'])
  await commentOn(
    'function',
    sql`${asOfName(definition)}(timestamptz)`,
    `The rows of bi.${pipeline} as they were at the given moment.`,
  ).execute(trx)
}

/** Gives the function to the view's owner: else another login that publishes next could not replace it. */
const giveToOwner = async (trx: Db, { pipeline }: Definition): Promise<void> => {
  const rows = await query<Texts<'statement'>>(trx)`
    select format('alter function bi.%I(timestamptz) owner to %I', p.proname, pg_get_userbyid(c.relowner)) as statement from pg_class c, pg_proc p
    where c.oid = to_regclass(${`bi.${pipeline}`}) and p.oid = to_regprocedure(${`bi.${pipeline}_as_of(timestamptz)`}) and p.proowner <> c.relowner`
  for (const { statement } of rows) await attempt(trx, sql.raw(statement))
}

/** Former versions stay readable under their number, with their own columns. */
const publishFormer = async (trx: Db, { pipeline }: Definition, versions: readonly number[]): Promise<void> => {
  for (const version of versions) {
    const [name, table] = [`${pipeline}_v${version}`, `data.${pipeline}_v${version}`]
    const columns = await relationColumns(trx, table)
    await replaceView(trx, name, sql`select ${sql.join(columns.map((column) => sql.ref(column.name)))} from ${sql.table(table)}`)
    const about = `Rows of ${pipeline}, version ${version}. Read bi.${pipeline}.`
    const described = columns.map((column) => ({ name: column.name, about: column.about ?? '' }))
    await commentAll(trx, 'view', `bi.${name}`, about, described)
  }
}

const commentTables = async (trx: Db, definition: Definition): Promise<void> => {
  const { pipeline, version, description } = definition
  const name = `data.${pipeline}_v${version}`
  const columns = tableColumns(definition)
  const about = `${description} ${grainOf(definition)} Read bi.${pipeline}.`
  await commentAll(trx, 'table', name, about, describedColumns(definition, columns))
  const ended = describedColumns(definition, [...columns, '_valid_from', '_valid_to', '_ended_run_id'])
  const of = `Ended revisions of ${name}. Read bi.${pipeline}_history.`
  await commentAll(trx, 'table', `${name}_history`, of, ended)
}

/** Writes the descriptions of the documents as comments into the catalog. */
const commentViews = async (trx: Db, definitions: readonly Definition[], which: readonly DescribedView['of'][]) => {
  for (const { kind, of, name, about, columns } of describedViews(definitions, []))
    if (which.includes(of)) await commentAll(trx, kind, `bi.${name}`, about, columns)
}

/** Makes the reader role, where this login may, and grants it what is published. Without the right to make roles, does nothing. */
export const grantReader = async (trx: Db): Promise<void> => {
  await turnOffJit(trx)
  if (!(await ensureRole(trx))) return
  const role = sql.id(readerRole)
  await sql`grant usage on schema bi to ${role}`.execute(trx)
  await sql`grant select on all tables in schema bi to ${role}`.execute(trx)
  await sql`grant execute on all functions in schema bi to ${role}`.execute(trx)
  const withheld = sql`not has_function_privilege(${readerRole}, oid, 'execute')`
  const called = await sql<Texts<'name'>>`${sql.raw(functionsOfViews)} and ${withheld}`.execute(trx)
  for (const { name } of called.rows) await sql`grant execute on function ${sql.raw(name)} to ${role}`.execute(trx)
  await sql`alter default privileges in schema bi grant select on tables to ${role}`.execute(trx)
  await sql`alter default privileges in schema bi grant execute on functions to ${role}`.execute(trx)
  await limitLogins(trx)
}

/**
 * Logins do not inherit the settings of a role that they are members of, directly or through another role; so each login gets them, unless it has
 * its own: only in this database, since it may be a loader in another. A login with rights in etl, a member of the loader of `millrace roles`, and the login
 * that made the role (a member with ADMIN since PostgreSQL 16) are no readers.
 */
const limitLogins = async (trx: Db): Promise<void> => {
  const rows = await query<Texts<'login' | 'database'> & Lists<Texts<'settings'>>>(trx)`
    select r.rolname as login, d.datname as database, array(select split_part(c.setting, '=', 1) from pg_db_role_setting s, unnest(s.setconfig) as c (setting)
      where s.setrole = r.oid and s.setdatabase in (0, d.oid)) as settings
    from pg_roles r join pg_database d on d.datname = current_database()
    where r.rolcanlogin and not r.rolsuper and pg_has_role(r.oid, ${readerRole}, 'member') and not has_schema_privilege(r.oid, 'etl', 'usage')
      and not exists (select from pg_roles g where g.rolname = ${loaderRole} and pg_has_role(r.oid, g.oid, 'member'))
      and not exists (select from pg_auth_members m join pg_roles g on g.oid = m.roleid
        where g.rolname = ${readerRole} and m.member = r.oid and m.admin_option)`
  for (const { login, database, settings } of rows)
    for (const [name, value] of Object.entries(sessionLimits.reader).filter(([name]) => !settings.includes(name)))
      await attempt(
        trx,
        sql`alter role ${sql.id(login)} in database ${sql.id(database)} set ${sql.raw(name)} = ${sql.lit(value)}`,
      )
}

/** Sets it on the database, for logins that are made later or that this login may not change; unless the database has a value. */
const turnOffJit = async (trx: Db): Promise<void> => {
  const rows = await query<Texts<'name'>>(trx)`select d.datname as name from pg_database d where d.datname = current_database()
    and not exists (select from pg_db_role_setting s, unnest(s.setconfig) as c (setting)
      where s.setdatabase = d.oid and s.setrole = 0 and c.setting like 'jit=%')`
  for (const { name } of rows) await attempt(trx, sql`alter database ${sql.id(name)} set jit = off`)
}

/** Runs a statement for which this login may lack the right (42501): then a person runs it, see `docs/bi.md`. 42704: the login was dropped meanwhile. */
const attempt = (trx: Db, statement: RawBuilder<unknown>): Promise<unknown> =>
  inSavepoint(
    trx,
    (error) => ['42501', '42704'].includes(sqlStateOf(error)) || isOvertaken(error),
    () => statement.execute(trx),
  )

/** A process in another database of the server changed the same role at that moment; PostgreSQL has no code of its own for it. */
const isOvertaken = (error: unknown): boolean =>
  sqlStateOf(error) === 'XX000' && messageOf(error).includes('tuple concurrently updated')

/** 42501: no right to make roles. 42710, 23505: another process just made it, in another database of the same server. */
const ensureRole = async (trx: Db): Promise<boolean> => {
  if (await roleExists(trx, readerRole)) return true
  const isForeseen = (error: unknown): boolean => ['42501', '42710', '23505'].includes(sqlStateOf(error))
  await inSavepoint(trx, isForeseen, async () => {
    await sql`create role ${sql.id(readerRole)} nologin`.execute(trx)
    for (const [name, value] of Object.entries(sessionLimits.reader))
      await sql`alter role ${sql.id(readerRole)} set ${sql.raw(name)} = ${sql.lit(value)}`.execute(trx)
  })
  return roleExists(trx, readerRole)
}
