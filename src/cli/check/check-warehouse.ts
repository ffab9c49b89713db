// Checks the warehouse: migrations, tables, marts, lists from SQL, meanings of data points, landings, and whether the database is a copy.
import { docPage } from '../../core/shipped.ts'
import { sql } from 'kysely'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { counted } from '../../core/counted.ts'
import { diskError } from '../../core/disk-error.ts'
import { readerSetting, type Settings } from '../../core/env.ts'
import { isEtlError, messageOf } from '../../core/errors.ts'
import { isRecord } from '../../core/json.ts'
import type { Mart } from '../../core/mart.ts'
import type { Definition } from '../../core/types.ts'
import { alignDown } from '../../core/window.ts'
import type { Database } from '../../db/connect.ts'
import { openDatabaseClock, skewWarning } from '../../db/database-clock.ts'
import { afterPending, migrationState } from '../../db/migrate.ts'
import { summaryQuery } from '../../db/summary-query.ts'
import type { Row } from '../../db/typed-row.ts'
import { notesFolder } from '../../extract/landing-files.ts'
import { openLandingStore } from '../../extract/landing.ts'
import { datasetOf } from '../../ledger/data-points.ts'
import { findPipeline, shapeConflict } from '../../ledger/pipelines.ts'
import { compareTables, type Difference } from '../../load/drift.ts'
import { detachedMonths } from '../../load/partition.ts'
import { differingSummaries, summaryDiffers } from '../../load/summaries.ts'
import { tableName } from '../../load/table-columns.ts'
import { columnsUnnamed, isShippedMismatch, summaryKeyProblem, probeColumn, nameProblem } from '../../publish/publish-marts.ts'
import { type DescribedView, describedViews, wrongNames } from '../../publish/view-columns.ts'
import { previewLists } from '../../plan/query-lists.ts'
import { identityFindings } from '../../run/identity.ts'
import { ownFolders } from '../../run/open-runtime.ts'
import type { SourceFolders } from '../../sources/registry.ts'
import { dataPointReadings } from '../../web/reads/read-quota.ts'
import type { Note, Notes } from './notes.ts'
import { columnNames, missingRelations, roleExists } from '../../db/catalog.ts'
import { isDatabaseError } from '../../db/database-error.ts'
import { readerRole } from '../../db/read-list.ts'
import type { Db } from '../../db/tables.ts'

/** `offline`: other machines must not be called. */
export interface Asked {
  readonly offline: boolean
  readonly signal: AbortSignal
}

/** Shared by the parts of a check. `folders` null: the sources could not be loaded, which is a finding already. */
interface Checking {
  readonly pipelinesFolder: string
  readonly definitions: readonly Definition[]
  readonly marts: readonly Mart[]
  readonly folders: SourceFolders | null
  readonly notes: Notes
}

/** Checks migrations, tables, marts and meanings of data points. Rolls back every change; findings go to the notes. */
export const checkDatabase = async (database: Database, checking: Checking): Promise<void> => {
  const { pipelinesFolder, notes } = checking
  const folders = ownFolders(pipelinesFolder, 'migrations')
  const state = await migrationState(database, { folders })
  notes.proved('database', `${database.display} answers.`)
  for (const name of state.unknown)
    notes.error(
      'migration',
      `The warehouse has migration ${name}, which this program does not know: use the newer Millrace that applied it, or put its file back under migrations/.`,
    )
  // The first command that works on an embedded database migrates it.
  for (const name of database.embedded ? [] : state.pending)
    notes.error('migration', `Migration ${name} is not applied; run \`millrace migrate\`.`)
  if (state.unknown.length > 0) return notes.notAsked('table', 'tables: the warehouse is newer than this program.')
  // A warehouse that was never migrated has no ledger to compare with.
  for (const definition of state.applied.length === 0 ? [] : checking.definitions) {
    const conflict = await shapeConflict(database.kysely, definition)
    if (conflict !== null) notes.error('definition', `${definition.file}: ${conflict}`)
  }
  if (state.pending.length === 0) {
    notes.proved('migration', `${counted(state.applied.length, 'migration')} are applied, none is pending.`)
    tell(
      checking,
      await compareTables(database.kysely, checking.definitions),
      'its table has the columns, types and key of the definition.',
    )
    for (const definition of checking.definitions)
      for (const name of await detachedMonths(database.kysely, definition))
        notes.warning(
          'table',
          `data.${name} is no partition of data.${tableName(definition)}: attach it again, or give it another name or schema. Until then loads of its month are refused, unless another partition covers it.`,
        )
    if (!(await roleExists(database.kysely, readerRole)))
      notes.warning(
        'database',
        `The role ${readerRole} does not exist and this login may not create it, so only the owner can read bi: let an administrator run \`create role ${readerRole}\`, then run \`millrace migrate\`.`,
      )
    await checkQueries(database, checking)
    await checkRefused(database, checking)
    return checkReadings(database, checking)
  }
  const found = await compareAfterMigrations(database, folders, checking.definitions)
  if (typeof found === 'string') notes.notAsked('table', `tables of the definitions: ${found}.`)
  else tell(checking, found, 'its migration makes the columns, types and key of the definition (dry run).')
  notes.notAsked('mart', 'queries of the marts: they need `millrace migrate` first.')
}

const tell = ({ definitions, notes }: Checking, differences: readonly Difference[], words: string): void => {
  for (const { level, message } of differences) notes.add('table', level, message)
  for (const definition of definitions) {
    const dimensions = definition.dimensionTables.map(({ name }) => name)
    const own = [tableName(definition), `${tableName(definition)}_history`, ...dimensions]
    if (!differences.some(({ level, table }) => level === 'error' && own.includes(table)))
      notes.proved('table', `${definition.file}: ${words}`)
  }
}

const checkQueries = async (database: Database, { marts, definitions, notes }: Checking): Promise<void> => {
  const views = new Map(describedViews(definitions, marts).map((view) => [view.name, view]))
  let good = 0
  for (const mart of marts) {
    const found = await checkMart(database, mart, { definitions, view: views.get(mart.name) })
    if (found.length === 0) good += 1
    for (const { result, message } of found) notes.add('mart', result, message)
  }
  for (const definition of definitions)
    for (const mart of await differingSummaries(database.kysely, definition, marts))
      notes.error('mart', summaryDiffers(mart).message)
  if (good > 0)
    notes.proved(
      'mart',
      `${counted(good, 'query').replace('querys', 'queries')} of marts run and return the columns that their headers explain.`,
    )
}

/** Units that the last purchase was refused for because the account's plan lacks the data, which no free request shows; only units still wanted. */
const checkRefused = async ({ kysely }: Database, { definitions, notes }: Checking): Promise<void> => {
  for (const definition of definitions) {
    const { every, from, publication } = definition.window
    const { units, said, loads } = await kysely
      .selectFrom('etl.troubled_units as u')
      .innerJoin('etl.slices as s', 's.slice_id', 'u.slice_id')
      .where('u.error_code', '=', 'NO_CAPABILITY')
      .where('u.pipeline_id', '=', (await findPipeline(kysely, definition)) ?? 0)
      .where('s.wanted_until', 'is', null)
      .where('u.window_from', '>=', alignDown(from, every))
      .where('u.window_from', '<', publication.until ?? 'infinity')
      .select([sql<string>`count(*)`.as('units'), sql<string>`min(u.error_message)`.as('said')])
      .select(
        sql<boolean>`exists (select from etl.units l where l.pipeline_id = min(u.pipeline_id) and l.answer_id is not null)`.as(
          'loads',
        ),
      )
      .executeTakeFirstOrThrow()
    if (Number(units) > 0)
      notes.add(
        'service',
        loads ? 'warning' : 'error',
        `${counted(Number(units), 'unit')} of ${definition.pipeline} ${Number(units) === 1 ? 'was' : 'were'} refused. ${said}`,
      )
  }
}

const checkReadings = async ({ kysely }: Database, { definitions, folders, notes }: Checking): Promise<void> => {
  const readings = await dataPointReadings(kysely)
  const say = (result: 'proved' | 'not asked', message: string): void => {
    if (!notes.isSaid(message)) notes.add('data points', result, message)
  }
  for (const definition of definitions) {
    const source = folders?.sources.get(definition.source)
    if (source?.kind !== 'report') continue
    const { dataset, account } = datasetOf(definition, source)
    const known = readings.find((line) => line.dataset === dataset && line.account === account)
    const rule = definition.report.dataPoints ?? 'learn'
    const name = `${dataset}, account ${account}`
    if (rule === 'ignore') say('not asked', `${name}: the definition ignores data_points_count (report.data_points).`)
    else if (rule !== 'learn') say('proved', `${name}: data_points_count counts ${rule}, says the definition.`)
    else if (known === undefined) say('not asked', `${name}: no report that gives a count has been loaded yet.`)
    else
      say('proved', `${name}: data_points_count counts ${known.readings.join(' or ')}, learned up to answer ${known.answer_id}.`)
  }
}

/** Writes and removes a file, because a folder that can be listed may be read-only or its disk full. For a missing folder: in its nearest existing parent. */
export const checkLanding = async ({ landing }: Settings, { offline, signal }: Asked, notes: Notes): Promise<void> => {
  if (landing.kind === 'folder') {
    await tryToWrite(landing.folder)
    await (await openLandingStore(landing)).room()
    return notes.proved('landing', `the folder of landings (${landing.folder}) can be written.`)
  }
  if (offline) return notes.notAsked('landing', 'the bucket of landings: --offline was given.')
  const store = await openLandingStore(landing)
  await store.ready(signal)
  const path = `${notesFolder}/check-${randomUUID()}`
  await store.notes.write(path, '')
  await store.notes.remove(path)
  notes.proved('landing', 'the bucket of landings answers, can be listed and written.')
}

/** A sample of the newest or oldest answers that rows come from; Millrace never deletes these. */
const sampleOfAnswers = (order: 'asc' | 'desc') => sql`
  select a.landing from (select * from etl.answers order by answer_id ${sql.raw(order)} limit 100) a
  where exists (select from etl.units u where u.pipeline_id = a.pipeline_id and u.window_from = a.window_from and u.slice_id = any(a.slice_ids)
    and u.answer_id = a.answer_id) order by a.answer_id ${sql.raw(order)} limit 10`

/** Checks that the answers in the ledger exist in the landing store. */
export const checkAnswers = async (database: Database, { landing }: Settings, { offline, signal }: Asked, notes: Notes) => {
  const { applied } = await migrationState(database, { folders: [] })
  if ((offline && landing.kind === 'bucket') || applied.length === 0) return
  const { rows } = await sql<
    Row<'etl.answers', 'landing'>
  >`(${sampleOfAnswers('desc')}) union (${sampleOfAnswers('asc')})`.execute(database.kysely)
  const store = await openLandingStore(landing)
  let gone = 0
  for (const row of rows)
    await store.open(row.landing, signal).catch((error: unknown) => {
      if (!isEtlError(error) || error.code !== 'LANDING_MISSING') throw error
      gone += 1
    })
  if (rows.length > 0 && gone === 0)
    notes.proved('landing', `${counted(rows.length, 'answer')} of the ledger ${rows.length === 1 ? 'is' : 'are'} there.`)
  if (gone > 0)
    notes.warning(
      'landing',
      `${gone} of ${rows.length} checked answers are missing in ${store.place}: their rows stay, but cannot be loaded again. ` +
        `Restore the place from its backup (${docPage('runbook.md')}), or ask the service for the months again: \`millrace backfill … --force\`.`,
    )
}

const tryToWrite = async (folder: string): Promise<void> => {
  let there = folder
  while (!existsSync(there) && dirname(there) !== there) there = dirname(there)
  try {
    const tried = await mkdtemp(join(there, '.check-'))
    // Not an empty file, which needs no space.
    await writeFile(join(tried, 'file'), Buffer.alloc(4096)).finally(() => rm(tried, { recursive: true }))
  } catch (error) {
    throw diskError(error, folder)
  }
}

/** Checks that this database is the warehouse itself and no copy, and that the clocks agree. */
export const checkIdentity = async (database: Database, settings: Settings, { offline, signal }: Asked, notes: Notes) => {
  const skew = skewWarning(await openDatabaseClock(database.kysely))
  if (skew === null) notes.proved('identity', 'the clocks of this machine and of the database agree.')
  else notes.warning('identity', skew)
  if ((await migrationState(database, { folders: [] })).applied.length === 0)
    return notes.notAsked('identity', 'whose warehouse this is: it was never migrated.')
  const place = { database, landing: await openLandingStore(settings.landing) }
  const isRemote = !offline || settings.landing.kind !== 'bucket'
  const { warning, damaged } = await identityFindings(place, isRemote, signal).catch((error: unknown) => {
    // `checkLanding` already reports a store that does not answer.
    if (isEtlError(error) && /^LANDING_(UNREACHABLE|REFUSED)$/.test(error.code)) return identityFindings(place, false)
    throw error
  })
  if (warning === null) for (const one of damaged) notes.warning('identity', one)
  if (warning !== null) notes.error('identity', warning)
  else notes.proved('identity', 'the database is the warehouse that its landings name.')
}

/** Checks lists from SQL. @param isOffline lists from another database are not read */
export const checkLists = async (
  database: Database,
  { definitions, folders, notes, pipelinesFolder }: Checking,
  settings: Settings,
  isOffline: boolean,
): Promise<void> => {
  const asking = definitions.filter(({ dimensions }) => dimensions.some(({ query }) => query !== undefined))
  if (asking.length === 0 || folders === null) return
  const state = await migrationState(database, { folders: ownFolders(pipelinesFolder, 'migrations') })
  const reason =
    state.pending.length > 0
      ? 'they need the migrated warehouse'
      : isOffline && settings.raw[readerSetting]
        ? `--offline was given, and ${readerSetting} may name another database`
        : null
  if (reason !== null) return notes.notAsked('definition', `lists from SQL: ${reason}.`)
  for (const definition of asking)
    for (const { dimension, outcome, count, message } of await previewLists({ database, settings, ...folders }, definition)) {
      const about = `${definition.file}: the list of ${dimension}`
      if (outcome === 'failed') notes.error('definition', `${about}: ${message}`)
      else if (message !== null) notes.warning('definition', `${about}: ${message}`)
      else notes.proved('definition', `${about}: its query gives ${counted(count, 'value')}.`)
    }
}

/** Compares the tables after the pending migrations, which are applied and rolled back; a string says why that could not be tried. */
export const compareAfterMigrations = (database: Database, folders: readonly string[], definitions: readonly Definition[]) =>
  afterPending(database, { folders }, (db) => compareTables(db, definitions)).catch(
    (error: unknown) => `${messageOf(error).replace(/\.$/, '')}. Run \`millrace migrate\` first`,
  )

/** A finding about a mart; `message` names file, line and column where it concerns a line. */
type MartFinding = Omit<Note, 'area'>

/** Sources of descriptions for a mart's columns; `view`: the mart as documents describe it. */
interface MartWords {
  readonly definitions: readonly Definition[]
  readonly view: DescribedView | undefined
}

/** Runs the mart's query without reading rows. Empty: the query has the columns that its header describes. */
const checkMart = async ({ kysely }: Database, mart: Mart, words: MartWords): Promise<MartFinding[]> => {
  const { definitions } = words
  const taken = nameProblem(mart, definitions)
  if (taken !== null) return [{ result: 'error', message: taken }]
  const source = sourceOf(mart, definitions)
  if (mart.summaryOf !== null && source === undefined)
    return notAsked(mart, `there is no valid, published definition of ${mart.summaryOf}.`)
  const lacks = source === undefined ? null : summaryKeyProblem(mart, source)
  const text = await readFile(mart.file, 'utf8')
  if (lacks !== null)
    return [{ result: 'error', message: `${mart.file}:${lineWhere(text, (line) => /^--\s*key\s*:/.test(line))}:1: ${lacks}` }]
  const missing = await notThere(kysely, mart, definitions)
  if (missing !== null)
    return notAsked(mart, `${missing} does not exist: \`millrace migrate\` creates it if its pipeline is defined.`)
  const query = queryOf(kysely, mart, definitions)
  try {
    const names = await columnsOf(kysely, query)
    if (names.includes(probeColumn)) return [{ result: 'error', message: `${mart.file}: ${columnsUnnamed}` }]
    return compareColumns(mart, names, words, text)
  } catch (error) {
    if (!isDatabaseError(error)) throw error
    if (isShippedMismatch(mart, error))
      return notAsked(mart, `shipped with Millrace; not published, since a definition lacks what it reads (${messageOf(error)}).`)
    const opens = mart.sql.split('\n', 1)[0]?.trim()
    const first = lineWhere(text, (line) => line.trim() === opens)
    const at = isRecord(error) && typeof error['position'] === 'string' ? Number(error['position']) - opening.length - 1 : 0
    const line = first + query.slice(0, Math.max(0, at)).split('\n').length - 1
    const message = `${mart.file}:${line}:1: PostgreSQL refuses the query: ${messageOf(error)}. Correct it.`
    return [{ result: 'error', message }]
  }
}

const notAsked = ({ file }: Mart, why: string): MartFinding[] => [{ result: 'not asked', message: `${file}: its query: ${why}` }]

const opening = 'create temporary view checked_mart as select * from ('

/** The definition whose table a summary is made from. */
const sourceOf = (mart: Mart, definitions: readonly Definition[]): Definition | undefined =>
  definitions.find(({ pipeline, publish }) => publish && pipeline === mart.summaryOf)

const queryOf = (db: Db, mart: Mart, definitions: readonly Definition[]): string => {
  const source = sourceOf(mart, definitions)
  if (source === undefined) return mart.sql
  const facts = sql`(select t.*, null::text as ${sql.ref(probeColumn)} from ${sql.table(`data.${tableName(source)}`)} t)`
  return summaryQuery(mart, source, { facts, units: sql`true` }).compile(db).sql
}

const columnsOf = (db: Db, query: string): Promise<string[]> =>
  db.transaction().execute(async (trx) => {
    await sql.raw(`${opening}${query}\n) q limit 0`).execute(trx)
    const found = await columnNames(trx, 'pg_temp.checked_mart')
    await sql`drop view pg_temp.checked_mart`.execute(trx)
    return found
  })

const notThere = async (db: Db, mart: Mart, definitions: readonly Definition[]): Promise<string | null> => {
  const source = sourceOf(mart, definitions)
  const read = mart.reads.map((name) => (name.includes('.') ? name : `bi.${name}`))
  const [first] = await missingRelations(db, source === undefined ? read : [`data.${tableName(source)}`])
  return first ?? null
}

/** The first such line, from 1; 1 also where there is none. */
const lineWhere = (text: string, isIt: (line: string) => boolean): number => Math.max(1, text.split('\n').findIndex(isIt) + 1)

const compareColumns = (mart: Mart, names: readonly string[], { definitions, view }: MartWords, text: string): MartFinding[] => {
  const known = new Set(definitions.flatMap(({ columns }) => columns.map(({ name }) => name)))
  const wrong = wrongNames(mart, view, names).map(({ line, words }): MartFinding => {
    const at = lineWhere(text, (one) => new RegExp(`^--\\s*${line}\\b`).test(one))
    return { result: 'error', message: `${mart.file}:${at}:1: ${words}.` }
  })
  const unnamed = mart.isShipped ? [] : names.filter((name) => view?.columns.every((one) => one.name !== name))
  return [
    ...wrong,
    ...unnamed.map((name): MartFinding => {
      const why = known.has(name)
        ? 'its header does not name: documents and BI tools lack it; name it in the grain, or'
        : 'nothing explains;'
      const message = `${mart.file}:1:1: the query gives '${name}', which ${why} add '-- column ${name}: …' to the header.`
      return { result: 'warning', message }
    }),
  ]
}
