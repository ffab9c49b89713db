// `millrace run`: what is due now; `millrace backfill`: a range of months; `millrace plan`, and --dry-run of both: what they would do and why. Also the question
// to a person before money is spent, and the closing messages.
import { aboutCredits, counted, formatNumber } from '../core/counted.ts'
import { usageError } from '../core/errors.ts'
import { parseOnly } from '../core/only.ts'
import { createInterface } from 'node:readline/promises'
import { cancelOn } from '../db/stoppable.ts'
import { type PreviewPipeline, previewRun } from '../plan/dry-run.ts'
import { checkScope } from '../plan/frames.ts'
import { approveRest, forecastBacklog } from '../plan/spread-backfill.ts'
import { costsCredits, sourceOf } from '../plan/plan-context.ts'
import { planRun, type Scope } from '../plan/plan-run.ts'
import type { OpenRuntime } from '../run/open-runtime.ts'
import { sweep } from '../run/retention.ts'
import { nightNeedsApproval } from '../ledger/approved-jobs.ts'
import { unfinishedForce } from '../ledger/runs.ts'
import { type RunResult, runJobs } from '../run/run-jobs.ts'
import type { Runtime } from '../run/runtime.ts'
import { alarmingOf } from '../schedule/notify/receivers.ts'
import { createPing, notify } from '../schedule/notify/send-alarms.ts'
import { neededApprovals } from '../web/reads/read-approvals.ts'
import { personWith, rangeOf, rangeScope, timesOf, withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import type { Output } from './output.ts'
import { closingLines, printPlan } from './print-plan.ts'
import type { ProgressView } from './progress-bar.ts'
import { exitCodeOf, printSummary } from './summary.ts'

/** Exit code 1 where units failed or are held. Units that are not yet published, or wait for a budget, do not make a night fail. */
export const run: Handler = async (invocation) => {
  const only = invocation.options['only']
  return load(invocation, 'run', { mode: 'due', only: parseOnly(only) }, { only: only ?? null })
}

/** Exit code 1 where units failed or are held, or nothing was bought. */
export const backfill: Handler = async (invocation) => {
  const { options } = invocation
  const { only, force } = options
  const scope = rangeScope(invocation, { order: options['order'] === 'oldest' ? 'oldest-first' : 'newest-first' })
  return load(invocation, 'backfill', scope, { ...rangeOf(invocation), only: only ?? null, force: force === true })
}

type Arguments = Readonly<Record<string, unknown>>

/** With --force, resumes the unfinished run with the same arguments, so that nothing is bought twice; the new run's arguments name that run. */
const goesOn = async ({ database: { kysely } }: OpenRuntime, invocation: Invocation, scope: Scope, named: Arguments) => {
  const unfinished = scope.force === true ? await unfinishedForce(kysely, named) : null
  if (unfinished === null) return { scope, request: named }
  const { runId, startedAt, since } = unfinished
  invocation.output.note(
    `Resumes run ${runId}: --force of ${timesOf(invocation).at(startedAt)} has not finished, and what was requested since is not bought again. ` +
      'To buy that again too, run it once more when it has finished, or with another range or --only.',
  )
  return { scope: { ...scope, takenSince: since }, request: { ...named, resumes: runId } }
}

/** @param named the run's arguments beside its pipelines, as the ledger records them */
const load = (invocation: Invocation, command: 'run' | 'backfill', asked: Scope, named: Arguments) =>
  withRuntime(invocation, { callsService: true, usesLanding: true }, async (opened, progress) => {
    const { args, options, output, signal } = invocation
    const { definitions } = opened
    const isNight = command === 'run'
    checkScope(definitions, asked)
    // Sorted, because a run with --force finds the unfinished run by its arguments.
    const { scope, request } = await progress.aside(() =>
      goesOn(opened, invocation, asked, { pipelines: args.toSorted(), ...named }),
    )
    const said = options['yes'] === true ? approvedBy(opened, `${command} --yes`) : opened
    if (options['dryRun'] === true) return showPlan(invocation, said, progress, command, scope)
    const runtime = await progress.aside(() => agreed(invocation, said, command, scope))
    if (runtime === null) {
      progress.stop()
      output.note('Nothing was bought.')
      return 1
    }
    // Wrong settings of receivers end the command before the run, not in it.
    alarmingOf(runtime)
    // The watchdog expects pings only for nights.
    const ping = isNight ? createPing(runtime.settings, runtime.log) : async () => undefined
    await ping('start')
    const by = isNight ? runtime.consent.approvedBy : personWith('backfill')
    const result = await runJobs(runtime, {
      command,
      arguments: request,
      definitions,
      plan: (runId, stop) => planRun(runtime, runId, definitions, scope, stop),
      ...(by === null ? {} : { beforeEnd: (runId) => approveRest(runtime, definitions, runId, by) }),
      signal,
    }).catch(async (error: unknown) => {
      await ping('fail')
      throw error
    })
    const after = await afterRun(runtime, result)
    if (isNight && result.state !== 'cancelled') await sweep(runtime)
    await ping(result.state === 'done' ? 'success' : 'fail')
    await notifyAfterRun(runtime, result)
    progress.stop()
    sayEnded(output, command, result, after)
    // Purchases that need approval may be recorded under another run that planned at the same time.
    const isHeldElsewhere = isNight && !scope.only?.size && after.needsApproval
    return exitCodeOf(result, isNight) || Number(isHeldElsewhere)
  })

/** Spends nothing. */
export const plan: Handler = async (invocation) => {
  const { options } = invocation
  const isRange = options['from'] !== undefined || options['to'] !== undefined
  if (!isRange && options['force'] === true)
    throw usageError('--force needs --from and --to: a run without a range loads nothing again.')
  const scope: Scope = isRange ? rangeScope(invocation) : { mode: 'due', only: parseOnly(options['only']) }
  return withRuntime(invocation, { callsService: true, usesLanding: false }, async (runtime, progress) => {
    checkScope(runtime.definitions, scope)
    return showPlan(invocation, runtime, progress, 'plan', scope)
  })
}

const showPlan = async (
  { output, signal }: Invocation,
  runtime: OpenRuntime,
  progress: ProgressView,
  command: string,
  scope: Scope,
): Promise<number> => {
  const preview = await previewRun(runtime, runtime.definitions, scope, signal)
  progress.stop()
  printPlan(output, command, preview)
  return 0
}

const approvedBy = (runtime: OpenRuntime, what: string): OpenRuntime => ({
  ...runtime,
  consent: { ...runtime.consent, approvedBy: personWith(what) },
})

/** A runtime that may buy what the person agreed to; null: the person refused the backfill. A night runs on without the refused part. */
const agreed = async (invocation: Invocation, runtime: OpenRuntime, command: 'run' | 'backfill', scope: Scope) => {
  const { output, signal } = invocation
  if (runtime.consent.approvedBy !== null) return runtime
  const guarded = runtime.definitions.filter((one) => one.guard !== null && costsCredits(sourceOf(runtime, one)))
  if (guarded.length === 0 || output.json || !process.stdin.isTTY || !process.stderr.isTTY) return runtime
  const preview = await previewRun(runtime, guarded, scope, signal)
  const asks =
    preview.jobs.some(({ held }) => held) || preview.pipelines.some(({ waiting, dear }) => waiting.units > 0 || dear !== null)
  if (!asks) return runtime
  for (const line of closingLines(preview)) output.note(line)
  for (const { name, dear } of preview.pipelines) if (dear !== null) output.note(`${name}: ${dearWords(dear)}`)
  const question = scope.mode === 'range' ? 'Buy it? [y/N] ' : 'Buy what needs approval, too? [y/N] '
  if (await isYes(question, signal)) return approvedBy(runtime, `${command} at the terminal`)
  return scope.mode === 'range' ? null : runtime
}

/** The reason for the question. */
const dearWords = ({ credits, allowed }: NonNullable<PreviewPipeline['dear']>): string =>
  credits === null
    ? 'its price is not known. A backfill asks first where it buys more units than nights did so far.'
    : `${aboutCredits(credits)}. A backfill above ${counted(allowed ?? 0, 'credit')} asks first (limit from what nights bought so far).`

/** Asks; Ctrl-D means no. */
const isYes = async (question: string, signal: AbortSignal): Promise<boolean> => {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  // In raw mode the terminal sends no signal for Ctrl-C, so send it here.
  lines.once('SIGINT', () => process.stderr.write('\n') && process.kill(process.pid, 'SIGINT'))
  const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
  try {
    return /^\s*(y|yes)\s*$/i.test(await Promise.race([lines.question(question, { signal }), ended]))
  } finally {
    lines.close()
  }
}

/** What to report once a run has ended: purchases that wait for a budget, and purchases that need approval. */
const afterRun = async (runtime: Runtime, { state }: RunResult) => {
  const { definitions, database } = runtime
  const pipelines = definitions.map(({ pipeline }) => pipeline)
  const isWhole = state === 'done' || state === 'failed'
  const find = async () => ({
    spread: await forecastBacklog(runtime, definitions),
    waiting: await neededApprovals(database.kysely, pipelines),
    needsApproval: await nightNeedsApproval(database.kysely, definitions),
  })
  const nothing = { spread: [], waiting: [], needsApproval: false }
  return isWhole ? find() : cancelOn(AbortSignal.timeout(stoppedForMs), find).catch(() => nothing)
}

/** Sends alarms; after a stopped run for at most `stoppedForMs`. */
export const notifyAfterRun = (runtime: Runtime, { state }: RunResult): Promise<void> =>
  state === 'done' || state === 'failed' ? notify(runtime) : cancelOn(AbortSignal.timeout(stoppedForMs), () => notify(runtime))

/** Time limit for the reports of a stopped run, so that it ends although another session holds a lock. */
const stoppedForMs = 500

/** With --json these events come before the summary, which is always the last line; for people they come after it. */
const sayEnded = (
  output: Output,
  command: string,
  result: RunResult,
  { spread, waiting }: Awaited<ReturnType<typeof afterRun>>,
): void => {
  for (const one of waiting) output.event({ event: 'needs_approval', ...one, approve: `millrace approve ${one.pipeline}` })
  for (const { doneOn, ...one } of spread) output.event({ event: 'paced', ...one, done_on: doneOn })
  printSummary(output, command, result)
  for (const { pipeline, reports, units, credits, doneOn } of spread)
    output.line(
      `${pipeline}: ${reports > 0 ? counted(reports, 'report') : counted(units, 'unit')} (${credits === null ? 'price not known' : `about ${counted(credits, 'credit')}`}) wait for the budget or the service. Every night continues with them, in the same order of months` +
        `${doneOn === null ? '' : `; the last about ${doneOn}`}.`,
    )
  for (const { pipeline, units, reports, credits, allowed } of waiting)
    output.line(
      `${pipeline}: ${counted(units, 'unit')} (${reports === 0 ? '' : `${counted(reports, 'report')}, `}${aboutCredits(credits)}) need approval${allowed === null ? '' : `; the nightly limit was ${formatNumber(allowed)}`}. \`millrace approve ${pipeline}\` allows them.`,
    )
}
