// From definitions and the ledger to the jobs a run waits for: set arithmetic in the database, one pipeline after the other.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { takeUpOrphans } from '../ledger/run-jobs.ts'
import { lockPipeline, registerPipeline } from '../ledger/pipelines.ts'
import { dissolveUnsent, firstPriority, waitedFor } from '../ledger/register-jobs.ts'
import { type JoinScope, joinJobs, stepEnd } from '../ledger/join-jobs.ts'
import { closeWindows, windowStates } from '../ledger/windows.ts'
import type { PlanWindow, Scope } from '../plan/frames.ts'
import { mostUnitsAStep } from '../plan/steps.ts'
import { type CountedWindows, countWindows } from './count-windows.ts'
import { type PlanContext, planContext } from './plan-context.ts'
import { askForReports, reportSteps } from './plan-reports.ts'
import { askForWalks, walksNeeded } from './plan-walks.ts'
import type { PlanCounts } from './run.ts'
import type { Runtime } from './runtime.ts'
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
  for (const definition of definitions) {
    const context = await openPlan(runtime, runId, definition, scope, signal)
    const { counted, samples } = await planPipeline(runtime, context)
    idle.done += counted.tally.done
    idle.held += counted.tally.held
    idle.notPublished += counted.tally.notPublished
    idle.requests += samples.requests
  }
  return { ...(await waitedFor(runtime.database.kysely, runId)), ...idle }
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
  const pipeline = await kysely.transaction().execute((trx) => registerPipeline(trx, definition, source))
  const nowMs = await databaseMs(kysely)
  const step: PlanContext['step'] = (work) => kysely.transaction().execute(work)
  return planContext(kysely, await windowStates(kysely, pipeline.pipelineId), {
    ...{ runtime, definition, source, pipeline, runId, scope, nowMs, signal, step },
  })
}

/** Throws DEFINITION where the source is not here. */
export const sourceOf = ({ sources }: Pick<Runtime, 'sources'>, { source, file }: Definition) => {
  const found = sources.get(source)
  if (found === undefined) throw new EtlError('DEFINITION', `${file}: there is no source ${source}; correct source.`)
  return found
}

export const databaseMs = async (db: Db): Promise<number> => {
  const { rows } = await sql<{ now: string }>`select clock_timestamp() as now`.execute(db)
  return Date.parse(rows[0]?.now ?? '')
}

const noSamples: Samples = { refreshes: new Map(), requests: 0 }

const planPipeline = async (
  runtime: Runtime,
  opened: PlanContext,
): Promise<{ readonly counted: CountedWindows; readonly samples: Samples }> => {
  const { kysely } = runtime.database
  await dissolve(opened)
  const context = await closeOpen(kysely, opened)
  const counted = countWindows(context)
  const isSampled = context.frame.kind === 'walk' && context.scope.mode === 'due'
  const samples = isSampled ? await sampleWindows(runtime, context) : noSamples
  if (context.frame.kind === 'walk')
    for (const needed of await walksNeeded(kysely, context, counted, samples.refreshes)) await askForWalks(context, needed)
  else for (const tasks of await reportSteps(kysely, context, counted)) await askStep(context, tasks)
  await join(context)
  await closeAgain(context, counted)
  await context.step(async (trx) => {
    await lockPipeline(trx, context.frame.pipelineId)
    await takeUpOrphans(trx, context.frame.runId, context.definition.pipeline, firstPriority)
  })
  return { counted, samples }
}

const askStep = async (context: PlanContext, tasks: Parameters<typeof askForReports>[1]): Promise<void> => {
  context.signal.throwIfAborted()
  await askForReports(context, tasks)
}

/** Jobs that are only a plan and that nobody waits for are planned anew: lists, limits or an approval may have changed. */
export const dissolve = async ({ step, frame, signal }: PlanContext): Promise<void> => {
  for (let gone = 1; gone > 0; ) {
    signal.throwIfAborted()
    gone = await step(async (trx) => {
      await lockPipeline(trx, frame.pipelineId)
      return dissolveUnsent(trx, frame)
    })
  }
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
    const upTo = await stepEnd(trx, frame.pipelineId, after, mostUnitsAStep)
    if (upTo !== null) await joinJobs(trx, scope, after, upTo)
    return upTo
  })
}

/** Closes windows older than the look-back whose every unit is loaded, so that neither this planning nor a later one looks at their cells. */
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
