// What planning would make of a pipeline now: in a transaction that is taken back, so that lists and definitions as they are now count and nothing stays.
import type { Box, Definition, Window } from '../core/types.ts'
import { showWindow } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { type WaitingApproval, waitingApproval } from '../ledger/approvals.ts'
import { type Backlog, backlogOf } from '../ledger/approved-jobs.ts'
import { type BreakLine, breakLines } from '../ledger/breaks.ts'
import type { AskReason } from '../ledger/candidates.ts'
import type { WantedBy } from '../ledger/guard-usual.ts'
import { databaseMs } from '../db/database-clock.ts'
import { type PastTimes, type PastUnits, pastTimes } from '../ledger/prices.ts'
import { joinableJobs } from '../ledger/join-jobs.ts'
import { registerPipeline } from '../ledger/pipelines.ts'
import { changesSince, type PlanChanges } from '../ledger/plan-changes.ts'
import { windowStates, windowsNotYet } from '../ledger/windows.ts'
import type { Scope } from './frames.ts'
import { boxWith, type NightGuard } from './guard-night.ts'
import { type GuardFacts, guardFacts } from './guard.ts'
import { type SpentBy, spentBy } from './pace-backfill.ts'
import { type PlanContext, planContext, sourceOf } from './plan-context.ts'
import { askForReports, askForWalks, packStep } from './plan-reports.ts'
import { dissolve, findNeeds, joinScope, judgeAgain, type Needs } from './plan-run.ts'
import type { PlanRuntime } from './plan-runtime.ts'
import { pricedUnits } from './price.ts'
import { sampleOf } from './sample-windows.ts'

export interface FoundJob {
  readonly window: Window
  readonly reason: AskReason
  readonly wantedBy: WantedBy
  readonly units: number
  /** null: walks of one window. */
  readonly box: Box | null
  readonly isBought: boolean
  readonly isHere: boolean
  /** A job there is asks for it; the guard has passed it. */
  readonly isPlanned: boolean
  /** And a person approved it. */
  readonly isApproved: boolean
  /** The service has said that it is not published: it is asked again, and nothing can be bought by that. */
  readonly isNotYet?: boolean
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
  /** Breaks of late with months before them that follow the former method. */
  readonly breaks: readonly BreakLine[]
  readonly nowMs: number
}

/**
 * Plans in a transaction that is taken back: what lists and definitions have become is seen, and nothing stays. @param definitions that may ask the same:
 * what one of them would ask for serves those that follow
 */
export const wouldPlan = async (
  runtime: PlanRuntime,
  definitions: readonly Definition[],
  scope: Scope,
  signal: AbortSignal,
): Promise<Found[]> => {
  const trx = await runtime.database.kysely.startTransaction().execute()
  try {
    const found: Found[] = []
    for (const definition of definitions)
      found.push(await wouldPlanOne(trx, runtime, { definition, scope, signal, isLast: definition === definitions.at(-1) }))
    return found
  } finally {
    await trx.rollback().execute()
  }
}

interface WouldPlan {
  readonly definition: Definition
  readonly scope: Scope
  readonly signal: AbortSignal
  /** Whom its jobs could serve is not looked for. */
  readonly isLast: boolean
}

const wouldPlanOne = async (trx: Db, runtime: PlanRuntime, { definition, scope, signal, isLast }: WouldPlan): Promise<Found> => {
  const source = sourceOf(runtime, definition)
  const changes = await changesSince(trx, definition)
  const pipeline = await registerPipeline(trx, definition, source)
  const nowMs = await databaseMs(trx)
  const step: PlanContext['step'] = (work) => work(trx)
  const context = await planContext(trx, await windowStates(trx, pipeline.pipelineId), {
    ...{ runtime, definition, source, pipeline, runId: 0, scope, nowMs, signal, step },
  })
  return { ...(await wouldAsk(trx, context, runtime, isLast)), changes, nowMs }
}

/** So long after a break a plan offers the months before it. */
const offered = '92 days'

const noGuard: NightGuard = { holds: () => false, rule: async () => ({ held: [], approvalId: null, allowed: [], credits: null }) }

const wouldAsk = async (
  trx: Db,
  opened: PlanContext,
  runtime: PlanRuntime,
  isLast: boolean,
): Promise<Omit<Found, 'changes' | 'nowMs'>> => {
  await judgeAgain(opened)
  await dissolve(opened)
  // The service is not asked: units of the look-back are counted as those that would be sampled.
  const sampled = new Map<string, number>()
  const needs = await findNeeds(trx, opened, async (context) => {
    for (const window of context.windows.filter(({ isInLookBack }) => isInLookBack))
      sampled.set(window.from, (await sampleOf(trx, context, window)).units.length)
    return new Map()
  })
  const { context, counted } = needs
  const { definition, windows, frame } = context
  const unpublished = windows.filter(({ isPublished }) => !isPublished).toReversed()
  const found = frame.kind === 'walk' ? walksOf(needs) : await reportsOf(trx, needs)
  const notYet = await windowsNotYet(trx, frame.pipelineId, definition.window.publication.released?.availableTo ?? null)
  const jobs = found.map((job) => ({ ...job, isNotYet: notYet.has(job.window.from) && !job.isBought }))
  const facts = {
    jobs,
    sampled,
    idle: { ...counted.tally, unpublishedWindows: unpublished.map(showWindow) },
    past: await pricedUnits(trx, runtime, context),
    times: await pastTimes(trx, definition.pipeline),
    guard: await guardFacts(trx, context),
    waiting: await waitingOf(trx, frame.pipelineId),
    backlog: await backlogOf(trx, definition.pipeline),
    spent: await spentBy(trx, definition, runtime.settings),
    breaks: (await breakLines(trx, offered)).filter(
      ({ pipeline, version }) => pipeline === definition.pipeline && version === definition.version,
    ),
  }
  if (!isLast) {
    for (const walks of needs.walks) await askForWalks(context, walks, noGuard)
    for (const tasks of needs.reports.steps) await askForReports(context, tasks, noGuard, needs.reports.left)
  }
  return facts
}

const waitingOf = async (trx: Db, pipelineId: number): Promise<WaitingApproval[]> => {
  const both = [await waitingApproval(trx, pipelineId, 'night'), await waitingApproval(trx, pipelineId, 'backfill')]
  return both.filter((one) => one !== null)
}

/** A walk not asked for yet. */
const fresh = { box: null, isBought: false, isHere: false, isPlanned: false, isApproved: false } as const

const walksOf = ({ counted, walks }: Needs): FoundJob[] => [
  ...counted.joined.map(({ window, cells }) => ({
    ...{ window, reason: 'unfinished' as const, wantedBy: 'night' as const, units: cells, ...fresh, isPlanned: true },
  })),
  ...walks.flatMap(({ window, counts }) =>
    counts.flatMap(({ reason, wantedBy, served, cells }) =>
      wantedBy === null ? [] : [{ window, reason, wantedBy, units: cells, ...fresh, isBought: served, isHere: served }],
    ),
  ),
]

const reportsOf = async (trx: Db, { context, reports }: Needs): Promise<FoundJob[]> => {
  const joins = joinScope(context)
  const found: FoundJob[] = []
  for (const { from, to, sliceIds, ...job } of joins === null ? [] : await joinableJobs(trx, joins)) {
    const box = await boxWith(trx, context, { from, to, sliceIds })
    found.push({ window: { from, to }, reason: 'unfinished', wantedBy: 'night', box, isPlanned: true, ...job })
  }
  for (const tasks of reports.steps) {
    for (const { from, to, sliceIds, cells, reason, wantedBy, answerId, servedBy } of await packStep(trx, context, tasks)) {
      const box = await boxWith(trx, context, { from, to, sliceIds })
      const isHere = answerId !== null || servedBy !== null
      found.push({ window: { from, to }, reason, wantedBy, units: cells, ...fresh, box, isBought: isHere, isHere })
    }
  }
  return found
}
