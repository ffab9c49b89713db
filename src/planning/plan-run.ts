// From definitions and the ledger to the jobs a run waits for: set arithmetic in the database, one pipeline after the other.
import type { Definition } from '../core/types.ts'
import { showWindow } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { takeUpOrphans } from '../ledger/run-jobs.ts'
import { takeUpApproved, trimApproved } from '../ledger/approved-jobs.ts'
import { judgeHeldAgain } from '../ledger/data-points.ts'
import { databaseMs } from '../ledger/database-now.ts'
import { listsNotObeyed } from '../ledger/lists.ts'
import { lockPipeline, registerPipeline } from '../ledger/pipelines.ts'
import { dissolveUnsent, firstPriority, waitedFor } from '../ledger/register-jobs.ts'
import { type JoinScope, joinJobs, nextStep } from '../ledger/join-jobs.ts'
import { closeWindows, windowStates } from '../ledger/windows.ts'
import type { PlanWindow, Scope } from '../plan/frames.ts'
import { mostUnitsAStep, type Task } from '../plan/steps.ts'
import { type CountedWindows, countWindows } from './count-windows.ts'
import { findLost } from './find-lost.ts'
import { datasetOf } from '../pipeline/judge-points.ts'
import { approveWaiting, dissolveStale, guardPlan, settleApproval } from './guard-night.ts'
import { type PlanContext, planContext, sourceOf } from './plan-context.ts'
import { askForReports, packStep, reportSteps } from './plan-reports.ts'
import { askForWalks, walksNeeded } from './plan-walks.ts'
import { withLists } from './query-lists.ts'
import type { PlanCounts } from '../pipeline/run.ts'
import type { Runtime } from '../pipeline/runtime.ts'
import { type Samples, sampleWindows } from './sample-windows.ts'

export type { Scope }

/** Of loaded units those of a range are counted as done; with `due` only those a sample vouched for. */
export interface PlannedRun extends PlanCounts {
  /** Requests made to see whether anything changed. */
  readonly requests: number
}

/**
 * Has the run wait for what every definition in scope needs: jobs there are, jobs made anew, and what was bought and nobody waits for. Each step is a
 * commit under the pipeline's lock, so that planners of one pipeline take turns and whatever is planned by then stays when the command is stopped.
 */
export const planRun = async (
  runtime: Runtime,
  runId: number,
  definitions: readonly Definition[],
  scope: Scope,
  signal: AbortSignal,
): Promise<PlannedRun> => {
  const idle = { done: 0, held: 0, notPublished: 0, requests: 0 }
  const unpublished = new Set<string>()
  for (const written of definitions) {
    const definition = await withLists(runtime, written, runId)
    const context = await openPlan(runtime, runId, definition, scope, signal)
    const { counted, samples } = await planPipeline(runtime, context)
    for (const window of context.windows) if (!window.isPublished) unpublished.add(showWindow(window))
    idle.done += counted.tally.done
    idle.held += counted.tally.held
    idle.notPublished += counted.tally.notPublished
    idle.requests += samples.requests
  }
  const unpublishedWindows = [...unpublished].sort()
  const { kysely } = runtime.database
  return {
    ...(await waitedFor(kysely, runId)),
    ...idle,
    unpublishedWindows,
    listsNotObeyed: await listsNotObeyed(kysely, runId),
  }
}

/** Has the run wait for what a person approved of the pipeline, and for nothing else. */
export const planApproved = async (runtime: Runtime, runId: number, definition: Definition): Promise<PlanCounts> => {
  const { kysely } = runtime.database
  const source = sourceOf(runtime, definition)
  await kysely.transaction().execute(async (trx) => {
    const { pipelineId } = await registerPipeline(trx, definition, source)
    await trimApproved(trx, pipelineId)
    await takeUpApproved(trx, runId, definition.pipeline)
  })
  return { ...(await waitedFor(kysely, runId)), done: 0, held: 0, notPublished: 0 }
}

const openPlan = async (
  runtime: Runtime,
  runId: number,
  definition: Definition,
  scope: Scope,
  signal: AbortSignal,
): Promise<PlanContext> => {
  const { kysely } = runtime.database
  const source = sourceOf(runtime, definition)
  const maySendAgain = await findLost(runtime, definition, signal)
  const pipeline = await kysely.transaction().execute((trx) => registerPipeline(trx, definition, source))
  const nowMs = await databaseMs(kysely)
  const step: PlanContext['step'] = (work) => kysely.transaction().execute(work)
  return planContext(kysely, await windowStates(kysely, pipeline.pipelineId), {
    ...{ runtime, maySendAgain, definition, source, pipeline, runId, scope, nowMs, signal, step },
  })
}

const noSamples: Samples = { refreshes: new Map(), requests: 0 }

const planPipeline = async (
  runtime: Runtime,
  opened: PlanContext,
): Promise<{ readonly counted: CountedWindows; readonly samples: Samples }> => {
  const { kysely } = runtime.database
  await judgeAgain(opened)
  await dissolve(opened)
  await approveWaiting(runtime, opened)
  const context = await closeOpen(kysely, opened)
  const counted = countWindows(context)
  const isSampled = context.frame.kind === 'walk' && context.scope.mode === 'due'
  const samples = isSampled ? await sampleWindows(runtime, context) : noSamples
  if (context.frame.kind === 'walk')
    for (const needed of await walksNeeded(kysely, context, counted, samples.refreshes)) await askForWalks(context, needed)
  else await askReports(runtime, context, counted)
  await join(context)
  await closeAgain(context, counted)
  await context.step(async (trx) => {
    const { runId, pipelineId } = context.frame
    await lockPipeline(trx, pipelineId)
    await takeUpOrphans(trx, runId, context.definition.pipeline, firstPriority)
    // A range, or some values, are no reason to wait for everything else that was allowed.
    if (context.scope.mode === 'due' && context.cells.only.size === 0)
      await takeUpApproved(trx, runId, context.definition.pipeline)
  })
  return { counted, samples }
}

const askReports = async (runtime: Runtime, context: PlanContext, counted: CountedWindows): Promise<void> => {
  const { steps, units } = await reportSteps(runtime.database.kysely, context, counted)
  const packed = async (db: Db, tasks: readonly Task[]) => (await packStep(db, context, tasks)).boxes
  const guard = await guardPlan(runtime, context, steps, units, packed)
  for (const tasks of steps) {
    context.signal.throwIfAborted()
    await askForReports(context, tasks, guard)
  }
  await settleApproval(context, guard)
}

/** Reports that were held because of their count, where the definition says by now what that counts, or other reports have shown it. */
const judgeAgain = async ({ definition, source, frame, step }: PlanContext): Promise<void> => {
  if (source.kind === 'report')
    await step((trx) => judgeHeldAgain(trx, frame.pipelineId, datasetOf(definition, source)).then(() => undefined))
}

/** Jobs that are only a plan and that nobody waits for are planned anew: lists, limits or an approval may have changed. */
export const dissolve = async (context: PlanContext): Promise<void> => {
  const { step, frame, signal } = context
  for (let gone = 1; gone > 0; ) {
    signal.throwIfAborted()
    gone = await step(async (trx) => {
      await lockPipeline(trx, frame.pipelineId)
      return dissolveUnsent(trx, frame)
    })
  }
  await dissolveStale(context)
}

/** Which jobs there are may be joined; null: no window is in scope. */
export const joinScope = ({ windows, frame, cells }: PlanContext): JoinScope | null => {
  const [first, last] = [windows[0], windows.at(-1)]
  if (first === undefined || last === undefined) return null
  const published = windows.findLast(({ isPublished }) => isPublished)?.from ?? null
  return { frame, scope: cells, from: first.from, last: last.from, published }
}

/** Joins jobs that ask for units in scope already, also those another planner made meanwhile. */
const join = async (context: PlanContext): Promise<void> => {
  const scope = joinScope(context)
  for (let after: string | null = scope === null ? null : '0'; scope !== null && after !== null; )
    after = await joinStep(context, scope, after)
}

const joinStep = ({ frame, step, signal }: PlanContext, scope: JoinScope, after: string): Promise<string | null> => {
  signal.throwIfAborted()
  return step(async (trx) => {
    await lockPipeline(trx, frame.pipelineId)
    const next = await nextStep(trx, frame, after, mostUnitsAStep)
    if (next?.isNew === true) await joinJobs(trx, scope, after, next.upTo)
    return next?.upTo ?? null
  })
}

/** Closes windows older than the look-back whose every unit is loaded, so that neither this planning nor a later one reads their cells. */
export const closeOpen = async (db: Db, context: PlanContext): Promise<PlanContext> => {
  const { windows, states } = context
  const open = windows.filter(({ from }) => (states.get(from)?.closedGeneration ?? null) === null)
  const closed = await close(context, open)
  return closed === 0 ? context : { ...context, states: await windowStates(db, context.frame.pipelineId) }
}

/** Windows that were closed before the lists changed, and lack nothing of what is wanted now. */
const closeAgain = (context: PlanContext, { complete }: CountedWindows): Promise<number> =>
  close(
    context,
    complete.filter(({ from }) => (context.states.get(from)?.closedGeneration ?? null) !== null),
  )

const close = async (context: PlanContext, windows: readonly PlanWindow[]): Promise<number> => {
  const { lookBackFrom, pipeline, cells, frame, step } = context
  const old = lookBackFrom === null ? [] : windows.map(({ from }) => from).filter((from) => from < lookBackFrom)
  if (old.length === 0 || cells.only.size > 0 || frame.force) return 0
  return step(async (trx) => {
    await lockPipeline(trx, pipeline.pipelineId)
    return closeWindows(trx, pipeline.pipelineId, old, pipeline.generation)
  })
}
