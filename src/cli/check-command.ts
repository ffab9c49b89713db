// `millrace check`: every problem in one go; with --all also what is proved, and what was not checked and why. Covers settings, definitions, marts, database,
// tables, landing, keys and paths.
import { docPage } from '../core/shipped.ts'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { tagBudgets } from '../core/budget-scope.ts'
import { counted } from '../core/counted.ts'
import { readerLogin, type Settings, settingsWithoutPlaces } from '../core/env.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import { hooksSetting } from '../core/hooks-setting.ts'
import { createLog } from '../core/log.ts'
import type { Mart } from '../core/mart.ts'
import { checkSettings, readMonth } from '../core/read-setting.ts'
import type { Definition } from '../core/types.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { migrationState } from '../db/migrate.ts'
import { readDashboards } from '../definition/dashboards.ts'
import { readByHand } from '../core/regular-file.ts'
import { unreadFiles } from '../definition/folder-files.ts'
import { loadDefinitions } from '../definition/load.ts'
import { readMarts } from '../definition/marts.ts'
import { readNotifyFile } from '../definition/notify-file.ts'
import { type Problem, parsePlace, suggest } from '../definition/problem.ts'
import { priceName, sourceOf } from '../plan/plan-context.ts'
import { accountsOf, type ApiSettings, exampleTrouble, originOf, originTrouble, readApiSettings } from '../run/apis.ts'
import { databaseSilenceMs, guarded, ownFolders, sourceFolders } from '../run/open-runtime.ts'
import { createLineage } from '../run/lineage.ts'
import { attributesOf } from '../run/refresh-attributes.ts'
import { landingDays, ledgerDays } from '../run/retention.ts'
import { createPing } from '../schedule/notify/send-alarms.ts'
import { alarmingOf } from '../schedule/notify/receivers.ts'
import { readPoll } from '../schedule/release-watch.ts'
import type { SourceFolders } from '../sources/registry.ts'
import { webSettings } from '../web/web-server.ts'
import { unreadSettings } from './check/check-settings.ts'
import { checkAnswers, checkDatabase, checkIdentity, checkLanding, checkLists } from './check/check-warehouse.ts'
import { connectionOf, servicesFor } from './check/discover.ts'
import { type Area, createNotes, type Notes } from './check/notes.ts'
import { pipelinesFolder, settingsOf } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { paint, stateTone } from './output.ts'
import { sql } from 'kysely'
import { columnNames } from '../db/catalog.ts'
import { isDatabaseError, sqlStateOf } from '../db/database-error.ts'
import type { Db } from '../db/tables.ts'
import type { EntryPlace, SemanticModel, Subject } from '../definition/semantic.ts'
import { readSemantics, shippedSemantics } from '../definition/semantic-model.ts'
import { formulaSql } from '../semantic/formula.ts'

/** Exit code 2 where anything is wrong. */
export const checkCommand: Handler = async (invocation) => {
  const { output, options } = invocation
  const { notes, checked, services } = await check(invocation)
  const findings = notes.all.filter(({ result }) => result === 'error' || result === 'warning')
  const lines = notes.all.filter((one) => !findings.includes(one))
  for (const { area, result, message } of lines) {
    output.event({ event: 'check', area, result, message })
    if (options['all'] === true) output.line(`${paint(stateTone(result), result)} (${area}): ${message}`)
  }
  // Errors last: that is where a terminal stops.
  for (const { area, result, message } of findings.toSorted((left, right) => right.result.localeCompare(left.result))) {
    output.event({ event: 'finding', area, level: result, message, ...parsePlace(message) })
    output.line(`${paint(stateTone(result), result)} (${area}): ${message}`)
  }
  const countOf = (wanted: string): number => notes.all.filter(({ result }) => result === wanted).length
  const [errors, proved] = [countOf('error'), countOf('proved')]
  const [warnings, notAsked] = [findings.length - errors, lines.length - proved]
  output.summary('check', { errors, warnings, proved, not_asked: notAsked, checked, services })
  const later = lines.filter(({ result, message }) => result !== 'proved' && message.includes('`millrace migrate` first')).length
  const right = `${proved} passed, ${notAsked} not checked${later === 0 ? '' : ` (${later} need \`millrace migrate\` first)`}`
  const where = options['all'] === true ? '' : ': `millrace check --all` lists them'
  const whom = services.length === 0 ? '' : ` Asked: ${services.join(', ')}.`
  output.line(`${counted(errors, 'error')}, ${counted(warnings, 'warning')}; ${right}${where}.${whom}`)
  return errors > 0 ? 2 : 0
}

/** Changes nothing; an area that cannot be checked is an error and does not stop the others. `checked`: areas that were checked; `services`: addresses. */
const check = async (invocation: Invocation) => {
  const folder = pipelinesFolder(invocation)
  const { signal } = invocation
  const offline = invocation.options['offline'] === true
  const notes = createNotes()
  const checked = new Set<string>()
  const services = new Set<string>()
  const attempt = async <T>(area: Area, work: () => Promise<T>): Promise<T | null> => {
    try {
      const result = await work()
      checked.add(area)
      return result
    } catch (error) {
      // An error about settings has one line for each setting; other errors have indented lines that belong together.
      const lines = messageOf(error).split('\n')
      for (const line of lines.every((one) => /^\S/.test(one)) ? lines : [lines.join('\n')]) notes.error(area, line)
      return null
    }
  }
  const folders = await attempt('definition', () => sourceFolders(folder))
  const definitions =
    folders === null ? [] : ((await attempt('definition', () => checkDefinitions(folder, folders, notes))) ?? [])
  const marts = (await attempt('mart', () => checkMarts(folder, notes))) ?? []
  if (folders !== null)
    await attempt('attributes', async () => {
      const { sets, problems } = await attributesOf(folder, definitions, folders.sources)
      checkFiles(notes, 'attributes', sets, problems, 'every line is understood.')
    })
  const model = await attempt('semantic', () => checkSemanticFiles(ownFolders(folder, 'semantic'), notes))
  const dashboards = await attempt('semantic', () => readDashboards(ownFolders(folder, 'dashboards')))
  notes.problems('semantic', dashboards?.problems ?? [])
  for (const own of ownFolders(folder, 'dashboards')) await noteUnread(notes, 'semantic', own, /\.ya?ml$/)
  const settings = await attempt('configuration', async () => settingsOf(invocation))
  const result = () => ({ notes, checked: [...checked], services: [...services] })
  // An error that prevents reading any setting is reported once.
  const others = async () => settingsWithoutPlaces(invocation.environment, invocation.folder)
  const readable = settings ?? (await attempt('configuration', others))
  if (readable === null) return result()
  await attempt('alarms', () => checkAlarms(folder, readable, definitions, notes))
  // Only a warning: the setting may belong to another program.
  const unread = async () => unreadSettings(readable, folders?.apis ?? new Map(), await notifyText(folder))
  for (const message of (await attempt('configuration', unread)) ?? []) notes.warning('configuration', message)
  for (const read of ownReadings(readable)) await attempt('configuration', async () => read())
  await attempt('configuration', async () => checkTagBudgets(readable, definitions, notes))
  const apis = await attempt('configuration', async () => readApiSettings(folders?.apis ?? new Map(), readable.raw))
  const asking = offline || apis === null ? [] : checkAccounts(apis, definitions, notes)
  if (apis !== null && folders !== null)
    await attempt('configuration', async () => checkPrices(apis, folders, definitions, notes))
  if (settings === null) return result()
  const { databaseUrl, home } = settings
  const database = await attempt('database', () => openDatabase({ databaseUrl, home, maxConnections: 2 }))
  try {
    const checking = { pipelinesFolder: folder, definitions, marts, folders, notes }
    if (database !== null) await attempt('database', () => checkDatabase(database, checking))
    if (database !== null) await attempt('definition', () => checkLists(database, checking, settings, offline))
    if (database !== null && model !== null) await attempt('semantic', () => checkSemanticColumns(database.kysely, model, notes))
    await attempt('landing', () => checkLanding(settings, { offline, signal }, notes))
    if (database !== null) await attempt('landing', () => checkAnswers(database, settings, { offline, signal }, notes))
    if (database !== null) await attempt('identity', () => checkIdentity(database, settings, { offline, signal }, notes))
    if (apis !== null) await attempt('identity', () => checkOrigins(database, apis, definitions, notes))
    if (offline) notes.notAsked('service', 'keys, paths and datasets: --offline was given.')
    else if (apis !== null && asking.length > 0) {
      for (const { of } of asking) services.add(connectionOf(apis, of)?.baseUrl.origin ?? of.source)
      await attempt('service', () => checkServices(invocation, apis, asking, database, notes))
    }
  } finally {
    await database?.close()
  }
  return result()
}

type Files = readonly { readonly file: string }[]

const checkFiles = (notes: Notes, area: Area, read: Files, problems: readonly Problem[], words: string): void => {
  notes.problems(area, problems)
  const wrong = new Set(problems.map(({ file }) => file))
  for (const { file } of read) if (!wrong.has(file)) notes.proved(area, `${file}: ${words}`)
}

const checkDefinitions = async (folder: string, { sources }: SourceFolders, notes: Notes): Promise<readonly Definition[]> => {
  const { definitions, problems } = await loadDefinitions({ folder, sources, only: [] })
  await noteUnread(notes, 'definition', folder, /\.ya?ml$/)
  checkFiles(notes, 'definition', definitions, problems, 'every line is understood, lists in files are read.')
  return definitions
}

/** Only a warning: a person may keep other files there. */
const noteUnread = async (notes: Notes, area: Area, folder: string, ending: RegExp): Promise<void> => {
  for (const name of await unreadFiles(folder, ending))
    notes.warning(area, `${join(folder, name)} is not read: move it into ${folder}, with an ending in small letters.`)
}

const checkMarts = async (folder: string, notes: Notes): Promise<readonly Mart[]> => {
  const { marts, problems } = await readMarts(ownFolders(folder, 'marts'))
  notes.problems('mart', problems)
  for (const own of ownFolders(folder, 'marts')) await noteUnread(notes, 'mart', own, /\.sql$/)
  if (marts.length > 0) notes.proved('mart', `${counted(marts.length, 'header')} of marts are whole.`)
  return marts
}

/** The text of notify.yaml, which names settings of receivers. */
const notifyText = async (folder: string): Promise<string> => {
  const file = join(folder, '..', 'notify.yaml')
  return existsSync(file) ? readByHand(file) : ''
}

/** Checks addresses without sending a message. */
const checkAlarms = async (folder: string, settings: Settings, definitions: readonly Definition[], notes: Notes) => {
  const known = definitions.map(({ pipeline }) => pipeline)
  const { routes, problems } = await readNotifyFile(folder, known)
  notes.problems('alarms', problems)
  if (problems.length > 0) return
  const { receivers } = alarmingOf({ settings, routes })
  const names = receivers.map(({ name }) => name).join(', ')
  if (receivers.length > 0) notes.proved('alarms', `their receivers are set: ${names}. \`millrace notify test\` tries them.`)
  else notes.notAsked('alarms', `no receiver is set: no message is sent when something goes wrong (${docPage('alarms.md')}).`)
}

/** Reads the program's own settings one by one, so that each wrong one is reported. */
const ownReadings = (settings: Settings): readonly (() => unknown)[] => {
  const { raw } = settings
  const log = createLog('error')
  return [
    () => createLog(raw['MILLRACE_LOG_LEVEL']),
    () => guarded([], settings),
    () => databaseSilenceMs(settings),
    () => landingDays(raw),
    () => ledgerDays(raw),
    () => webSettings(raw, 0),
    () => readPoll(raw),
    () => readMonth(raw, 'MILLRACE_FISCAL_YEAR_FROM'),
    () => readerLogin(settings),
    () => createPing(settings, log),
    () => hooksSetting(raw),
    () => createLineage(raw, log),
  ]
}

type Asking = ReturnType<typeof accountsOf>[number]

/** Accounts of the definitions whose settings are complete. Without definitions: the default account of every API. */
const checkAccounts = (apis: ApiSettings, definitions: readonly Definition[], notes: Notes): Asking[] => {
  const own = [...apis.apis.keys()].map((source) => ({ of: { source, account: 'default' }, definitions: [] }))
  const asking = definitions.length > 0 ? accountsOf(definitions) : own
  return asking.filter(({ of }) => {
    try {
      checkSettings(
        () => apis.connection(of),
        () => apis.allowance(of),
      )
      notes.proved('configuration', `${of.source}, account ${of.account}: its settings are present and valid.`)
      return true
    } catch (error) {
      for (const message of messageOf(error).split('\n')) notes.error('configuration', message)
      return false
    }
  })
}

/** Whether every definition is valid: the source and the tags of an invalid one are not known. */
const areAllRead = ({ all }: Notes): boolean => all.every(({ area, result }) => area !== 'definition' || result !== 'error')

/** Reports prices of datasets that no definition requests: the name is probably misspelled. */
const checkPrices = (apis: ApiSettings, { sources }: SourceFolders, definitions: readonly Definition[], notes: Notes): void => {
  for (const { of, definitions: asking } of accountsOf(definitions)) {
    if (connectionOf(apis, of) === null) continue
    const asked = asking.map((one) => priceName(one, sourceOf({ sources }, one)))
    for (const name of apis.allowance(of).prices?.keys() ?? [])
      if (!asked.includes(name) && areAllRead(notes))
        notes.warning(
          'configuration',
          `a price is set for '${name}' of account ${of.account}, which no definition asks for: it is not used. Definitions ask for ${[...new Set(asked)].sort().join(', ') || 'nothing'}.`,
        )
  }
}

/** Budgets of tags that no definition has: they limit nothing. */
const checkTagBudgets = ({ raw }: Settings, definitions: readonly Definition[], notes: Notes): void => {
  const written = [...new Set(definitions.flatMap(({ tags }) => Object.entries(tags).map((tag) => tag.join('='))))].sort()
  for (const tag of new Set(tagBudgets(raw).map(({ name, value }) => `${name}=${value}`)))
    if (!written.includes(tag) && areAllRead(notes))
      notes.warning(
        'configuration',
        `a budget is set for the tag ${tag}, which no definition has: it limits nothing. Definitions have ${written.join(', ') || 'no tags'}.`,
      )
}

/** Checks without a request that the service's address is the one that rows came from, and that no example values go to a real service. */
const checkOrigins = async (database: Database | null, apis: ApiSettings, definitions: readonly Definition[], notes: Notes) => {
  const isMigrated = database !== null && (await migrationState(database, { folders: [] })).applied.length > 0
  for (const { of, definitions: asking } of accountsOf(definitions)) {
    const connection = connectionOf(apis, of)
    if (connection === null) continue
    const now = originOf(of, connection)
    const moved = isMigrated ? await originTrouble(database.kysely, now, connection.addressSetting) : null
    const troubles = [moved, exampleTrouble(connection, asking)].filter((one) => one !== null)
    for (const trouble of troubles) notes.error('identity', trouble)
  }
}

const checkServices = async (
  { signal, environment }: Invocation,
  apis: ApiSettings,
  asking: readonly Asking[],
  database: Database | null,
  notes: Notes,
): Promise<void> => {
  const service = await servicesFor(apis, database, createLog(environment['MILLRACE_LOG_LEVEL']))
  const limits = { timeoutMs: 15_000, attempts: 2, maxBodyBytes: 10_000_000 }
  for (const { of, definitions } of asking) {
    const http = service(of).forUnit({ account: of.account, signal, ...limits, record: () => undefined })
    const api = apis.apis.get(of.source)
    const name = `${of.source}, account ${of.account}`
    if (api?.check === undefined) {
      notes.notAsked('service', `${name}: its folder under sources has no check.`)
      continue
    }
    const found = await api.check(http, definitions).catch((error: unknown) => {
      if (!isEtlError(error)) throw error
      return [{ level: 'error' as const, message: error.message }]
    })
    for (const { level, message } of found)
      notes.add('service', level, level === 'error' || level === 'warning' ? message : `${name}: ${message}`)
    if (found.length === 0) notes.proved('service', `${name}: its own checks passed.`)
  }
}

/** Checks semantic files without a database. @returns the valid part of the model */
const checkSemanticFiles = async (folders: readonly string[], notes: Notes): Promise<SemanticModel> => {
  const { model, problems, files } = await readSemantics(folders)
  for (const own of folders) await noteUnread(notes, 'semantic', own, /\.ya?ml$/)
  notes.problems('semantic', problems)
  if (problems.length === 0) notes.proved('semantic', `${counted(files.length, 'semantic file')} are understood.`)
  return model
}

/** Checks semantic files against the views of a migrated warehouse. Changes nothing. */
const checkSemanticColumns = async (db: Db, { subjects }: SemanticModel, notes: Notes): Promise<void> => {
  let good = 0
  for (const subject of subjects.values()) {
    const columns = await columnNames(db, `bi.${subject.view}`)
    if (columns.length === 0) {
      notes.notAsked(
        'semantic',
        `${subject.name}: bi.${subject.view} does not exist: \`millrace migrate\` creates it if its pipeline is defined.`,
      )
      continue
    }
    const problems = [...(await columnProblems(db, subject, columns)), ...(await formulaProblems(db, subject, notes))]
    notes.problems('semantic', problems)
    if (problems.length === 0) good += subject.metrics.size
  }
  if (good > 0) notes.proved('semantic', `${counted(good, 'metric')} are made of columns that are there.`)
}

const columnProblems = async (db: Db, subject: Subject, columns: readonly string[]): Promise<Problem[]> => {
  const { time, grain, dimensions, view } = subject
  const own = [
    ...(time === null ? [] : [{ at: subject.at, column: time.column }]),
    ...grain.map((column) => ({ at: subject.at, column })),
    ...[...dimensions.values()].filter(({ of }) => of === null).map(({ at, column }) => ({ at, column })),
  ]
  const problems = own.flatMap(({ at, column }) => missing(at, column, view, columns))
  for (const { at, entity, of, column, table: beside } of dimensions.values()) {
    const root = of === null ? null : (dimensions.get(of)?.entity ?? null)
    const table = root ?? entity
    if (table === null) continue
    const name = beside ?? table.table
    problems.push(...missing(at, root === null ? table.key : column, name, await columnNames(db, `bi.${name}`)))
  }
  return problems
}

const missing = (at: EntryPlace, column: string, view: string, columns: readonly string[]): Problem[] =>
  columns.includes(column)
    ? []
    : [{ ...at, message: `bi.${view} has no column '${column}'.${suggest(column, columns)} Correct the name.` }]

const formulaProblems = async (db: Db, subject: Subject, notes: Notes): Promise<Problem[]> => {
  const problems: Problem[] = []
  for (const metric of subject.metrics.values())
    try {
      await sql`explain select ${sql.raw(`${formulaSql(metric, subject)}, bool_or(${metric.known ?? true})`)} from ${sql.table(`bi.${subject.view}`)} as facts`.execute(
        db,
      )
    } catch (error) {
      if (!isDatabaseError(error)) throw error
      const about = `${metric.name}: ${messageOf(error)}`
      if (sqlStateOf(error) === '42703' && metric.at.file.startsWith(shippedSemantics))
        notes.notAsked('semantic', `${about}. It comes with Millrace; a definition lacks what it is made of.`)
      else problems.push({ ...metric.at, message: `${about}. Correct its formula.` })
    }
  return problems
}
