// What a person decides: `millrace reports list|adopt|give-up` about purchases, `millrace release UNIT…` about held units, `millrace cancel RUN` about a run.
import { systemClock } from '../core/clock.ts'
import { counted } from '../core/counted.ts'
import { usageError } from '../core/errors.ts'
import { isReportId } from '../core/report-shape.ts'
import { showSpan } from '../core/window.ts'
import { adoptReport, giveUpReport } from '../ledger/purchases.ts'
import { type ReleasedUnit, type Releasable, releasable, releaseFor, unknownUnits } from '../ledger/release-unit.ts'
import { emptySummary } from '../ledger/runs.ts'
import { cancelRun } from '../run/cancel-run.ts'
import type { Runtime } from '../run/runtime.ts'
import { listPurchases } from '../web/reads/read-reports.ts'
import { oneRun, shownState } from '../web/reads/read-runs.ts'
import { linesOf, type UnitLine } from '../web/reads/unit-lines.ts'
import { notifyAfterRun } from './run-commands.ts'
import { assertKnownPipelines, byAction, timesOf, wholeNumber, withDatabase, withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { fields } from './output.ts'
import { exitCodeOf, printSummary, summaryEvent } from './summary.ts'
import { waitedFor } from '../ledger/register-jobs.ts'
import { runJobs } from '../run/run-jobs.ts'

const by = 'command line'

const list = async (invocation: Invocation, pipelines: readonly string[]): Promise<number> => {
  const { output } = invocation
  const limit = wholeNumber(invocation.options['limit'], () => '--limit takes a whole number from 1.')
  return withDatabase(invocation, async ({ kysely }) => {
    await assertKnownPipelines(kysely, invocation, pipelines)
    const { rows, total } = await listPurchases(kysely, { pipelines, limit })
    for (const row of rows) output.event({ event: 'report', ...row })
    output.summary('reports list', { listed: rows.length, total })
    const times = timesOf(invocation)
    output.table(rows, {
      job: ({ job_id }) => String(job_id),
      ...fields('kind', 'pipeline'),
      months: ({ window_from, window_to }) => showSpan({ from: window_from, to: window_to }),
      units: ({ cells }) => cells,
      state: ({ state, status_word }) => (status_word === null ? state : `${state} (${status_word})`),
      report: ({ report_id }) => report_id ?? '(id not known)',
      credits: ({ quota }) => quota,
      submitted: ({ submitted_at }) => times.at(submitted_at),
    })
    output.line(
      total === 0
        ? 'No purchase is open, uncertain, lost, given up or unused.'
        : `${rows.length} of ${counted(total, 'purchase')}.`,
    )
    if (rows.length > 0) times.sayZone(output)
    const kinds = new Set(rows.map(({ kind }) => kind))
    if (kinds.has('uncertain'))
      output.line("Next: compare with the service's own list; `millrace reports adopt JOB ID` if it has one, else `give-up JOB`.")
    else if (kinds.has('lost'))
      output.line("Next: compare with the service's own list; `millrace reports adopt JOB ID` if it has one.")
    return 0
  })
}

const jobOf = (text: string | undefined, usage: string): number =>
  wholeNumber(text, () => `Write \`millrace reports ${usage}\`; \`millrace reports list\` names the jobs.`)

const adopt = async (invocation: Invocation, [job, reportId, ...rest]: readonly string[]): Promise<number> => {
  const jobId = jobOf(job, 'adopt JOB ID')
  if (reportId === undefined || rest.length > 0 || !isReportId(reportId))
    throw usageError('Write `millrace reports adopt JOB ID`, with the id as the service shows it.')
  return withDatabase(invocation, async ({ kysely }) => {
    const whose = await adoptReport(kysely, { jobId, reportId, by })
    invocation.output.summary('reports adopt', { job_id: jobId, report_id: reportId })
    invocation.output.line(
      `Job ${jobId} has report ${reportId} now. The next run that has the definition of ${whose} polls, downloads and loads it; nothing is bought.`,
    )
    return 0
  })
}

const giveUp = async (invocation: Invocation, [job, ...rest]: readonly string[]): Promise<number> => {
  const jobId = jobOf(rest.length > 0 ? undefined : job, 'give-up JOB [--sure]')
  const sure = invocation.options['sure'] === true
  return withDatabase(invocation, async ({ kysely }) => {
    await giveUpReport(kysely, { jobId, by, sure })
    invocation.output.summary('reports give-up', { job_id: jobId })
    invocation.output.line(`Job ${jobId} is given up. The next run that wants its units buys them again.`)
    return 0
  })
}

/** `list` changes nothing; `adopt` and `give-up` decide about a purchase. */
export const reports = byAction({ list, adopt, 'give-up': giveUp })

/** Exit code 1 where one of them was not held, needs approval, or is not loaded in the end. */
export const release: Handler = async (invocation) => {
  const ids = invocation.args.map((arg) =>
    wholeNumber(arg, (text) => `'${text}' is not a unit's number; \`millrace status\` lists held units.`),
  )
  // The key is needed only for units that must be requested again: a held answer loads without it.
  return withRuntime(invocation, { callsService: false, usesLanding: true, pipelines: [] }, async (runtime, progress) => {
    const result = await releaseUnits(runtime, ids, invocation.signal)
    if (result.run !== null) await notifyAfterRun(runtime, result.run)
    progress.stop()
    return printReleased(invocation, runtime, result)
  })
}

const printReleased = async ({ output }: Invocation, runtime: Runtime, { units, run }: ReleaseResult): Promise<number> => {
  const idsThat = (...kinds: readonly ReleasedUnit['kind'][]): number[] =>
    [...units].filter(([, kind]) => kinds.includes(kind)).map(([unitId]) => unitId)
  const [released, notHeld, needApproval] = [idsThat('released', 'joined'), idsThat('not held'), idsThat('needs approval')]
  const lines = await linesOf(runtime.database.kysely, [...units.keys()])
  const extra = { released, not_held: notHeld, needs_approval: needApproval }
  for (const line of lines.filter(({ unit_id }) => released.includes(unit_id))) {
    const { unit_id, unit_key, state, error_code, error_message } = line
    output.event({ event: 'released', unit_id, unit: unit_key, state, code: error_code, message: error_message })
    output.line(wordsOf(line))
  }
  for (const id of notHeld) output.line(`unit ${id} is not held; \`millrace status\` lists held units`)
  for (const { unit_id, pipeline } of lines.filter((line) => needApproval.includes(line.unit_id)))
    output.line(`unit ${unit_id} waits for approval; \`millrace approve ${pipeline}\` approves it, and what waits with it`)
  if (run === null) output.event({ ...summaryEvent('release', null, emptySummary, 0), ...extra })
  else printSummary(output, 'release', run, extra)
  const code = run === null ? 0 : exitCodeOf(run, false)
  return code === 0 && released.length < units.size ? 1 : code
}

const wordsOf = ({ unit_id, unit_key, state, error_code, error_message }: UnitLine): string => {
  const why = error_message === null ? '' : ` (${error_code ?? 'no code'}): ${error_message}`
  return `unit ${unit_id} released; ${unit_key} is ${state}${state === 'loaded' ? '' : why}`
}

/** Resolves when no job of the run is in progress any more. Works also with wrong definitions or pending migrations. */
export const cancel: Handler = async (invocation) => {
  const runId = wholeNumber(invocation.args[0], (text) => `'${text}' is not a run's number; \`millrace status\` lists the runs.`)
  return withDatabase(invocation, async (database) => {
    // Process 0: this command holds no jobs, so it does not register as a process.
    const { parked, withdrawn, state } = await cancelRun({ database, clock: systemClock, process: { processId: 0 } }, runId)
    const { output } = invocation
    output.summary('cancel', { run_id: runId, state, units_parked: parked, withdrawn })
    if (state === 'cancelled')
      output.line(`Run ${runId} is cancelled; ${counted(parked, 'unit')} returned to the plan. Nothing more is submitted for it.`)
    else if (state === 'interrupted') output.line(`Run ${runId} was interrupted before. No other command continues what it left.`)
    else {
      const run = await oneRun(database.kysely, runId)
      output.line(`Run ${runId} has already ended (${run === null ? state : shownState(run)}); nothing to stop.`)
    }
    if (withdrawn > 0)
      output.line(`${counted(withdrawn, 'failed purchase')} withdrawn: no night retries ${withdrawn === 1 ? 'it' : 'them'}.`)
    if (state === 'cancelled') output.line('Run the same command again to resume.')
    return 0
  })
}

type ReleaseResult = Awaited<ReturnType<typeof releaseUnits>>

/** `units` in the order of the command line; `run` null: none was held. Throws, without releasing any unit: USAGE where the ledger does not know a unit; CONFIGURATION where a unit must be requested again and the key is missing. */
const releaseUnits = async (runtime: Runtime, unitIds: readonly number[], signal: AbortSignal) => {
  const { kysely } = runtime.database
  const unknown = await unknownUnits(kysely, unitIds)
  if (unknown.length > 0) {
    const named = unknown.length === 1 ? `is no unit ${unknown[0]}` : `are no units ${unknown.join(', ')}`
    throw usageError(`There ${named}; \`millrace status\` lists held units with their numbers. Nothing was released.`)
  }
  const units = new Map<number, ReleasedUnit['kind']>(unitIds.map((unitId) => [unitId, 'not held']))
  const held = await releasable(kysely, unitIds)
  if (held.length === 0) return { units, run: null }
  assertReachable(runtime, held)
  const plan = async (runId: number) => {
    for (const unitId of units.keys()) {
      signal.throwIfAborted()
      units.set(unitId, (await releaseFor(kysely, runId, unitId, by)).kind)
    }
    return { ...(await waitedFor(kysely, runId)), done: 0, held: 0, notPublished: 0 }
  }
  const { definitions } = runtime
  const run = await runJobs(runtime, { command: 'release', arguments: { units: unitIds }, definitions, plan, signal })
  return { units, run }
}

/** Throws CONFIGURATION before any unit is released that would then fail without a key. */
const assertReachable = (runtime: Runtime, held: readonly Releasable[]): void => {
  const asking = new Set(held.filter(({ asksService }) => asksService).map(({ pipeline }) => pipeline))
  for (const definition of runtime.definitions) if (asking.has(definition.pipeline)) runtime.service(definition)
}
