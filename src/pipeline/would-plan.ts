// What planning would make of a pipeline now: in a transaction that is taken back, so that lists and definitions as they are now count and nothing stays.
import type { Box, Definition, Window } from '../core/types.ts'
import { boxOf } from '../core/unit-key.ts'
import { showWindow } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import type { AskReason } from '../ledger/candidates.ts'
import { type PastTimes, type PastUnits, pastTimes, pastUnits } from '../ledger/estimates.ts'
import { joinableJobs } from '../ledger/join-jobs.ts'
import { registerPipeline } from '../ledger/pipelines.ts'
import { sliceValues } from '../ledger/slices.ts'
import { windowStates } from '../ledger/windows.ts'
import type { Scope } from '../plan/frames.ts'
import { type CountedWindows, countWindows } from './count-windows.ts'
import { type PlanContext, planContext } from './plan-context.ts'
import { packStep, reportSteps } from './plan-reports.ts'
import { closeOpen, databaseMs, dissolve, joinScope, sourceOf } from './plan-run.ts'
import { walksNeeded } from './plan-walks.ts'
import type { Runtime } from './runtime.ts'
import { sampleOf } from './sample-windows.ts'

export interface FoundJob {
  readonly window: Window
  readonly reason: AskReason
  readonly units: number
  /** null: walks of one window. */
  readonly box: Box | null
  readonly isBought: boolean
  readonly isHere: boolean
}

/** Units in scope that need nothing, by why. */
export interface IdleUnits {
  readonly done: number
  readonly held: number
  readonly notPublished: number
  /** Windows that are not published yet, newest first. */
  readonly unpublishedWindows: readonly string[]
}

export interface Found {
  readonly jobs: readonly FoundJob[]
  /** Units that are asked about by sample, one request each. */
  readonly sampled: ReadonlyMap<string, number>
  readonly idle: IdleUnits
  readonly past: PastUnits
  readonly times: PastTimes
}

/** Plans in a transaction that is taken back: what lists and definitions have become is seen, and nothing stays. */
export const wouldPlan = async (runtime: Runtime, definition: Definition, scope: Scope, signal: AbortSignal): Promise<Found> => {
  const trx = await runtime.database.kysely.startTransaction().execute()
  try {
    const source = sourceOf(runtime, definition)
    const pipeline = await registerPipeline(trx, definition, source)
    const nowMs = await databaseMs(trx)
    const step: PlanContext['step'] = (work) => work(trx)
    const context = await planContext(trx, await windowStates(trx, pipeline.pipelineId), {
      ...{ runtime, definition, source, pipeline, runId: 0, scope, nowMs, signal, step },
    })
    return await wouldAsk(trx, context)
  } finally {
    await trx.rollback().execute()
  }
}

const wouldAsk = async (trx: Db, opened: PlanContext): Promise<Found> => {
  await dissolve(opened)
  const context = await closeOpen(trx, opened)
  const { definition, windows, frame, scope } = context
  const counted = countWindows(context)
  const isWalk = frame.kind === 'walk'
  const jobs = isWalk ? await walksOf(trx, context, counted) : await reportsOf(trx, context, counted)
  const sampled = new Map<string, number>()
  if (isWalk && scope.mode === 'due')
    for (const window of windows.filter(({ isInLookBack }) => isInLookBack))
      sampled.set(window.from, (await sampleOf(trx, context, window)).units.length)
  const unpublishedWindows = windows
    .filter(({ isPublished }) => !isPublished)
    .map(showWindow)
    .toReversed()
  return {
    jobs,
    sampled,
    idle: { ...counted.tally, unpublishedWindows },
    past: await pastUnits(trx, definition.pipeline),
    times: await pastTimes(trx, definition.pipeline),
  }
}

const walksOf = async (trx: Db, context: PlanContext, counted: CountedWindows): Promise<FoundJob[]> => {
  const found = (await walksNeeded(trx, context, counted, new Map())).flatMap(({ window, counts }) =>
    counts
      .filter(({ decision }) => decision === 'ask')
      .map(({ reason, cells }) => ({ window, reason, units: cells, box: null, isBought: false, isHere: false })),
  )
  const joined = counted.joined.map(({ window, cells }) => ({
    ...{ window, reason: 'unfinished' as const, units: cells, box: null, isBought: false, isHere: false },
  }))
  return [...joined, ...found]
}

const reportsOf = async (trx: Db, context: PlanContext, counted: CountedWindows): Promise<FoundJob[]> => {
  const joins = joinScope(context)
  const there = joins === null ? [] : await joinableJobs(trx, joins)
  const found: FoundJob[] = []
  for (const { from, to, sliceIds, units, isBought, isHere } of there) {
    const box = await boxWith(trx, context, { from, to }, sliceIds)
    found.push({ window: { from, to }, reason: 'unfinished', units, box, isBought, isHere })
  }
  for (const tasks of await reportSteps(trx, context, counted)) {
    for (const { from, to, sliceIds, cells, reason, answerId } of (await packStep(trx, context, tasks)).boxes) {
      const box = await boxWith(trx, context, { from, to }, sliceIds)
      found.push({ window: { from, to }, reason, units: cells, box, isBought: answerId !== null, isHere: answerId !== null })
    }
  }
  return found
}

const boxWith = async (
  trx: Db,
  { definition, pipeline }: PlanContext,
  window: Window,
  sliceIds: readonly number[],
): Promise<Box> => {
  const values = await sliceValues(trx, sliceIds)
  const slices = sliceIds.map((id) => values.get(id) ?? [])
  return boxOf({ pipeline: definition.pipeline, version: definition.version, window, dimensions: pipeline.dimensions, slices })
}
