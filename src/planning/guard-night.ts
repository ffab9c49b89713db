// The guard at work: what of a plan may be bought now, and what waits for a person's word (promise 13).
import type { SentRequest } from '../core/sent-request.ts'
import type { Box, Definition } from '../core/types.ts'
import { boxOf } from '../core/unit-key.ts'
import type { Db } from '../db/tables.ts'
import { countApproval, dissolveHeld, noteApproval, openApproval, type ToApprove, waitingApproval } from '../ledger/approvals.ts'
import { approveIn } from '../ledger/approve.ts'
import { trimApproved } from '../ledger/approved-jobs.ts'
import { type AskReason, unusualReasons } from '../ledger/candidates.ts'
import { pastUnits } from '../ledger/estimates.ts'
import { lockPipeline } from '../ledger/pipelines.ts'
import type { BoxToMake } from '../ledger/register-jobs.ts'
import { type RequestRecord, recordRequests } from '../ledger/requests.ts'
import { sliceValues } from '../ledger/slices.ts'
import { guardDigest, type NightVerdict } from '../plan/guard.ts'
import type { Task } from '../plan/steps.ts'
import { guardFacts, isHeldReason, verdictOn } from './guard-verdict.ts'
import type { PlanContext } from './plan-context.ts'
import { type Prices, priceReports } from './price.ts'
import type { Runtime } from '../pipeline/runtime.ts'

/** What the guard makes of a plan's reports. */
export interface NightGuard {
  readonly verdict: NightVerdict | null
  /** Whether anything of it is held. */
  readonly holds: boolean
  /** The boxes of a step with their prices, held where their reasons are. In the step's transaction, under the pipeline's lock. */
  readonly mark: (trx: Db, boxes: readonly BoxToMake[]) => Promise<readonly BoxToMake[]>
}

const buysAll = (verdict: NightVerdict | null, priced: (box: BoxToMake) => BoxToMake): NightGuard => ({
  verdict,
  holds: false,
  mark: async (_, boxes) => boxes.map(priced),
})

/** Reports whose price a night asks for, where it asks at all. */
const mostPricedANight = 5

export const digestOf = ({ definition, pipeline, limits }: PlanContext): string =>
  guardDigest({ generation: pipeline.generation, rule: definition.guard, limits })

/** What was held is planned anew where lists, limits or the guard have changed, or a person names its months; what was approved loses values that left. */
export const dissolveStale = async (context: PlanContext): Promise<void> => {
  const { step, frame, scope, windows, signal } = context
  const { pipelineId, kind } = frame
  if (kind !== 'report') return
  const [first, last] = [windows[0], windows.at(-1)]
  const range = scope.mode === 'range' && first !== undefined && last !== undefined ? { from: first.from, to: last.to } : null
  for (let gone = 1; gone > 0; ) {
    signal.throwIfAborted()
    gone = await step(async (trx) => {
      await lockPipeline(trx, pipelineId)
      if (range !== null) return dissolveHeld(trx, pipelineId, range)
      const waiting = await waitingApproval(trx, pipelineId, 'night')
      return waiting === null || waiting.digest === digestOf(context) ? 0 : dissolveHeld(trx, pipelineId, { kind: 'night' })
    })
  }
  await step(async (trx) => {
    await lockPipeline(trx, pipelineId)
    await trimApproved(trx, pipelineId)
  })
}

/** Who starts a run with `--yes`, or says yes at the terminal, approves what waits already. */
export const approveWaiting = async (
  { consent }: Pick<Runtime, 'consent'>,
  { step, frame, scope }: PlanContext,
): Promise<void> => {
  const by = consent.approvedBy
  if (by === null || frame.kind !== 'report' || scope.mode === 'range') return
  await step((trx) => approveIn(trx, frame.pipelineId, by))
}

/** Asks for prices only where something could be held. */
export const guardPlan = async (
  runtime: Runtime,
  context: PlanContext,
  steps: readonly (readonly Task[])[],
  units: ReadonlyMap<AskReason, number>,
  packed: (db: Db, tasks: readonly Task[]) => Promise<readonly BoxToMake[]>,
): Promise<NightGuard> => {
  const { definition, scope, step } = context
  const rule = definition.guard
  const isAsked =
    rule?.creditsPerNight !== null || (scope.mode === 'due' && [...units.keys()].some((one) => unusualReasons.has(one)))
  if (units.size === 0) return buysAll(null, (box) => box)
  const { kysely } = runtime.database
  const { quota } = await pastUnits(kysely, definition.pipeline)
  if (rule === null || !isAsked) return buysAll(null, quota === null ? (box) => box : pricedAt(quota))
  const price = (await nightPrices(runtime, context, steps, packed)).perUnit ?? quota
  // Where nobody knows a price a unit counts as one credit, so that the guard still tells much from little.
  const perUnit = price ?? 1
  const verdict = verdictOn(await guardFacts(kysely, context), units, perUnit)
  const priced = pricedAt(price)
  if (verdict === null || verdict.holds === 'nothing') return buysAll(verdict, priced)
  const ask = toApprove(context, verdict, units, perUnit)
  const by = runtime.consent.approvedBy
  if (by !== null) {
    await step((trx) => noteApproval(trx, ask, by))
    return buysAll({ ...verdict, holds: 'nothing' }, priced)
  }
  const isHeld = ({ answerId, reason }: BoxToMake): boolean => answerId === null && isHeldReason(verdict.holds, reason)
  return { verdict, holds: true, mark: holding(ask, priced, isHeld) }
}

/**
 * The first step that holds something opens the approval. People decide between steps, and other runs plan: what is held after that belongs to whatever
 * waits then, never to an approval that is over.
 */
const holding = (
  ask: ToApprove,
  priced: (box: BoxToMake) => BoxToMake,
  isHeld: (box: BoxToMake) => boolean,
): NightGuard['mark'] => {
  let isOpened = false
  return async (trx, boxes) => {
    if (!boxes.some(isHeld)) return boxes.map(priced)
    const waiting = isOpened ? await waitingApproval(trx, ask.pipelineId, ask.kind) : null
    const approvalId = waiting?.approvalId ?? (await openApproval(trx, ask))
    isOpened = true
    return boxes.map((box) => (isHeld(box) ? { ...priced(box), approvalId } : priced(box)))
  }
}

/** What is here already costs nothing; without a price it is said to have none. */
const pricedAt =
  (perUnit: number | null) =>
  (box: BoxToMake): BoxToMake => ({
    ...box,
    credits: box.answerId !== null ? 0 : perUnit === null ? null : Math.round(perUnit * box.cells),
  })

const toApprove = (
  context: PlanContext,
  { allowed, holds }: NightVerdict,
  units: ReadonlyMap<AskReason, number>,
  perUnit: number,
): ToApprove => {
  const { frame, scope } = context
  const held = [...units].filter(([reason]) => isHeldReason(holds, reason))
  const count = held.reduce((total, [, cells]) => total + cells, 0)
  return {
    pipelineId: frame.pipelineId,
    kind: scope.mode === 'range' ? 'backfill' : 'night',
    runId: frame.runId,
    digest: digestOf(context),
    allowed,
    reasons: Object.fromEntries(held),
    units: count,
    credits: count * perUnit,
  }
}

/** What was held is counted once all of it is there. */
export const settleApproval = async ({ step, frame }: PlanContext, { holds }: NightGuard): Promise<void> => {
  if (!holds) return
  await step(async (trx) => {
    await lockPipeline(trx, frame.pipelineId)
    await countApproval(trx, frame.pipelineId)
  })
}

const nightPrices = async (
  runtime: Runtime,
  context: PlanContext,
  steps: readonly (readonly Task[])[],
  packed: (db: Db, tasks: readonly Task[]) => Promise<readonly BoxToMake[]>,
): Promise<Prices> => {
  const { definition, frame, signal } = context
  const { kysely } = runtime.database
  const requests: RequestRecord[] = []
  const boxes = (await packed(kysely, steps[0] ?? [])).filter(({ answerId }) => answerId === null)
  const some = boxes.length <= mostPricedANight ? boxes : [...boxes.slice(0, mostPricedANight - 1), ...boxes.slice(-1)]
  const reports = await Promise.all(some.map(async (one) => ({ box: await boxWith(kysely, context, one), units: one.cells })))
  try {
    const record = (request: SentRequest): void => {
      runtime.progress.counters.requests += 1
      requests.push({ ...request, jobId: null, runId: frame.runId, pipelineId: frame.pipelineId, askNumber: null })
    }
    return await priceReports(runtime, definition, reports, { isStrict: false, most: mostPricedANight, signal, record })
  } finally {
    await recordRequests(kysely, requests)
  }
}

/** The box as a source is given it. */
export const boxWith = async (
  db: Db,
  { definition, pipeline }: { readonly definition: Definition; readonly pipeline: { readonly dimensions: readonly string[] } },
  { from, to, sliceIds }: Pick<BoxToMake, 'from' | 'to' | 'sliceIds'>,
): Promise<Box> => {
  const values = await sliceValues(db, sliceIds)
  const slices = sliceIds.map((id) => values.get(id) ?? [])
  const { pipeline: name, version } = definition
  return boxOf({ pipeline: name, version, window: { from, to }, dimensions: pipeline.dimensions, slices })
}
