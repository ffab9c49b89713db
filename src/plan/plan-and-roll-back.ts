// What planning would make of a pipeline now: in a transaction that is rolled back, so that present lists and definitions count and nothing stays.
import { requestDigest } from '../core/request-digest.ts'
import { sum } from '../core/counted.ts'
import type { Box, Definition, Window } from '../core/types.ts'
import { showWindow } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { waitingApproval } from '../ledger/approvals.ts'
import { backlogOf } from '../ledger/approved-jobs.ts'
import { breakLines } from '../ledger/breaks.ts'
import { databaseMs } from '../db/database-clock.ts'
import { pastTimes } from '../ledger/prices.ts'
import { joinableJobs } from '../ledger/join-jobs.ts'
import { lockQuestion, lockVersions, registerPipeline } from '../ledger/pipelines.ts'
import { changesSince } from '../ledger/plan-changes.ts'
import { countSettled, windowStates, windowsNotYet } from '../ledger/windows.ts'
import type { Scope } from './frames.ts'
import { boxWith, noGuard } from './guard-night.ts'
import { guardFacts, type UnitsToBuy } from './guard.ts'
import { spentBy } from './spread-backfill.ts'
import { type PlanContext, planContext, sourceOf } from './plan-context.ts'
import { askForReports, packStep } from './plan-reports.ts'
import { askForWalks } from './plan-walks.ts'
import { findNeeds, joinScope, type Needs, settleFormer } from './plan-run.ts'
import type { PlanRuntime } from './plan-runtime.ts'
import { pricedUnits } from './price.ts'
import { sampleOf } from './sample-windows.ts'

export interface FoundJob extends UnitsToBuy {
  readonly window: Window
  /** null: walks of one window. */
  readonly box: Box | null
  readonly isBought: boolean
  readonly isHere: boolean
  /** An existing job asks for it, and the guard has passed that job. */
  readonly isPlanned: boolean
  /** A person approved that job. */
  readonly isApproved: boolean
  readonly isOver?: boolean
  /** The service has said that it is not published: the next request for it can buy nothing. */
  readonly isNotYet?: boolean
}

export type Found = Awaited<ReturnType<typeof planOne>>

/**
 * Plans in a transaction that is rolled back: it sees present lists and definitions, and nothing stays. @param definitions may ask the same: what one
 * would ask for serves those that follow
 */
export const planAndRollBack = async (
  runtime: PlanRuntime,
  definitions: readonly Definition[],
  scope: Scope,
  signal: AbortSignal,
): Promise<Found[]> => {
  const trx = await runtime.database.kysely.startTransaction().execute()
  try {
    const found: Found[] = []
    // Planners release their locks with each step; here they last, so all are taken at once, in order: else two processes could wait for each other.
    for (const asks of new Set(definitions.map(requestDigest))) await lockQuestion(trx, asks)
    const names = definitions.map(({ pipeline }) => pipeline)
    await lockVersions(trx, names)
    for (const definition of definitions)
      found.push(await planOne(trx, runtime, { definition, scope, signal, isLast: definition === definitions.at(-1) }))
    return found
  } finally {
    await trx.rollback().execute()
  }
}

/** @param isLast no later definition can be served by its jobs, so that they need not be made */
const planOne = async (
  trx: Db,
  runtime: PlanRuntime,
  { isLast, ...asked }: Pick<PlanContext, 'definition' | 'scope' | 'signal'> & { readonly isLast: boolean },
) => {
  const { definition } = asked
  const source = sourceOf(runtime, definition)
  const changes = await changesSince(trx, definition)
  const pipeline = await registerPipeline(trx, definition, source)
  const nowMs = await databaseMs(trx)
  const context = await planContext(trx, await windowStates(trx, pipeline.pipelineId), {
    ...{ ...asked, runtime, source, pipeline, runId: 0, nowMs, step: (work) => work(trx) },
  })
  return { ...(await wouldAsk(trx, context, runtime, isLast)), changes, nowMs }
}

/** How long after a break a plan offers the months before it. */
const offered = '92 days'

const wouldAsk = async (trx: Db, opened: PlanContext, runtime: PlanRuntime, isLast: boolean) => {
  await settleFormer(runtime, opened)
  // The service is not asked: this counts the units of the look-back that would be sampled.
  const sampled = new Map<string, number>()
  let behindSamples = 0
  const needs = await findNeeds(trx, opened, async (context) => {
    for (const { from, ...window } of context.windows.filter(({ isInLookBack }) => isInLookBack)) {
      const { units, isWhole } = await sampleOf(trx, context, { from, ...window })
      sampled.set(from, units.length)
      if (!isWhole) behindSamples += await countSettled(trx, context.frame.pipelineId, from)
    }
    return new Map()
  })
  const { context, counted } = needs
  const { definition, windows, frame } = context
  const unpublished = windows.filter(({ isPublished }) => !isPublished).toReversed()
  const found = frame.kind === 'walk' ? walksOf(needs) : await reportsOf(trx, needs)
  const over = found.filter(({ isOver }) => isOver === true)
  const notYet = await windowsNotYet(trx, frame.pipelineId, definition.window.publication.released?.availableTo ?? null)
  const toDo = found.filter((job) => !over.includes(job))
  const jobs = toDo.map((job): FoundJob => ({ ...job, isNotYet: notYet.has(job.window.from) && !job.isBought }))
  // A range ignores what waits of nights.
  const kinds = context.scope.mode === 'range' ? (['backfill'] as const) : (['night', 'backfill'] as const)
  const both: Awaited<ReturnType<typeof waitingApproval>>[] = []
  for (const kind of kinds) both.push(await waitingApproval(trx, frame.pipelineId, kind))
  const facts = {
    jobs,
    /** Units that are asked about by sample, one request each. */
    sampled,
    /** Loaded units of sampled windows: where the sample has changed, all of them are asked for. */
    behindSamples,
    /** Units in scope that need nothing, by why; windows that are not published yet, newest first. */
    idle: { ...counted.tally, failed: sum(over, 'units'), unpublishedWindows: unpublished.map(showWindow) },
    past: await pricedUnits(trx, runtime, context),
    times: await pastTimes(trx, definition.pipeline),
    guard: await guardFacts(trx, context),
    waiting: both.filter((one) => one !== null),
    backlog: await backlogOf(trx, definition),
    spent: await spentBy(trx, definition, runtime.settings),
    /** Recent breaks with months before them that follow the former method. */
    breaks: (await breakLines(trx, offered)).filter(
      ({ pipeline, version }) => pipeline === definition.pipeline && version === definition.version,
    ),
  }
  if (!isLast) {
    for (const walks of needs.walks) await askForWalks(context, walks, noGuard(null))
    for (const tasks of needs.reports.steps) await askForReports(context, tasks, noGuard(null), needs.reports.left)
  }
  return facts
}

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
