// A run: plans, works until none of the jobs it waits for is open, sums up, and compares what it restated with the usual.
import { counted } from '../core/counted.ts'
import { isEtlError, messageOf, unansweredCodes } from '../core/errors.ts'
import { inSpan } from '../core/trace.ts'
import type { Definition, IsoDate } from '../core/types.ts'
import { reportAfterMs } from '../core/waiting.ts'
import { retryWhileAway, gaveUpRetrying } from '../db/retry-while-away.ts'
import { cancelOn } from '../db/stoppable.ts'
import type { Db } from '../db/tables.ts'
import {
  breaksOf,
  extendBack,
  type KnownBreak,
  recordBreak,
  recordVersions,
  type Restated,
  restatedBefore,
  sumRestated,
} from '../ledger/breaks.ts'
import { isCancelled } from '../ledger/cancel-request.ts'
import { databaseMs } from '../db/database-clock.ts'
import { forecasts, recordForecasts } from '../ledger/month-end.ts'
import { lockPipeline } from '../ledger/pipelines.ts'
import { leaveUnserved } from '../ledger/serving.ts'
import { makeJobsDue, endMissedWaits, deferOutsideJobs, leaveUntakeable, runWaits } from '../ledger/wait-list.ts'
import {
  emptySummary,
  finishRun,
  openJobs,
  type RunSummary,
  requestsSaved,
  unitsSkipped,
  rowsByPipeline,
  runSummary,
  startRun,
  unitsOf,
} from '../ledger/runs.ts'
import { sourceOf, topOf } from '../plan/plan-context.ts'
import { closeWindows, windowsLoadedBy } from '../ledger/windows.ts'
import { analyzeChanged } from '../load/analyze.ts'
import { lookBackStart } from '../plan/frames.ts'
import { isOfBreak, judgeRestated } from '../plan/method-break.ts'
import type { PlanCounts } from '../plan/plan-runtime.ts'
import { pricesOf } from '../plan/price.ts'
import { recordNoted } from './unrecorded-work.ts'
import { createLineage } from './lineage.ts'
import { tellRunWaits } from './progress.ts'
import { readBalances } from './read-balance.ts'
import { publishAttributes } from './refresh-attributes.ts'
import type { Runtime } from './runtime.ts'
import { watchEvery, workLoop } from './work-loop.ts'

export interface RunRequest {
  readonly command: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** What the run works on. Default of `concurrency`: the most that any of them allows. */
  readonly definitions: readonly Definition[]
  /** Writes the jobs that the run waits for into its list. */
  readonly plan: (runId: number, signal: AbortSignal) => Promise<PlanCounts>
  /** Must be done before the run is over. Not called where the run was stopped. */
  readonly beforeEnd?: (runId: number) => Promise<void>
  /** Jobs worked on at once for this run. 0: a loop of this process that helps every run does the work. Default: the most any definition allows. */
  readonly concurrency?: number | undefined
  readonly signal: AbortSignal
}

export interface RunResult {
  readonly runId: number
  readonly summary: RunSummary
  readonly seconds: number
  /** HTTP requests not made because a probe showed that the loaded answer still holds. */
  readonly requestsSaved: number
  /** Units, counted as unchanged, that hold a newer answer than the one that came. */
  readonly passed: number
  /** Units left waiting because the service did not answer, or refused too many requests. */
  readonly unanswered: number
  /** Units in scope that could not be loaded: the service has not published their windows yet. Part of `waiting`. */
  readonly notPublished: { readonly units: number; readonly windows: readonly string[]; readonly expectedOn: IsoDate | null }
  /** Lists from SQL that are held for a person, or whose query failed: the run used the former lists. */
  readonly listsNotObeyed: number
  readonly state: 'done' | 'failed' | 'cancelled' | 'interrupted'
}

/** Plans, works on the run's own list and returns when each of its jobs is loaded, unchanged, held, failed or left waiting. */
export const runJobs = async (runtime: Runtime, request: RunRequest): Promise<RunResult> => {
  const { kysely } = runtime.database
  const lineage = createLineage(runtime.settings.raw, runtime.log)
  const runId = await startRun(kysely, runtime.process, { command: request.command, arguments: request.arguments })
  const told = { warehouseId: runtime.warehouse.id, runId, definitions: request.definitions }
  await lineage?.started(told)
  try {
    const result = await perform(runtime, runId, request)
    // A run that ends early must not wait for locks of others.
    const isEarly = result.state === 'cancelled' || result.state === 'interrupted'
    await lineage?.ended(told, result.state, async () => (isEarly ? {} : rowsByPipeline(kysely, runId)))
    return result
  } catch (error) {
    await lineage?.ended(told, 'failed', async () => ({}))
    throw error
  }
}

const perform = async (runtime: Runtime, runId: number, request: RunRequest): Promise<RunResult> => {
  const started = performance.now()
  const { kysely } = runtime.database
  const cancel = watchCancel(runtime, runId)
  try {
    const planning = await planned(runtime, runId, request, cancel.signal)
    const counts = planning ?? nothingPlanned
    const span = { 'millrace.run_id': runId, 'millrace.command': request.command, 'millrace.units': counts.units }
    if (counts.jobs > 0 && asks(request))
      await inSpan('meter', span, () => readBalances(runtime, request.definitions, request.signal, 'before'))
    const worked = counts.jobs > 0 && (await inSpan('run', span, () => workUntilSettled(runtime, runId, request, cancel.signal)))
    const cancelled = planning === null || worked
    if (cancelled) return await endEarly(runtime, runId, started, counts, 'cancelled')
    if (!request.signal.aborted) await closeLoaded(runtime, runId, request.definitions)
    if (counts.jobs > 0) await noticeBreaks(runtime, runId)
    await refreshAttributes(runtime, request.signal)
    if (counts.jobs > 0 && !request.signal.aborted) await keepStatistics(runtime, runId, request.definitions)
    if (request.signal.aborted) return await endEarly(runtime, runId, started, counts, 'interrupted')
    const bought = counts.jobs > 0 && asks(request) ? await runSummary(kysely, runId) : null
    // A night that only sampled leaves the reading to the next run with jobs. Pages at an unknown price count 0, so loaded units decide, too.
    if (bought !== null && (bought.quota_used > 0 || bought.units.loaded > 0))
      await inSpan('meter', span, () => readBalances(runtime, request.definitions, request.signal, 'after'))
    if (asks(request)) await foretell(runtime, runId, request.definitions)
    await noticeTakenBack(runtime, runId)
    const summary = withAside(await runSummary(kysely, runId), counts)
    const unanswered = summary.units.waiting > 0 ? await unitsOf(kysely, runId, 'waiting', unansweredCodes) : 0
    const aside = asideOf(counts)
    const state = stateOf(summary, unanswered + aside.listsNotObeyed, request.signal)
    if (state !== 'interrupted') await request.beforeEnd?.(runId)
    const seconds = (performance.now() - started) / 1000
    const heldAlone = state === 'failed' && summary.units.failed + counts.held + unanswered + aside.listsNotObeyed === 0
    const pipelines = await rowsByPipeline(kysely, runId)
    await finishRun(kysely, runId, state, { ...summary, seconds, pipelines, held_alone: heldAlone })
    const saved = summary.units.unchanged > 0 ? await requestsSaved(kysely, runId) : 0
    const passed = summary.units.unchanged > 0 ? await unitsSkipped(kysely, runId) : 0
    return { runId, summary, seconds, requestsSaved: saved, passed, unanswered, ...aside, state }
  } catch (error) {
    if (request.signal.aborted)
      return endEarly(runtime, runId, started, nothingPlanned, 'interrupted').catch(() => Promise.reject(error))
    // The run must be closed: else its jobs wait for a run without a process.
    const close = () => finishRun(kysely, runId, 'failed', null)
    await (gaveUpRetrying(error) ? close() : retryWhileAway(runtime, request.signal, close)).catch(() => undefined)
    throw error
  } finally {
    cancel.end()
  }
}

/** Whether the command may send requests: a replay loads from the landing alone. */
const asks = ({ command, signal }: RunRequest): boolean =>
  !signal.aborted && ['run', 'backfill', 'schedule', 'demo'].includes(command)

/** How long the end of a run waits for locks of others. After that its canceller closes it, or a process that finds this one ended. */
const endWithinMs = { cancelled: 500, interrupted: 1_500 }

/** A run that was cancelled or stopped ends at once, with what it has done by then. */
const endEarly = async (
  { database: { kysely }, log }: Runtime,
  runId: number,
  started: number,
  counts: PlanCounts,
  state: keyof typeof endWithinMs,
): Promise<RunResult> => {
  const soon = AbortSignal.timeout(endWithinMs[state])
  const summary = withAside(await cancelOn(soon, () => runSummary(kysely, runId)).catch(() => emptySummary), counts)
  const seconds = (performance.now() - started) / 1000
  const pipelines = await cancelOn(soon, () => rowsByPipeline(kysely, runId)).catch(() => ({}))
  await cancelOn(soon, () => finishRun(kysely, runId, state, { ...summary, seconds, pipelines })).catch((error: unknown) =>
    log.warn({ run_id: runId, error: messageOf(error) }, `the ${state} run could not be closed`),
  )
  return { runId, summary, seconds, requestsSaved: 0, passed: 0, unanswered: 0, ...asideOf(counts), state }
}

/** Tells people of units that the run let go: its summary counts them as planned, and as nothing else. */
const noticeTakenBack = async ({ database: { kysely }, progress }: Runtime, runId: number): Promise<void> => {
  const units = await unitsOf(kysely, runId, 'let go')
  const message = `${counted(units, 'unit')} of this run ${units === 1 ? 'was' : 'were'} not bought: a person withdrew them (\`millrace approve --withdraw\`), or another run has them.`
  if (units > 0) progress.emit({ event: 'notice', code: 'WITHDRAWN', message })
}

/** Results of planning that are not the state of a unit. */
const asideOf = ({ notPublished, unpublishedWindows = [], expectedOn = null, listsNotObeyed = 0 }: PlanCounts) => ({
  notPublished: { units: notPublished, windows: unpublishedWindows, expectedOn },
  listsNotObeyed,
})

const nothingPlanned: PlanCounts = { units: 0, jobs: 0, done: 0, held: 0, notPublished: 0 }

/** null: it was cancelled. */
const planned = async (runtime: Runtime, runId: number, request: RunRequest, cancel: AbortSignal): Promise<PlanCounts | null> => {
  const stop = AbortSignal.any([request.signal, cancel])
  const counts = await cancelOn(stop, async () => {
    await runtime.begin(runId)
    await recordNoted(runtime)
    return request.plan(runId, stop)
  }).catch((error: unknown) => {
    if (cancel.aborted) return null
    throw error
  })
  if (counts === null) return null
  runtime.progress.counters.unitsPlanned += counts.units
  runtime.progress.emit({ event: 'planned', run_id: runId, units: counts.units })
  return counts
}

const cancelCheckMs = 500

/** Polls beside the work, over a connection of its own: a lock of somebody else may keep all others waiting. */
const watchCancel = ({ ownLine }: Runtime, runId: number): { readonly signal: AbortSignal; readonly end: () => void } => {
  const cancel = new AbortController()
  const end = watchEvery(cancelCheckMs, async () => {
    if (await isCancelled(ownLine(), runId).catch(() => false)) cancel.abort()
  })
  return { signal: cancel.signal, end }
}

const stateOf = ({ units }: RunSummary, others: number, signal: AbortSignal): RunResult['state'] =>
  signal.aborted ? 'interrupted' : units.failed + units.held + others > 0 ? 'failed' : 'done'

/** The ledger's summary plus the units that were in scope and needed nothing. */
const withAside = (summary: RunSummary, { done, held, notPublished }: PlanCounts): RunSummary => {
  const { units } = summary
  return {
    ...summary,
    units: {
      ...units,
      planned: units.planned + done + held + notPublished,
      unchanged: units.unchanged + done,
      held: units.held + held,
      waiting: units.waiting + notPublished,
    },
  }
}

/** How often the run checks for jobs that would keep it for ever. */
const tidyEveryMs = 1_000

/** True when the run was cancelled by someone. */
const workUntilSettled = async (runtime: Runtime, runId: number, request: RunRequest, cancel: AbortSignal): Promise<boolean> => {
  const { kysely } = runtime.database
  await makeJobsDue(kysely, runId)
  let tidiedAt = performance.now()
  let waitsReadAt = tidiedAt
  const done = async (): Promise<boolean> => {
    const { count, cancelled, state } = await openJobs(kysely, runId)
    if (count > 0 && performance.now() - tidiedAt > tidyEveryMs) {
      tidiedAt = performance.now()
      await tidy(runtime, runId)
    }
    if (count > 0 && performance.now() - waitsReadAt > reportAfterMs) {
      waitsReadAt = performance.now()
      tellRunWaits(await runWaits(kysely, runId, runtime.process))
    }
    // Another process thought this one dead and closed the run: it resumes as soon as the lease is renewed.
    return cancelled || (count === 0 && state !== 'interrupted')
  }
  const { concurrency = concurrencyOf(request.definitions) } = request
  await workLoop(runtime, { runId, concurrency, signal: AbortSignal.any([request.signal, cancel]), done })
  return isCancelled(kysely, runId)
}

/** Call when the run waits and has no job in hand: leaves jobs that no process here can take, and ends the wait for settled ones. */
const tidy = async (runtime: Runtime, runId: number): Promise<void> => {
  const { kysely } = runtime.database
  const left = await leaveUntakeable(kysely, runId, await runtime.claimable())
  if (left > 0) runtime.log.warn({ run_id: runId, jobs: left }, 'jobs left to the machines that have their definition')
  await leaveUnserved(kysely, runId)
  await deferOutsideJobs(kysely, runId)
  const forgotten = await endMissedWaits(kysely, runId)
  if (forgotten > 0) runtime.log.info({ run_id: runId, jobs: forgotten }, 'jobs were settled while this run joined them')
}

/** The most any of the definitions allows; pages of one unit and the rate budget bound it further. */
export const concurrencyOf = (definitions: readonly Definition[]): number =>
  Math.max(1, ...definitions.map((definition) => definition.limits.concurrency))

/**
 * Closes windows that the run has completed: their units are counted once, so that status and page need not count them. Only windows older than the
 * look-back: later ones are requested again. Each window is a commit; the next planning closes what is left.
 */
const closeLoaded = (
  runtime: Beside & Pick<Runtime, 'sources'>,
  runId: number,
  definitions: readonly Definition[],
): Promise<void> =>
  beside(runtime.log, runId, 'windows are left to the next planning to be counted', async () => {
    const { kysely } = runtime.database
    const nowMs = await databaseMs(kysely)
    for (const definition of definitions) {
      const before = lookBackStart(definition, nowMs)
      if (before === null) continue
      const top = await topOf(kysely, { definition, source: sourceOf(runtime, definition) })
      for (const { pipelineId, windowFrom, generation } of await windowsLoadedBy(kysely, runId, { ...definition, before }))
        await kysely.transaction().execute(async (trx) => {
          await lockPipeline(trx, pipelineId)
          await closeWindows(trx, pipelineId, [windowFrom], generation, top)
        })
    }
  })

type Beside = Pick<Runtime, 'database' | 'log'>

/** A failure of this work is logged and does not fail the run. @param otherwise the message that is logged */
const beside = (log: Beside['log'], runId: number, otherwise: string, work: () => Promise<void>): Promise<void> =>
  work().catch((error: unknown) => log.warn({ run_id: runId, error: messageOf(error) }, otherwise))

/**
 * Applies the folder attributes/ if there is one: files that changed, queries run again, and names of values that this run brought. Where there is no folder,
 * only `migrate` ends all attributes, since not every machine that loads needs it. A failure does not fail the run.
 */
const refreshAttributes = async ({ database, attributes, progress, log }: Runtime, signal: AbortSignal): Promise<void> => {
  if (signal.aborted) return
  try {
    const folder = await attributes()
    if (folder === null) return
    const applied = await publishAttributes(database, folder.found, folder.definitions)
    if (applied.changed + applied.ended > 0) log.info({ attributes: applied }, 'attributes applied')
  } catch (error) {
    const code = isEtlError(error) ? error.code : 'ATTRIBUTES'
    progress.emit({ event: 'notice', code, message: `Attributes stay as they were: ${messageOf(error)}` })
  }
}

/** Records the forecast of the month after this run, for readers of `bi`. */
const foretell = (runtime: Runtime, runId: number, definitions: readonly Definition[]): Promise<void> =>
  beside(runtime.log, runId, 'what the month comes to is left to the next run to be computed', async () => {
    const { kysely } = runtime.database
    const all = await forecasts(kysely, await databaseMs(kysely), pricesOf(runtime, definitions))
    const ours = all.filter(({ pipeline }) => definitions.some((one) => one.pipeline === pipeline))
    await recordForecasts(kysely, runId, ours)
  })

/** Renews the statistics with which PostgreSQL plans the queries of analysts. */
const keepStatistics = ({ database, log }: Beside, runId: number, definitions: readonly Definition[]): Promise<void> =>
  beside(log, runId, 'statistics were not renewed; questions may take longer until the next run', async () => {
    const analyzed = await analyzeChanged(database, definitions)
    if (analyzed.length > 0) log.debug({ tables: analyzed }, 'statistics renewed')
  })

/** Records a break where the run restated more than is usual. After a failure a later run judges both. */
export const noticeBreaks = ({ database, log }: Beside, runId: number): Promise<void> =>
  beside(log, runId, 'what was restated is left to the next run to be judged', () =>
    database.kysely.transaction().execute(async (trx) => {
      await recordVersions(trx, runId)
      for (const { pipeline_id, run_id, nightly } of await sumRestated(trx, runId)) {
        await lockPipeline(trx, pipeline_id)
        await noticeOne(trx, pipeline_id, run_id, nightly)
      }
    }),
  )

const noticeOne = async (trx: Db, pipelineId: number, runId: number, isNightly: boolean): Promise<void> => {
  const known = await breaksOf(trx, pipelineId)
  const before = await restatedBefore(trx, pipelineId)
  if (before === null) return
  await extend(trx, known, before.filter((one) => one.runId === runId)) // biome-ignore format: one look
  const fresh = before.filter((one) => !known.some((found) => isPartOf(one, found)))
  const usual = fresh.filter((one) => one.runId < runId)
  const found = isNightly ? judgeRestated(fresh.filter((one) => one.runId === runId), usual) : null // biome-ignore format: one look
  if (found !== null) await recordBreak(trx, pipelineId, runId, found)
}

/** A break may take some nights to reach all of a table. Milliseconds. */
const reachesWithin = 31 * 86_400_000

const isPartOf = (one: Restated, found: KnownBreak): boolean =>
  one.runId >= found.runId && one.seenMs < found.noticedMs + reachesWithin && isOfBreak(one, found)

/** Older windows that were requested since show how far back the break goes; once they are requested whole, they are of the new method. */
const extend = async (trx: Db, known: readonly KnownBreak[], run: readonly Restated[]): Promise<void> => {
  for (const found of known) {
    const older = run.filter((one) => one.windowFrom < found.startsOn && isOfBreak(one, found)).map((one) => one.windowFrom)
    const [oldest] = older.toSorted()
    if (oldest !== undefined) await extendBack(trx, found.breakId, oldest)
  }
}
