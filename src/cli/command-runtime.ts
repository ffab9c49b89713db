// Opens the runtime of a command: settings from the environment, pipelines from --pipelines, progress on standard error. Also reads options (numbers, months,
// slices), and finds the time zone for people: that of the schedules.
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join, resolve } from 'node:path'
import type { Handler, Invocation } from './command-spec.ts'
import { type Output, restoreScreen } from './output.ts'
import { type ProgressView, showProgress } from './progress-bar.ts'
import { readSettings, type Settings } from '../core/env.ts'
import { usageError } from '../core/errors.ts'
import { createLog } from '../core/log.ts'
import { parseOnly } from '../core/only.ts'
import { inclusiveRange, timeIn } from '../core/window.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { assertMigrated } from '../db/migrate.ts'
import type { Db } from '../db/tables.ts'
import type { Scope } from '../plan/frames.ts'
import { openDefinitions, type OpenRuntime, openRuntime } from '../run/open-runtime.ts'

/** Throws CONFIGURATION. */
export const settingsOf = ({ environment, folder }: Invocation): Settings => readSettings(environment, folder)

/** Absolute. */
export const pipelinesFolder = ({ options, folder }: Invocation): string =>
  resolve(folder, String(options['pipelines'] ?? 'pipelines'))

/** The parts of a runtime that the command needs; other parts are not opened. */
interface RuntimeCall {
  readonly pipelines?: readonly string[]
  readonly callsService: boolean
  /** Whether the command lands or reads answers. */
  readonly usesLanding: boolean
  readonly settings?: Settings
  /** Whether the command runs until a person stops it: then progress is shown as lines, not as a bar. */
  readonly isLasting?: boolean
}

/** Opens the runtime, runs `work`, and closes everything whatever happens. */
export const withRuntime = async <T>(
  invocation: Invocation,
  call: RuntimeCall,
  work: (runtime: OpenRuntime, progress: ProgressView) => Promise<T>,
): Promise<T> => {
  const settings = call.settings ?? settingsOf(invocation)
  const { output } = invocation
  const hasBar = call.isLasting !== true && (call.callsService || call.usesLanding)
  const progress = showProgress(output, hasBar)
  try {
    const runtime = await openRuntime({
      settings,
      pipelinesFolder: pipelinesFolder(invocation),
      pipelines: call.pipelines ?? invocation.args,
      callsService: call.callsService,
      usesLanding: call.usesLanding,
      progress,
      log: createLog(settings.raw['MILLRACE_LOG_LEVEL'], output.log),
      consent: { resubmitUncertain: invocation.options['resubmitUncertain'] === true, approvedBy: null },
      // No orderly end: its state in memory belongs to a ledger that no longer exists.
      onLost: ({ code, message }) => {
        output.event({ event: 'error', code, message })
        output.note(`millrace: ${message} [${code}]`)
        output.summary(invocation.name, { error: code })
        restoreScreen()
        process.exit(1)
      },
    })
    try {
      return await work(runtime, progress)
    } finally {
      await runtime.close()
    }
  } finally {
    progress.stop()
  }
}

/** Throws USAGE where --pipelines names a folder that does not exist. Without the option none is needed: a machine that only reads has none. */
const assertNamedFolder = (invocation: Invocation): void => {
  const folder = pipelinesFolder(invocation)
  if (folder === resolve(invocation.folder, 'pipelines') || existsSync(folder)) return
  throw usageError(
    `There is no folder '${folder}'; name the one of your definitions with --pipelines DIR, or leave the option out.`,
  )
}

/** For commands that only use the ledger: no definitions, no service. */
export const withDatabase = async <T>(invocation: Invocation, work: (database: Database) => Promise<T>): Promise<T> => {
  assertNamedFolder(invocation)
  const { databaseUrl, home } = settingsOf(invocation)
  // `readsOnly` accepts a standby; the standby itself refuses commands that write.
  const database = await openDatabase({ databaseUrl, home, maxConnections: 2, mustExist: true, readsOnly: true })
  try {
    await assertMigrated(database, { folders: [], allowUnknown: true })
    return await work(database)
  } finally {
    await database.close()
  }
}

/** Throws USAGE naming pipelines that neither the ledger nor a definition knows. Reads definitions only where the ledger lacks one. */
export const assertKnownPipelines = async (db: Db, invocation: Invocation, pipelines: readonly string[]): Promise<void> => {
  if (pipelines.length === 0) return
  const known = await db.selectFrom('etl.pipelines').select('pipeline').distinct().execute()
  const others = pipelines.filter((name) => !known.some(({ pipeline }) => pipeline === name))
  if (others.length === 0) return
  await openDefinitions(pipelinesFolder(invocation), others)
}

/** The person at the keyboard, for the ledger. */
export const personWith = (what: string): string => {
  try {
    return `${userInfo().username}, ${what}`
  } catch {
    // A container may have no name for its user.
    return what
  }
}

/** Exit code of a command that only an interruption ends. */
export const interruptedCode = 130

/** Resolves at the first SIGINT, SIGTERM or SIGHUP, or when the reader of the output has closed it. */
export const untilInterrupted = async ({ signal }: Invocation): Promise<void> => {
  if (!signal.aborted) await once(signal, 'abort')
}

/** Their definitions as they are written, for what is searched, not compiled; none where there is no such folder. Hidden files, such as an editor's lock, are none. */
export const definitionTexts = (folder: string): readonly string[] =>
  existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => /^[^.].*\.ya?ml$/.test(name))
        .map((name) => join(folder, name))
        .filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true)
        .map((file) => readFileSync(file, 'utf8'))
    : []

const schedule = /^schedule:.*(?:\n[ \t]+.*)*/m

/** The zone that all schedules share, else UTC. Compiles no definition, because commands that only read the ledger start in a third of a second. */
const zoneOf = (folder: string): string => {
  const zones = new Set(
    definitionTexts(folder)
      .flatMap((text) => schedule.exec(text)?.[0] ?? [])
      .map((text) => /^[^#\n]*\btime_zone:\s*["']?([\w/+-]+)/m.exec(text)?.[1] ?? 'UTC'),
  )
  const [zone = 'UTC', other] = zones
  return other === undefined && Intl.supportedValuesOf('timeZone').includes(zone) ? zone : 'UTC'
}

export type Times = ReturnType<typeof timesOf>

/** Shows times to the minute in the zone of the pipelines' schedules, else in UTC. */
export const timesOf = (invocation: Invocation) => {
  const zone = zoneOf(pipelinesFolder(invocation))
  return {
    at: (moment: string | null): string => (moment === null ? '-' : timeIn(Date.parse(moment), zone)),
    /** Call after output with times. */
    sayZone: (output: Output): void => output.line(`Times: ${zone}.`),
  }
}

/** A handler that passes on to the action in the first argument; commander accepts only the words of the usage. */
export const byAction =
  (actions: Readonly<Record<string, (invocation: Invocation, rest: readonly string[]) => Promise<number>>>): Handler =>
  async (invocation) => {
    const [action = '', ...rest] = invocation.args
    return actions[action]?.(invocation, rest) ?? 2
  }

/** A whole number from 1; anything else is USAGE in `words`. */
export const wholeNumber = (value: unknown, words: (text: string) => string): number => {
  const text = String(value)
  const number = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number < 1) throw usageError(words(text))
  return number
}

/** Both ends of --from and --to; either missing is a USAGE error. */
export const rangeOf = ({ options }: Invocation): { from: string; to: string } => {
  const { from, to } = options
  if (typeof from !== 'string' || typeof to !== 'string') {
    throw usageError('Both --from YYYY-MM and --to YYYY-MM are needed (inclusive), for example --from 2026-01 --to 2026-03.')
  }
  return { from, to }
}

/** A range of months as --from and --to name it; either missing is a USAGE error. */
export const rangeScope = (invocation: Invocation, more: Partial<Scope> = {}): Scope => {
  const { from, to } = rangeOf(invocation)
  const { options } = invocation
  return {
    mode: 'range',
    rangeOf: ({ window }) => inclusiveRange(from, to, window.every),
    force: options['force'] === true,
    only: parseOnly(options['only']),
    ...more,
  }
}
