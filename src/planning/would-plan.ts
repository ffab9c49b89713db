// What planning would make of a pipeline now: in a transaction that is taken back, so that lists and definitions as they are now count and nothing stays.
import type { Box, Definition, Window } from '../core/types.ts'
import { showWindow } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { type WaitingApproval, waitingApproval } from '../ledger/approvals.ts'
import { type Backlog, backlogOf } from '../ledger/approved-jobs.ts'
import type { AskReason } from '../ledger/candidates.ts'
import { type PastTimes, type PastUnits, pastTimes, pastUnits } from '../ledger/estimates.ts'
import { joinableJobs } from '../ledger/join-jobs.ts'
import { registerPipeline } from '../ledger/pipelines.ts'
import { changesSince, type PlanChanges } from '../ledger/plan-changes.ts'
import { windowStates } from '../ledger/windows.ts'
import type { Scope } from '../plan/frames.ts'
import { type CountedWindows, countWindows } from './count-windows.ts'
import { boxWith } from './guard-night.ts'
import { type GuardFacts, guardFacts } from './guard-verdict.ts'
import { type PlanContext, planContext, sourceOf } from './plan-context.ts'
import { packStep, reportSteps } from './plan-reports.ts'
import { closeOpen, dissolve, joinScope } from './plan-run.ts'
import { databaseMs } from '../ledger/database-now.ts'
import { type SpentBy, spentBy } from './pace.ts'
import { walksNeeded } from './plan-walks.ts'
import type { Runtime } from '../pipeline/runtime.ts'
import { sampleOf } from './sample-windows.ts'

export interface FoundJob {
  readonly window: Window
  readonly reason: AskReason
  readonly units: number
  /** null: walks of one window. */
  readonly box: Box | null
  readonly isBought: boolean
  readonly isHere: boolean
  /** A job there is asks for it; the guard has passed it. */
  readonly isPlanned: boolean
  /** And a person approved it. */
  readonly isApproved: boolean
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
  readonly changes: PlanChanges
  readonly guard: GuardFacts
  /** What waits for approval already, of nights and of ranges. */
  readonly waiting: readonly WaitingApproval[]
  /** What has a person's word and was not bought yet. */
  readonly backlog: Backlog
  /** Of its pipeline and of its account. */
  readonly spent: SpentBy
  readonly nowMs: number
}

/** Plans in a transaction that is taken back: what lists and definitions have become is seen, and nothing stays. */
export const wouldPlan = async (runtime: Runtime, definition: Definition, scope: Scope, signal: AbortSignal): Promise<Found> => {
  const trx = await runtime.database.kysely.startTransaction().execute()
  try {
    const source = sourceOf(runtime, definition)
    const changes = await changesSince(trx, definition)
    const pipeline = await registerPipeline(trx, definition, source)
    const nowMs = await databaseMs(trx)
    const step: PlanContext['step'] = (work) => work(trx)
    const context = await planContext(trx, await windowStates(trx, pipeline.pipelineId), {
      ...{ runtime, definition, source, pipeline, runId: 0, scope, nowMs, signal, step },
    })
    return { ...(await wouldAsk(trx, context, runtime)), changes, nowMs }
  } finally {
    await trx.rollback().execute()
  }
}

const wouldAsk = async (trx: Db, opened: PlanContext, { settings }: Runtime): Promise<Omit<Found, 'changes' | 'nowMs'>> => {
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
    guard: await guardFacts(trx, context),
    waiting: await waitingOf(trx, frame.pipelineId),
    backlog: await backlogOf(trx, definition.pipeline),
    spent: await spentBy(trx, definition, settings),
  }
}

const waitingOf = async (trx: Db, pipelineId: number): Promise<WaitingApproval[]> => {
  const both = [await waitingApproval(trx, pipelineId, 'night'), await waitingApproval(trx, pipelineId, 'backfill')]
  return both.filter((one) => one !== null)
}

/** A walk nobody asked for yet. */
const fresh = { box: null, isBought: false, isHere: false, isPlanned: false, isApproved: false } as const

const walksOf = async (trx: Db, context: PlanContext, counted: CountedWindows): Promise<FoundJob[]> => {
  const found = (await walksNeeded(trx, context, counted, new Map())).flatMap(({ window, counts }) =>
    counts.filter(({ decision }) => decision === 'ask').map(({ reason, cells }) => ({ window, reason, units: cells, ...fresh })),
  )
  const joined = counted.joined.map(({ window, cells }) => ({
    ...{ window, reason: 'unfinished' as const, units: cells, ...fresh, isPlanned: true },
  }))
  return [...joined, ...found]
}

const reportsOf = async (trx: Db, context: PlanContext, counted: CountedWindows): Promise<FoundJob[]> => {
  const joins = joinScope(context)
  const there = joins === null ? [] : await joinableJobs(trx, joins)
  const found: FoundJob[] = []
  for (const { from, to, sliceIds, units, isBought, isHere, isApproved } of there) {
    const box = await boxWith(trx, context, { from, to, sliceIds })
    found.push({ window: { from, to }, reason: 'unfinished', units, box, isBought, isHere, isPlanned: true, isApproved })
  }
  for (const tasks of (await reportSteps(trx, context, counted)).steps) {
    for (const { from, to, sliceIds, cells, reason, answerId } of (await packStep(trx, context, tasks)).boxes) {
      const box = await boxWith(trx, context, { from, to, sliceIds })
      found.push({
        window: { from, to },
        reason,
        units: cells,
        ...fresh,
        box,
        isBought: answerId !== null,
        isHere: answerId !== null,
      })
    }
  }
  return found
}
