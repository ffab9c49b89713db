// `millrace check`: every problem in one go, and with --all a line for each thing: proved, or not asked and why. Settings, definitions, marts, database,
// tables, landing, keys and paths.
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Settings } from '../core/env.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import { hooksSetting } from '../core/hooks-setting.ts'
import { createLog, type Log } from '../core/log.ts'
import type { Mart } from '../core/mart.ts'
import { checkSettings } from '../core/read-setting.ts'
import type { AccountOf } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { migrationState } from '../db/migrate.ts'
import { loadDefinitions } from '../definition/load.ts'
import { readMarts } from '../definition/marts.ts'
import { readNotifyFile } from '../definition/notify-file.ts'
import { placeOf, type Problem, showProblem } from '../definition/problem.ts'
import type { Connection } from '../extract/http-types.ts'
import { accountsOf, type ApiSettings, readApiSettings } from '../run/apis.ts'
import { martFolders } from '../run/known-marts.ts'
import { semanticFolders, sourceFolders } from '../run/open-runtime.ts'
import { attributesOf } from '../run/refresh-attributes.ts'
import { exampleTrouble, originOf, originTrouble } from '../run/service-origin.ts'
import { alarmingOf } from '../schedule/notify/receivers.ts'
import type { SourceFolders } from '../sources/registry.ts'
import { checkDatabase, checkIdentity, checkLanding, checkLists } from './check/check-warehouse.ts'
import { checkSemanticColumns, checkSemanticFiles } from './check/check-semantics.ts'
import { checkUnread } from './check/check-settings.ts'
import { servicesFor } from './check/discover.ts'
import { type Area, type CheckLine, counted, type Finding, note, type Notes } from './check/notes.ts'
import { pipelinesFolder, settingsOf } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'
import { paint, stateTone } from './terminal.ts'

/** Exit code 2 where anything is wrong. */
export const checkCommand: Handler = async (invocation) => {
  const { output, options } = invocation
  const { findings, lines, checked } = await check({
    settings: () => settingsOf(invocation),
    pipelinesFolder: pipelinesFolder(invocation),
    pipelines: [],
    offline: options['offline'] === true,
    log: createLog(invocation.environment['MILLRACE_LOG_LEVEL']),
    signal: invocation.signal,
  })
  for (const { area, result, message } of lines) {
    output.event({ event: 'check', area, result, message })
    if (options['all'] === true) output.line(`${paint(stateTone(result), result)} (${area}): ${message}`)
  }
  const errors = findings.filter((finding) => finding.level === 'error').length
  // Errors last: that is where a terminal stops.
  for (const finding of findings.toSorted((left, right) => right.level.localeCompare(left.level))) {
    output.event({ event: 'finding', ...finding, ...placeOf(finding.message) })
    output.line(`${paint(stateTone(finding.level), finding.level)} (${finding.area}): ${finding.message}`)
  }
  const warnings = findings.length - errors
  const proved = lines.filter(({ result }) => result === 'proved').length
  const notAsked = lines.length - proved
  output.event({ event: 'summary', command: 'check', errors, warnings, proved, not_asked: notAsked, checked })
  const right = `${proved} proved, ${notAsked} not asked`
  const where = options['all'] === true ? '' : ': `millrace check --all` lists them'
  output.line(`${counted(errors, 'error')}, ${counted(warnings, 'warning')}; ${right}${where}.`)
  return errors > 0 ? 2 : 0
}

/** `pipelines` empty: all of them. `offline`: no other machine is asked. */
interface CheckRequest {
  /** A function, so that wrong settings become findings instead of ending the check. */
  readonly settings: () => Settings
  readonly pipelinesFolder: string
  readonly pipelines: readonly string[]
  readonly offline: boolean
  readonly log: Log
  readonly signal: AbortSignal
}

/** Findings decide the exit code; lines say what was proved and what was not asked, and why. */
interface CheckResult {
  readonly findings: readonly Finding[]
  readonly lines: readonly CheckLine[]
  /** Areas that were checked. */
  readonly checked: readonly string[]
}

/** Nothing is changed anywhere; an area that cannot be checked is a finding and does not stop the others. */
export const check = async (request: CheckRequest): Promise<CheckResult> => {
  const notes: Notes = { findings: [], lines: [] }
  const checked: string[] = []
  const attempt = async <T>(area: Area, work: () => Promise<T>): Promise<T | null> => {
    try {
      const result = await work()
      checked.push(area)
      return result
    } catch (error) {
      note(notes, area, 'error', isEtlError(error) ? error.message : messageOf(error))
      return null
    }
  }
  const folders = await attempt('definition', () => sourceFolders(request.pipelinesFolder))
  const definitions =
    folders === null ? [] : ((await attempt('definition', () => checkDefinitions(request, folders, notes))) ?? [])
  const marts = (await attempt('mart', () => checkMarts(request, notes))) ?? []
  if (folders !== null) await attempt('attributes', () => checkAttributes(request, folders, definitions, notes))
  const model = await attempt('semantic', () => checkSemanticFiles(semanticFolders(request.pipelinesFolder), notes))
  const settings = await attempt('configuration', async () => request.settings())
  const result = (): CheckResult => ({ ...notes, checked: [...new Set(checked)] })
  if (settings === null) return result()
  await attempt('alarms', () => checkAlarms(request, settings, definitions, notes))
  await attempt('configuration', async () => checkUnread(settings, folders?.apis ?? new Map(), await notifyText(request), notes))
  const apis = await attempt('configuration', async () => readApiSettings(folders?.apis ?? new Map(), settings.raw))
  const asking = request.offline || apis === null ? [] : checkAccounts(apis, definitions, notes)
  const database = await attempt('database', () => open(settings))
  try {
    const { pipelinesFolder } = request
    const checking = { pipelinesFolder, definitions, marts, folders, notes }
    if (database !== null) await attempt('database', () => checkDatabase(database, checking))
    if (database !== null) await attempt('definition', () => checkLists(database, checking, settings, request.offline))
    if (database !== null && model !== null) await attempt('semantic', () => checkSemanticColumns(database.kysely, model, notes))
    await attempt('landing', () => checkLanding(settings, request, notes))
    if (database !== null) await attempt('identity', () => checkIdentity(database, settings, request, notes))
    if (apis !== null) await attempt('identity', () => checkOrigins(database, apis, definitions, notes))
    if (request.offline) note(notes, 'service', 'not asked', 'keys, paths and datasets: --offline was given.')
    else if (apis !== null && asking.length > 0)
      await attempt('service', () => checkServices(request, { apis, asking, database }, notes))
  } finally {
    await database?.close()
  }
  return result()
}

const open = ({ databaseUrl, home }: Settings): Promise<Database> => openDatabase({ databaseUrl, home, maxConnections: 2 })

/** A line for each file that is right. */
const provedFiles = (notes: Notes, area: Area, files: readonly string[], problems: readonly Problem[], words: string): void => {
  for (const problem of problems) note(notes, area, 'error', showProblem(problem))
  const wrong = new Set(problems.map(({ file }) => file))
  for (const file of files) if (!wrong.has(file)) note(notes, area, 'proved', `${file}: ${words}`)
}

const checkDefinitions = async (
  request: CheckRequest,
  { sources }: SourceFolders,
  notes: Notes,
): Promise<readonly Definition[]> => {
  const { definitions, problems } = await loadDefinitions({ folder: request.pipelinesFolder, sources, only: request.pipelines })
  const files = definitions.map(({ file }) => file)
  provedFiles(notes, 'definition', files, problems, 'every line is understood, lists in files are read.')
  return definitions
}

const checkAttributes = async (
  { pipelinesFolder, pipelines }: CheckRequest,
  { sources }: SourceFolders,
  definitions: readonly Definition[],
  notes: Notes,
): Promise<void> => {
  // What a file is of is known from all definitions.
  if (pipelines.length > 0) return note(notes, 'attributes', 'not asked', 'attributes: they are checked with all pipelines.')
  const { sets, problems } = await attributesOf(pipelinesFolder, definitions, sources)
  provedFiles(
    notes,
    'attributes',
    sets.map(({ file }) => file),
    problems,
    'every line is understood.',
  )
}

const checkMarts = async (request: CheckRequest, notes: Notes): Promise<readonly Mart[]> => {
  const { marts, problems } = await readMarts(martFolders(request.pipelinesFolder))
  provedFiles(notes, 'mart', [], problems, '')
  if (marts.length > 0) note(notes, 'mart', 'proved', `${counted(marts.length, 'header')} of marts are whole.`)
  return marts
}

/** Receivers name settings of their own. */
const notifyText = async ({ pipelinesFolder }: CheckRequest): Promise<string> => {
  const file = join(pipelinesFolder, '..', 'notify.yaml')
  return existsSync(file) ? readFile(file, 'utf8') : ''
}

/** Nobody is told anything by it: addresses are looked at, not tried. */
const checkAlarms = async (
  { pipelinesFolder, pipelines }: CheckRequest,
  settings: Settings,
  definitions: readonly Definition[],
  notes: Notes,
): Promise<void> => {
  const known = pipelines.length > 0 ? null : definitions.map(({ pipeline }) => pipeline)
  const { routes, problems } = await readNotifyFile(pipelinesFolder, known)
  for (const problem of problems) note(notes, 'alarms', 'error', showProblem(problem))
  if (problems.length > 0) return
  const { receivers } = alarmingOf(settings, routes)
  const names = receivers.map(({ name }) => name).join(', ')
  if (receivers.length > 0)
    note(notes, 'alarms', 'proved', `their receivers are set: ${names}. \`millrace notify test\` tries them.`)
  else note(notes, 'alarms', 'not asked', 'no receiver is set: nobody gets a message when something goes wrong (docs/alarms.md).')
  hooksSetting(settings.raw)
}

interface Asking {
  readonly of: AccountOf
  readonly definitions: readonly Definition[]
}

/** The accounts that definitions ask for and whose settings are whole. Where there is no definition yet, every API's own. */
const checkAccounts = (apis: ApiSettings, definitions: readonly Definition[], notes: Notes): Asking[] => {
  const own = [...apis.apis.keys()].map((source) => ({ of: { source, account: 'default' }, definitions: [] }))
  const asking = definitions.length > 0 ? accountsOf(definitions) : own
  return asking.filter(({ of }) => {
    try {
      checkSettings(
        () => apis.connection(of),
        () => apis.allowance(of),
      )
      note(notes, 'configuration', 'proved', `${of.source}, account ${of.account}: its settings are there and well formed.`)
      return true
    } catch (error) {
      const messages = messageOf(error).split('\n')
      for (const message of new Set(messages))
        if (!notes.findings.some((known) => known.message === message)) note(notes, 'configuration', 'error', message)
      return false
    }
  })
}

/** Without asking it: whether the service is the one that rows came from, and is not asked for examples. */
const checkOrigins = async (
  database: Database | null,
  apis: ApiSettings,
  definitions: readonly Definition[],
  notes: Notes,
): Promise<void> => {
  const isMigrated = database !== null && (await migrationState(database, { folders: [] })).applied.length > 0
  for (const { of, definitions: asking } of accountsOf(definitions)) {
    const connection = connectionOf(apis, of)
    if (connection === null) continue
    const now = originOf(of, connection)
    const moved = isMigrated ? await originTrouble(database.kysely, now, connection.addressSetting) : null
    const troubles = [moved, exampleTrouble(connection, asking)].filter((one) => one !== null)
    for (const trouble of troubles) note(notes, 'identity', 'error', trouble)
  }
}

/** null: its settings are findings of their own. */
const connectionOf = (apis: ApiSettings, of: AccountOf): Connection | null => {
  try {
    return apis.connection(of)
  } catch (error) {
    if (isEtlError(error) && error.code === 'CONFIGURATION') return null
    throw error
  }
}

interface ServiceCheck {
  readonly apis: ApiSettings
  readonly asking: readonly Asking[]
  readonly database: Database | null
}

const checkServices = async (
  { signal, log }: CheckRequest,
  { apis, asking, database }: ServiceCheck,
  notes: Notes,
): Promise<void> => {
  const service = await servicesFor(apis, database, log)
  const limits = { timeoutMs: 15_000, attempts: 2, maxBodyBytes: 10_000_000 }
  for (const { of, definitions } of asking) {
    const http = service(of).forUnit({ account: of.account, signal, ...limits, record: () => undefined })
    const api = apis.apis.get(of.source)
    const name = `${of.source}, account ${of.account}`
    if (api?.check === undefined) {
      note(notes, 'service', 'not asked', `${name}: its folder under sources has no check.`)
      continue
    }
    const found = await api.check(http, definitions).catch((error: unknown) => {
      if (!isEtlError(error)) throw error
      return [{ level: 'error' as const, message: error.message }]
    })
    for (const { level, message } of found)
      note(notes, 'service', level, level === 'error' || level === 'warning' ? message : `${name}: ${message}`)
    if (found.length === 0) note(notes, 'service', 'proved', `${name}: its own checks found nothing wrong.`)
  }
}
