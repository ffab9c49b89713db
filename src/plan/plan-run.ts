// From definitions and the ledger to the jobs a run waits for: set arithmetic in the database, one pipeline after the other.
import { widestFirst } from '../core/request-digest.ts'
import type { Definition, IsoDate } from '../core/types.ts'
import { publicationDate, showWindow } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { retryWhileAway } from '../db/retry-while-away.ts'
import type { Refresh } from '../ledger/candidates.ts'
import { dissolveServed } from '../ledger/approved-jobs.ts'
import { datasetOf, judgeHeldAgain } from '../ledger/data-points.ts'
import { databaseMs } from '../db/database-clock.ts'
import { type JoinScope, joinJobs, nextStep } from '../ledger/join-jobs.ts'
import { listsNotObeyed } from '../ledger/lists.ts'
import { registerPipeline } from '../ledger/pipelines.ts'
import { countApproval } from '../ledger/approvals.ts'
import { dissolveUnsent, waitedFor } from '../ledger/register-jobs.ts'
import { joinServing } from '../ledger/serving.ts'
import { joinOrphans } from '../ledger/wait-list.ts'
import { closeWindows, windowStates } from '../ledger/windows.ts'
import { type CountedWindows, countWindows } from './count-windows.ts'
import { checkScope, type PlanWindow, type Scope } from './frames.ts'
import { approveWaiting, dissolveStale, guardPlan, pagePrice, renewApproved, reportPrice, settleApproval } from './guard-night.ts'
import { isForced, type PlanContext, planContext, sourceOf, probeContext, recorder, wholeSpan } from './plan-context.ts'
import { askForReports, packStep, type ReportSteps, reportSteps } from './plan-reports.ts'
import { askForWalks, type NeededWalks, walksNeeded, walksToBuy } from './plan-walks.ts'
import type { PlanCounts, PlanRuntime } from './plan-runtime.ts'
import { withLists, withReadFiles } from './query-lists.ts'
import { sampleWindows } from './sample-windows.ts'
import { takeApproved } from './take-approved.ts'
import { mostUnitsAStep } from './pack.ts'
import { messageOf } from '../core/errors.ts'
import { findListed, listedSince, type LostSubmission } from '../extract/report-submit.ts'
import type { ListedReport } from '../core/report-shape.ts'
import { adoptReport, lostPurchases, unknownReports } from '../ledger/purchases.ts'
import { type RequestRecord, recordRequests } from '../ledger/requests.ts'

export type { Scope }

/** `done` counts the loaded units of a range; with `due` only those that a sample found unchanged. */
export interface PlannedRun extends PlanCounts {
  /** Requests made to see whether anything changed. */
  readonly requests: number
}

/**
 * Has the run wait for what every definition in scope needs: existing jobs, new jobs, and orphans. Each step is a transaction under the pipeline's lock: planners
 * of one pipeline take turns, and a stopped command keeps what it has planned so far.
 */
export const planRun = async (
  runtime: PlanRuntime,
  runId: number,
  definitions: readonly Definition[],
  scope: Scope,
  signal: AbortSignal,
): Promise<PlannedRun> => {
  const idle = { done: 0, held: 0, notPublished: 0, requests: 0 }
  const unpublished = new Map<string, IsoDate>()
  const readable: Definition[] = []
  for (const written of widestFirst(withReadFiles(runtime, definitions))) readable.push(await withLists(runtime, written, runId))
  checkScope(readable, scope)
  for (const definition of readable) {
    const context = await openPlan(runtime, runId, definition, scope, signal)
    const { counted, requests } = await planPipeline(runtime, context)
    for (const window of context.windows)
      if (!window.isPublished) unpublished.set(showWindow(window), publicationDate(window, definition.window.publication))
    for (const name of ['done', 'held', 'notPublished'] as const) idle[name] += counted.tally[name]
    idle.requests += requests
  }
  const unpublishedWindows = [...unpublished.keys()].sort()
  const { kysely } = runtime.database
  await kysely.transaction().execute((trx) => joinServing(trx, runId))
  return {
    ...(await waitedFor(kysely, runId)),
    ...idle,
    unpublishedWindows,
    expectedOn: [...unpublished.values()].sort()[0] ?? null,
    listsNotObeyed: (await listsNotObeyed(kysely, runId)) + definitions.length - readable.length,
  }
}

/** Has the run wait for what a person approved of the pipeline, and for nothing else. */
export const planApproved = async (
  runtime: PlanRuntime,
  runId: number,
  versions: readonly Definition[],
  signal: AbortSignal,
): Promise<PlanCounts> => {
  const { kysely } = runtime.database
  for (const definition of widestFirst(versions)) {
    const context = await openPlan(runtime, runId, definition, { mode: 'due' }, signal)
    tellChanged(runtime, definition, await renewApproved(context))
    await takeApproved(context)
  }
  await kysely.transaction().execute((trx) => joinServing(trx, runId))
  return { ...(await waitedFor(kysely, runId)), done: 0, held: 0, notPublished: 0 }
}

const openPlan = async (runtime: PlanRuntime, runId: number, definition: Definition, scope: Scope, signal: AbortSignal) => {
  const { kysely } = runtime.database
  const source = sourceOf(runtime, definition)
  const maySendAgain = await findLost(runtime, runId, definition, signal)
  const pipeline = await kysely.transaction().execute((trx) => registerPipeline(trx, definition, source))
  if (pipeline.isBackAgain === true) tellListsBack(runtime, definition)
  const nowMs = await databaseMs(kysely)
  const step: PlanContext['step'] = (work) => kysely.transaction().execute(work)
  return planContext(kysely, await windowStates(kysely, pipeline.pipelineId), {
    ...{ runtime, maySendAgain, definition, source, pipeline, runId, scope, nowMs, signal, step },
  })
}

/** Two folders that plan one pipeline with different lists dissolve each other's units, night after night. */
const tellListsBack = ({ progress }: PlanRuntime, { pipeline, version, file }: Definition): void => {
  const message =
    `${pipeline} v${version}: the lists are back to what they were before their last change. If you did not change them back, another machine or folder ` +
    `runs this pipeline with other lists, and each dissolves what the other has planned: use the same ${file} and lists on all of them.`
  progress.emit({ event: 'notice', code: 'LISTS_CHANGED_BACK', message })
}

export type Needs = Awaited<ReturnType<typeof findNeeds>>

/** What a pipeline needs, before anything is asked for; planner and preview share it. @param refreshesOf what samples have shown about the windows of the look-back */
export const findNeeds = async (
  db: Db,
  opened: PlanContext,
  refreshesOf: (context: PlanContext) => Promise<ReadonlyMap<IsoDate, Refresh>>,
) => {
  const context = await closeOpen(db, opened)
  const counted = countWindows(context)
  if (context.frame.kind === 'report') return { context, counted, walks: [], reports: await reportSteps(db, context, counted) }
  const refreshes = context.scope.mode === 'due' ? await refreshesOf(context) : new Map<IsoDate, Refresh>()
  const walks = await walksNeeded(db, context, counted, refreshes)
  return { context, counted, walks, reports: noReports }
}

const noReports: ReportSteps = { steps: [], units: [], left: [] }

/** Warns about dissolved approved jobs: a night plans again only what the window wants by itself. */
const tellChanged = ({ log }: PlanRuntime, { pipeline }: Definition, jobs: number): void => {
  if (jobs === 0) return
  const what = 'approved purchases exceed what was approved and are planned again'
  log.warn({ pipeline, jobs }, `${what}; months outside the window, and what was forced, need their backfill again`)
}

const planPipeline = async (runtime: PlanRuntime, opened: PlanContext) => {
  let requests = 0
  tellChanged(runtime, opened.definition, await settleFormer(runtime, opened))
  const { context, counted, walks, reports } = await findNeeds(runtime.database.kysely, opened, async (closed) => {
    const samples = await sampleWindows(runtime, closed)
    requests = samples.requests
    return samples.refreshes
  })
  await askWalks(runtime, context, walks)
  if (context.frame.kind === 'report') await askReports(runtime, context, reports)
  await join(context)
  await closeAgain(context, counted)
  await context.locked(async (trx) => {
    const { runId, pipelineId } = context.frame
    if (context.cells.only.size > 0) return
    await joinOrphans(trx, runId, { pipelineId, pipeline: context.definition.pipeline, isPart: context.scope.mode === 'range' })
  })
  return { counted, requests }
}

const askWalks = async (runtime: PlanRuntime, context: PlanContext, walks: readonly NeededWalks[]): Promise<void> => {
  const guard = await guardPlan(runtime, context, walks.flatMap(walksToBuy), pagePrice(runtime, context))
  for (const needed of walks) await askForWalks(context, needed, guard)
  await settleApproval(context, guard)
}

const askReports = async (runtime: PlanRuntime, context: PlanContext, { steps, units, left }: ReportSteps): Promise<void> => {
  const price = reportPrice(runtime, context, (db) => packStep(db, context, steps[0] ?? []))
  const guard = await guardPlan(runtime, context, units, price)
  for (const tasks of steps) {
    context.signal.throwIfAborted()
    await askForReports(context, tasks, guard, left)
  }
  await settleApproval(context, guard)
}

/** Judges held reports again whose count was in doubt, where the definition or other reports now say what it counts; reports that came short are downloaded again. */
const judgeAgain = async (context: PlanContext): Promise<void> => {
  const { definition, source, scope, frame, step } = context
  const span = wholeSpan(context)
  // --force asks for new reports in their place.
  if (isForced(scope) || source.kind !== 'report' || span === null) return
  await step((trx) => judgeHeldAgain(trx, frame.pipelineId, datasetOf(definition, source), span))
}

/** Before anything is asked for, judges, dissolves or takes up what former runs left. Returns how many approved purchases are planned again. */
export const settleFormer = async (runtime: Pick<PlanRuntime, 'consent'>, context: PlanContext): Promise<number> => {
  await judgeAgain(context)
  const changed = await dissolve(context)
  await approveWaiting(runtime, context)
  await takeApproved(context)
  return changed
}

/** Dissolves jobs that are only a plan and that no run waits for, to be planned again: lists, limits or an approval may have changed. Returns how many of them were approved. */
const dissolve = async (context: PlanContext): Promise<number> => {
  for (let gone = 1; gone > 0; ) gone = await context.locked((trx) => dissolveUnsent(trx, context.frame))
  const { frame, cells } = context
  const { reuse } = cells
  const span = wholeSpan(context)
  if (reuse !== null && span !== null)
    await context.locked(async (trx) => {
      if ((await dissolveServed(trx, frame, reuse, span)) > 0) await countApproval(trx, frame.pipelineId)
    })
  return dissolveStale(context)
}

/** The scope of existing jobs that the run may join; null: no window is in scope. */
export const joinScope = ({ windows, frame, cells }: PlanContext): JoinScope | null => {
  const [first, last] = [windows[0], windows.at(-1)]
  if (first === undefined || last === undefined) return null
  const published = windows.findLast(({ isPublished }) => isPublished)?.from ?? null
  return { frame, scope: cells, from: first.from, last: last.from, published }
}

/** Joins jobs that ask for units in scope already, also those another planner made meanwhile. */
const join = async (context: PlanContext): Promise<void> => {
  const scope = joinScope(context)
  if (scope === null) return
  const stepFrom = (after: string): Promise<string | null> =>
    context.locked(async (trx) => {
      const next = await nextStep(trx, scope.frame, after, mostUnitsAStep)
      if (next?.isNew === true) await joinJobs(trx, scope, after, next.upTo)
      return next?.upTo ?? null
    })
  for (let after: string | null = '0'; after !== null; ) after = await stepFrom(after)
}

/** Closes windows older than the look-back whose every unit is loaded, so that neither this planning nor a later one reads their cells. */
const closeOpen = async (db: Db, context: PlanContext): Promise<PlanContext> => {
  const { windows, states } = context
  const open = windows.filter(({ from }) => (states.get(from)?.closedGeneration ?? null) === null)
  const closed = await close(context, open)
  return closed === 0 ? context : { ...context, states: await windowStates(db, context.frame.pipelineId) }
}

/** Closes windows again that were closed before the lists changed, where nothing that is wanted now is missing. */
const closeAgain = (context: PlanContext, { complete }: CountedWindows): Promise<number> =>
  close(
    context,
    complete.filter(({ from }) => (context.states.get(from)?.closedGeneration ?? null) !== null),
  )

const close = async (context: PlanContext, windows: readonly PlanWindow[]): Promise<number> => {
  const { lookBackFrom, pipeline, cells, frame, locked } = context
  const old = lookBackFrom === null ? [] : windows.map(({ from }) => from).filter((from) => from < lookBackFrom)
  if (old.length === 0 || cells.only.size > 0 || frame.force) return 0
  return locked((trx) => closeWindows(trx, pipeline.pipelineId, old, pipeline.generation, cells.top))
}

/**
 * Looks for lost submissions in the service's own list and records each id that it finds: the job continues, also where a person agreed to send it again.
 * False: a list could not be read, so this run may send nothing again.
 */
const findLost = async (runtime: PlanRuntime, runId: number, definition: Definition, signal: AbortSignal): Promise<boolean> => {
  const { database, sources, progress } = runtime
  const { pipeline } = definition
  const source = sources.get(definition.source)
  const lost = source?.listReports === undefined ? [] : await lostPurchases(database.kysely, pipeline)
  if (source?.listReports === undefined || lost.length === 0) return true
  const requests: RequestRecord[] = []
  const record = recorder(runtime, { runId, pipelineId: null }, requests)
  try {
    // Each account lists only its own reports, and the definition may name another account by now.
    for (const [account, ofAccount] of Map.groupBy(lost, (one) => one.account)) {
      const sent = ofAccount.map(({ askedMsAgo, ...one }) => ({ ...one, sentAtMs: runtime.clock.now() - askedMsAgo }))
      const context = probeContext(runtime, { ...definition, account }, { signal, record })
      const listed = (await source.listReports(context, Math.min(...sent.map(listedSince)))) ?? []
      await adoptListed(runtime, { pipeline, account }, sent, listed)
    }
    return true
  } catch (error) {
    signal.throwIfAborted()
    const message = `${pipeline}: the service's list of reports cannot be read (${messageOf(error)}), so this run resubmits no lost submission.`
    progress.emit({ event: 'notice', code: 'REPORT_UNCERTAIN', message })
    return false
  } finally {
    await retryWhileAway(runtime, signal, () => recordRequests(database.kysely, requests))
  }
}

const adoptListed = async (
  { database, process, progress }: PlanRuntime,
  { pipeline, account }: { readonly pipeline: string; readonly account: string },
  sent: readonly (LostSubmission & { readonly jobId: number })[],
  listed: readonly ListedReport[],
): Promise<void> => {
  const ids = listed.map(({ reportId }) => reportId)
  const free = new Set(await unknownReports(database.kysely, account, ids))
  for (const one of sent) {
    const reportId = findListed(
      listed.filter(({ reportId: id }) => free.has(id)),
      one,
    )
    if (reportId === null) continue
    free.delete(reportId)
    await adoptReport(database.kysely, { jobId: one.jobId, reportId, by: process.name, isFound: true })
    const message = `${pipeline}: report ${reportId}, whose submission got no answer, was found in the service's list. It is not bought again.`
    progress.emit({ event: 'notice', code: 'REPORT_FOUND', message })
  }
}
