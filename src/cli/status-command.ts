// `millrace status`: the ledger in the terminal, with a small map of coverage.
import { counted, formatNumber } from '../core/counted.ts'
import { usageError } from '../core/errors.ts'
import { windowsBetween } from '../core/window.ts'
import type { Database } from '../db/connect.ts'
import { openLandingStore } from '../extract/landing.ts'
import { identityFindings } from '../run/identity.ts'
import { definitionsIn } from '../run/open-runtime.ts'
import { shownState } from '../web/reads/read-runs.ts'
import { readStatus, type Status } from '../web/reads/read-status.ts'
import type { CoverageMonth } from '../web/reads/read-windows.ts'
import { printApprovals } from './approve-command.ts'
import {
  assertKnownPipelines,
  pipelinesFolder,
  settingsOf,
  type Times,
  timesOf,
  untilInterrupted,
  withDatabase,
  withRuntime,
} from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { columnsOf, fields, formatSeconds, type Output, paint, stateTone } from './output.ts'

/** Only reads; with `--serve` runs until stopped. */
export const status: Handler = async (invocation) => {
  if (invocation.options['serve'] === true) return serve(invocation)
  if (invocation.options['port'] !== undefined) throw usageError('--port is the port of the page: add --serve, or leave it out.')
  return withDatabase(invocation, async (database) => {
    await assertKnownPipelines(database.kysely, invocation, invocation.args)
    const { problems: wrong, pipelines } = await definitionsIn(pipelinesFolder(invocation))
    const status = waitingForDefinitions(await readStatus(database.kysely, invocation.args), pipelines)
    const unknown = invocation.args.filter((name) => !status.pipelines.some(({ pipeline }) => pipeline === name))
    if (unknown.length > 0)
      throw usageError(`Nothing was planned yet for ${unknown.join(', ')}; run \`millrace run ${unknown.join(' ')}\`.`)
    const { warning, damaged } = await identityOf(invocation, database)
    const troubles = { warehouse_warning: warning, damaged_receipts: damaged, definition_problems: wrong }
    invocation.output.summary('status', { ...status, ...troubles })
    if (invocation.output.json) return 0
    print(invocation.output, status, database.display, timesOf(invocation))
    for (const problem of [warning, ...damaged, ...wrong]) if (problem !== null) invocation.output.line(`\n${problem}`)
    return 0
  })
}

/** A waiting unit of a pipeline without a definition here waits for that definition, whatever it waited for before: no run here takes it up. */
const waitingForDefinitions = (status: Status, pipelines: ReadonlySet<string> | null): Status => {
  const troubled = status.troubled.map((unit) => {
    const pipeline = unit.unit.slice(0, unit.unit.indexOf('/'))
    if (unit.state !== 'waiting' || pipelines === null || pipelines.has(pipeline)) return unit
    const message = `No definition of ${pipeline} is here: a run that has it resumes this unit. Put it back under pipelines/, or leave it.`
    return { ...unit, code: 'NO_DEFINITION', message }
  })
  return { ...status, troubled }
}

/** How long a store of landings that is far away may keep `status` waiting. */
const patienceMs = 3_000

/** Why this database may be a copy of the warehouse (null: it is not, or the store did not answer in time), and unreadable receipts. */
const identityOf = async (invocation: Invocation, database: Database) => {
  const place = { database, landing: await openLandingStore(settingsOf(invocation).landing) }
  const signal = AbortSignal.timeout(patienceMs)
  try {
    return await identityFindings(place, true, signal)
  } catch {
    return identityFindings(place, false)
  }
}

/** The page's actions need the whole runtime. It is imported only here, so that plain `status` starts fast. */
const serve = async (invocation: Invocation): Promise<number> => {
  const { withStatusPage } = await import('./lasting-commands.ts')
  return withRuntime(invocation, { callsService: false, usesLanding: false, pipelines: [] }, (runtime) => {
    const port = invocation.options['port']
    const options = { isReader: true, showsDatabase: true, ...(port === undefined ? {} : { port: String(port) }) }
    return withStatusPage(invocation, runtime, options, () => untilInterrupted(invocation))
  })
}

const print = (output: Output, status: Status, display: string, times: Times): void => {
  output.line(`Warehouse ${display}`)
  if (status.pipelines.length === 0) {
    output.line('Nothing was planned yet. Next: `millrace run`, or `millrace backfill … --dry-run`.')
    return
  }
  output.line()
  printPipelines(output, status, times)
  output.line()
  for (const line of coverageLines(status.coverage, columnsOf(process.stdout))) output.line(line)
  if (status.pipelines.some(({ units }) => (units.waiting ?? 0) > 0)) output.line(waitingNote)
  for (const { pipeline, capped } of status.pipelines)
    if (capped > 0)
      output.line(
        `${pipeline}: ${counted(capped, 'unit')} capped at the limit, so there may be more rows. Raise params.limit, then \`millrace backfill … --force\` loads them.`,
      )
  const young = status.pipelines.filter(({ breaks_noticed_from: from }) => from !== null)
  if (young.length > 0)
    output.line(
      `If the service changes its method, this is noticed for ${young.map(({ pipeline, breaks_noticed_from: from }) => `${pipeline} from ${from} on`).join(', ')}.`,
    )
  printApprovals(output, status)
  printTroubled(output, status)
  printReplays(output, status)
  printReports(output, status)
  printQuota(output, status)
  printRuns(output, status, times)
}

const waitingNote = 'Waiting: not possible yet, or interrupted. The next run resumes these units.'

const printPipelines = (output: Output, { pipelines }: Status, { at }: Times): void =>
  output.table(pipelines, {
    pipeline: ({ pipeline }) => pipeline,
    loaded: ({ units }) => units.loaded ?? 0,
    waiting: ({ units }) => units.waiting ?? 0,
    held: ({ units: { held = 0 } }) => (held === 0 ? 0 : paint(stateTone('held'), formatNumber(held))),
    failed: ({ units: { failed = 0 } }) => (failed === 0 ? 0 : paint(stateTone('failed'), formatNumber(failed))),
    pending: ({ units: { planned = 0, running = 0, landed = 0 } }) => planned + running + landed,
    rows: ({ rows }) => rows,
    newest: ({ newest_window }) => newest_window?.slice(0, 7) ?? null,
    'last load': ({ last_loaded_at }) => at(last_loaded_at),
    quarantined: ({ quarantined }) => quarantined,
  })

const printTroubled = (output: Output, { troubled }: Status): void => {
  if (troubled.length === 0) return
  output.line()
  output.line('Units that could not be loaded or rechecked:')
  for (const [at, unit] of troubled.entries()) {
    output.line(
      `  ${paint(stateTone(unit.state), unit.state)} #${unit.unit_id} ${unit.unit}${unit.code === null ? '' : ` [${unit.code}]`}`,
    )
    // Units of one report share a message: it is printed once, below the last of them.
    if (unit.message !== null && unit.message !== troubled[at + 1]?.message) output.line(`    ${unit.message}`)
  }
}

const printReplays = (output: Output, { troubled_replays }: Status): void => {
  if (troubled_replays.length === 0) return
  output.line()
  output.line('Answers that could not be loaded again; the same command tries them again:')
  for (const { job_id, answer_id, reason, box, state, code, message } of troubled_replays) {
    output.line(`  ${state} job ${job_id}, ${reason} of answer ${answer_id}: ${box} [${code ?? '-'}]`)
    if (message !== null) output.line(`    ${message}`)
  }
}

const printReports = (output: Output, { open_reports }: Status): void =>
  output.optionalTable(open_reports, {
    'open report': ({ report_id }) => report_id ?? '(id not known)',
    state: ({ state }) => state,
    'service says': ({ status_word }) => status_word,
    age: ({ age_seconds }) => formatSeconds(age_seconds),
    'bought for': ({ box }) => box,
  })

const printQuota = (output: Output, { quota }: Status): void =>
  output.optionalTable(quota, {
    quota: ({ pipeline }) => pipeline,
    ...fields('account', 'month', 'reports', 'used', 'reserved'),
  })

const printRuns = (output: Output, { runs }: Status, times: Times): void => {
  output.line()
  output.table(runs, {
    run: ({ run_id }) => String(run_id),
    command: ({ command }) => command,
    state: (run) => paint(stateTone(shownState(run)), shownState(run)),
    started: ({ started_at }) => times.at(started_at),
    finished: ({ finished_at }) => times.at(finished_at),
  })
  times.sayZone(output)
}

const mark = (cell: CoverageMonth | undefined): string => {
  if (cell === undefined) return paint('dim', '·')
  if (cell.failed > 0) return paint('red', '✗')
  if (cell.held > 0) return paint('yellow', '!')
  return cell.loaded === cell.total ? paint('green', '█') : cell.loaded > 0 ? '▄' : '░'
}

/**
 * Lines with one character a month, from the oldest to the newest planned one.
 * @param columns of the terminal: the oldest months that do not fit are left out; null: all are shown
 */
const coverageLines = (cells: readonly CoverageMonth[], columns: number | null = null): string[] => {
  if (cells.length === 0) return []
  const sorted = cells.map((cell) => cell.month).sort()
  const pipelines = [...new Set(cells.map((cell) => cell.pipeline))]
  const width = Math.max(...pipelines.map((name) => name.length))
  const [first = '', last = first] = [sorted[0], sorted.at(-1)]
  const planned = windowsBetween(`${first}-01`, `${last}-02`, 'month').map(({ from }) => from.slice(0, 7))
  const months = columns === null ? planned : planned.slice(-Math.max(1, columns - width - 2))
  const lines = pipelines.map((pipeline) => {
    const row = months.map((month) => mark(cells.find((cell) => cell.pipeline === pipeline && cell.month === month)))
    return `${pipeline.padEnd(width)}  ${row.join('')}`
  })
  return [
    `${' '.repeat(width)}  ${months[0]} .. ${months.at(-1)}`,
    ...lines,
    `${' '.repeat(width)}  █ loaded  ▄ in part  ░ planned`,
    `${' '.repeat(width)}  ! held  ✗ failed  · nothing planned`,
    '· nothing planned: the month is not published yet, or no run has planned it.',
  ]
}
