// `millrace demo`: the whole pipeline on this machine with synthetic data: sandbox, embedded PostgreSQL, three months, rows; `millrace sandbox`: the service alone.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { sql } from 'kysely'
import { formatNumber } from '../core/counted.ts'
import { readSettings, type Settings } from '../core/env.ts'
import { settingError, usageError } from '../core/errors.ts'
import { docPage, shipped } from '../core/shipped.ts'
import type { Definition, Window } from '../core/types.ts'
import { addWindows, alignDown, dateIn, inclusiveRange } from '../core/window.ts'
import { roleExists } from '../db/catalog.ts'
import type { Database } from '../db/connect.ts'
import { sessionLimits } from '../db/role-statements.ts'
import type { Db } from '../db/tables.ts'
import { type Numbers, query, queryValue } from '../db/typed-row.ts'
import { foreignRuns } from '../ledger/runs.ts'
import { planRun, type Scope } from '../plan/plan-run.ts'
import type { OpenRuntime } from '../run/open-runtime.ts'
import { type RunResult, runJobs } from '../run/run-jobs.ts'
import { sandboxOptionsFrom } from '../sandbox/sandbox-options.ts'
import { listeningEvent, type Sandbox, startSandbox, usageOf } from '../sandbox/sandbox-server.ts'
import { startVendorSandbox } from '../sandbox/vendor/vendor-server.ts'
import { environmentFor, type OwnService } from '../sources/web-analytics/settings.ts'
import { pipelinesFolder, untilInterrupted, withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { clipText, type Output } from './output.ts'
import { exitCodeOf, printSummary } from './summary.ts'

/** Requests a second in the demo: the sandbox has no limit, unlike the service (10). */
const demoRequestsPerSecond = 200
const months = 3

/** Needs no setting: it starts a sandbox and the embedded PostgreSQL. */
export const demo: Handler = async (asked) => {
  const invocation = withDefinitions(asked)
  const keep = invocation.options['keep'] === true
  const sandbox = await startSandbox({ requestsPerSecond: null })
  try {
    const { environment, folder } = invocation
    const settings = demoSettings(environment, folder, { ...sandbox, requestsPerSecond: demoRequestsPerSecond })
    return await withRuntime(
      invocation,
      { callsService: true, usesLanding: true, settings, pipelines: [] },
      async (runtime, progress) => {
        await refuseRealWarehouse(runtime)
        const result = await loadDemo(runtime, invocation.signal)
        progress.stop()
        await show(invocation, runtime, result, keep)
        if (keep) await keepRunning(invocation, runtime, sandbox)
        return exitCodeOf(result, false)
      },
    )
  } finally {
    await sandbox.close()
  }
}

/** In an empty folder the demo shows the definitions that come with the program. */
const withDefinitions = (invocation: Invocation): Invocation =>
  existsSync(pipelinesFolder(invocation))
    ? invocation
    : { ...invocation, options: { ...invocation.options, pipelines: shipped('pipelines') } }

/** Beside the embedded warehouse of the same folder, never in it. */
const demoHome = '.millrace/demo'

/** The demo always uses its own sandbox and its own embedded database; only MILLRACE_HOME may name another folder. */
export const demoSettings = (environment: Invocation['environment'], folder: string, sandbox: OwnService): Settings => {
  const own = { ...environment, ...environmentFor(sandbox), DATABASE_URL: '', MILLRACE_LANDING: '' }
  const settings = readSettings(own, folder)
  return settings.raw['MILLRACE_HOME'] ? settings : readSettings({ ...own, MILLRACE_HOME: demoHome }, folder)
}

/** Throws where the warehouse has other runs: synthetic rows must never mix with real ones. */
const refuseRealWarehouse = async (runtime: OpenRuntime): Promise<void> => {
  const runs = await foreignRuns(runtime.database.kysely, 'demo')
  if (runs === 0) return
  throw settingError(
    `The embedded warehouse under ${runtime.settings.home} holds ${runs} real runs; the demo would mix synthetic rows into it. ` +
      'Run it elsewhere: MILLRACE_HOME=.millrace-demo npx millrace demo',
  )
}

/** First day of the newest month that the sandbox has published. */
const newestMonth = (runtime: OpenRuntime, { window: { publication } }: Definition): string => {
  const today = dateIn(runtime.clock.now(), publication.timeZone)
  return addWindows(alignDown(today, 'month'), 'month', Number(today.slice(8)) >= publication.publishedOn ? -1 : -2)
}

const loadDemo = async (runtime: OpenRuntime, signal: AbortSignal): Promise<RunResult> => {
  const rangeOf = (definition: Definition): Window => {
    const last = newestMonth(runtime, definition)
    const first = addWindows(last, 'month', 1 - months)
    return inclusiveRange(first.slice(0, 7), last.slice(0, 7), definition.window.every)
  }
  const { definitions } = runtime
  const scope: Scope = { mode: 'range', rangeOf, order: 'oldest-first' }
  return runJobs(runtime, {
    command: 'demo',
    arguments: { months },
    definitions,
    plan: (runId, stop) => planRun(runtime, runId, definitions, scope, stop),
    signal,
  })
}

const show = async ({ output, options }: Invocation, runtime: OpenRuntime, result: RunResult, keep: boolean): Promise<void> => {
  for (const definition of runtime.definitions) {
    const sample = await sampleRows(runtime.database.kysely, definition, 4)
    output.event({ event: 'sample', pipeline: definition.pipeline, rows: sample.total, sample: sample.rows })
    printSample(output, definition.pipeline, sample)
  }
  if (result.summary.units.loaded === 0)
    output.line('An earlier demo loaded everything: nothing was requested again and no row was written.')
  const address = await demoReader(runtime.database)
  output.event({ event: 'warehouse', connection: address, running: keep })
  printSummary(output, 'demo', result)
  output.line()
  output.line(`For a BI tool, read only${keep ? '' : ' (stopped now; `demo --keep` leaves it running)'}: ${address}`)
  output.line()
  output.line('Next:')
  const [first] = runtime.definitions
  const month = first === undefined ? '' : newestMonth(runtime, first).slice(0, 7)
  const from = options['pipelines'] === shipped('pipelines') ? ` --pipelines ${shipped('pipelines')}` : ''
  for (const line of nextLines(inHome(runtime.settings), keep, `${first?.pipeline ?? ''}${from}`, month)) output.line(`  ${line}`)
}

/** @param home the setting that a command needs to find the demo's warehouse @param keep whether page and database keep running anyway */
export const nextLines = (home: string, keep: boolean, pipeline: string, month: string): readonly string[] => [
  ...(keep ? [] : ['npx millrace demo --keep                 keeps the status page and the database running']),
  `${home}npx millrace status   what is loaded, month by month`,
  `${home}npx millrace replay ${pipeline} --from ${month} --to ${month}   parse again from disk, without a call`,
  'npx millrace init ../my-warehouse         a folder for your own domains',
]

/** The setting by which other commands find the demo's warehouse; empty where MILLRACE_HOME is set. */
const inHome = ({ home }: Settings): string => (home.endsWith(demoHome) ? `MILLRACE_HOME=${demoHome} ` : '')

const printSample = (output: Output, pipeline: string, { columns, rows, total }: Sample): void => {
  output.line()
  output.line(`bi.${pipeline}: ${formatNumber(total)} rows, for example`)
  output.table(rows, Object.fromEntries(columns.map((column) => [column, (row: Sample['rows'][number]) => clip(row[column])])))
}

const clip = (value: unknown): string => {
  const text = value === null || value === undefined ? 'NULL' : Array.isArray(value) ? `{${value.join(',')}}` : String(value)
  return clipText(text, 28)
}

const keepRunning = async (invocation: Invocation, runtime: OpenRuntime, sandbox: Sandbox): Promise<void> => {
  const { withStatusPage } = await import('./lasting-commands.ts')
  await withStatusPage(invocation, runtime, {}, () => {
    invocation.output.note(`The sandbox answers at ${sandbox.url}, with the key of \`millrace sandbox\`.`)
    return untilInterrupted(invocation)
  })
}

const demoRole = 'bi_demo'

/** An address for BI tools, with a login that can only read bi. Its password is new each time, and protects only synthetic rows on this machine. */
const demoReader = async (database: Database): Promise<string> => {
  const password = randomBytes(9).toString('base64url')
  if (!(await roleExists(database.kysely, demoRole)))
    await sql`create role ${sql.id(demoRole)} login in role bi_reader`.execute(database.kysely)
  for (const [name, value] of Object.entries(sessionLimits.reader))
    await sql`alter role ${sql.id(demoRole)} set ${sql.raw(name)} = ${sql.lit(value)}`.execute(database.kysely)
  await sql`alter role ${sql.id(demoRole)} password ${sql.lit(password)}`.execute(database.kysely)
  const url = new URL(database.url.reveal())
  url.username = demoRole
  url.password = password
  return url.href
}

type Sample = Awaited<ReturnType<typeof sampleRows>>

/** Key columns that differ and the measures, newest period first. @param limit rows at most. */
const sampleRows = async (kysely: Db, definition: Definition, limit: number) => {
  const columns = definition.columns
    .filter((column) => column.origin !== 'param')
    .map((column) => column.name)
    .slice(0, 8)
  const view = sql.table(`bi.${definition.pipeline}`)
  const period = sql.ref(definition.key[0] ?? '_loaded_at')
  const rows = await query<Record<string, unknown>>(kysely)`
    select ${sql.join(columns.map((column) => sql.ref(column)))} from ${view} order by ${period} desc limit ${limit}`
  return { columns, rows, total: await queryValue<Numbers<'total'>>(kysely)`select count(*)::float8 as total from ${view}` }
}

/** `millrace sandbox`: the service itself on this machine, until Ctrl-C. */
export const sandboxCommand: Handler = async (invocation) => {
  const { options, output } = invocation
  const sandbox = await (options['like'] === 'vendor' ? startVendor : startOwn)(options, output)
  output.event(listeningEvent(sandbox))
  await untilInterrupted(invocation)
  await sandbox.close()
  output.summary('sandbox', {})
  return 0
}

type Options = Readonly<Record<string, unknown>>

const startOwn = async (options: Options, output: Output) => {
  const sandbox = await startSandbox(sandboxOptionsFrom(options))
  for (const text of usageOf(sandbox)) output.line(text)
  return sandbox
}

const startVendor = async ({ port, key, options, ...others }: Options, output: Output) => {
  const own = ['seed', 'keywords', 'now', 'restate', 'hostile'].find((name) => others[name] !== undefined)
  const wrong = others['extensions'] === false ? 'no-extensions' : own
  if (wrong !== undefined) throw usageError(`--like vendor takes --port, --key and --options; leave --${wrong} out.`)
  const keys = key === undefined ? {} : { restKey: String(key), batchKey: String(key) }
  const sandbox = await startVendorSandbox({ ...keys, ...sandboxOptionsFrom({ port, options }) })
  output.line(`The service as its documentation has it, at ${sandbox.url} (this machine only). Key: ${sandbox.apiKey}`)
  output.line(`Charges and reports: ${sandbox.url}/_vendor/books. Options: ${docPage('sandbox-reference.md')}. Ctrl-C ends it.`)
  return sandbox
}
