// Applies the guard: what of a plan may be bought now, and what waits for approval (promise 13).
import { createHash } from 'node:crypto'
import { requestedBy, approvalDigestPrefix } from '../core/request-digest.ts'
import { accountName } from '../core/source-spec.ts'
import type { Box, Definition } from '../core/types.ts'
import { boxOf } from '../core/unit-key.ts'
import { lockByName } from '../db/named-lock.ts'
import { retryWhileAway } from '../db/retry-while-away.ts'
import type { Db } from '../db/tables.ts'
import {
  approveIn,
  countApproval,
  dissolveChanged,
  dissolveHeld,
  recordApproval,
  openApproval,
  type ToApprove,
  waitingApproval,
} from '../ledger/approvals.ts'
import { trimApproved } from '../ledger/approved-jobs.ts'
import type { AskReason } from '../ledger/candidates.ts'
import type { BoxToMake, Ruling } from '../ledger/register-jobs.ts'
import { type RequestRecord, recordRequests } from '../ledger/requests.ts'
import { sliceValues } from '../ledger/slices.ts'
import { type NightVerdict, guardFacts, heldAskers, type UnitsToBuy, verdictOn } from './guard.ts'
import { type PlanContext, recorder, wholeSpan } from './plan-context.ts'
import type { PlanRuntime } from './plan-runtime.ts'
import { pagePrices, type Prices, priceReports, pricedUnits } from './price.ts'

export interface NightGuard {
  /** Rules on the units that a step is about to ask for; null: more of the former, under the same ruling. Call in the step's transaction, under the pipeline's lock. */
  readonly rule: (trx: Db, units: readonly UnitsToBuy[] | null) => Promise<Ruling>
  /** Whether anything of it was held so far. */
  readonly holds: () => boolean
}

const free = { held: [], approvalId: null, allowed: [] } as const

/** Nothing is held. */
export const noGuard = (credits: number | null): NightGuard => ({ rule: async () => ({ ...free, credits }), holds: () => false })

/** How many reports a night asks the price of, where it asks at all. */
const mostPricedANight = 5

/** Digest of what is asked for, then of all that decides what is held: where it changes, what waits is planned again. */
const digestOf = ({ definition, source, pipeline, limits }: PlanContext): string => {
  const { from, publication } = definition.window
  const rules = JSON.stringify({
    generation: pipeline.generation,
    rule: definition.guard,
    limits,
    from,
    until: publication.until,
  })
  return [approvalDigestPrefix(requestedBy(definition, source.kind)), createHash('sha256').update(rules).digest('hex')].join('\n')
}

/** Dissolves held jobs where lists, limits, the guard or what is asked for have changed, or a person names their months: they are planned again. Then `renewApproved`. */
export const dissolveStale = async (context: PlanContext): Promise<number> => {
  const { locked, frame, scope, cells } = context
  const { pipelineId } = frame
  const span = scope.mode === 'range' ? wholeSpan(context) : null
  const range = span && { ...span, only: cells.only }
  for (let gone = 1; gone > 0; )
    gone = await locked(async (trx) => {
      if (range !== null) return dissolveHeld(trx, pipelineId, range)
      const waiting = await waitingApproval(trx, pipelineId, 'night')
      return waiting === null || waiting.digest === digestOf(context) ? 0 : dissolveHeld(trx, pipelineId, { kind: 'night' })
    })
  return renewApproved(context)
}

/** Dissolves approved jobs that ask for more by now, to be planned again, and cuts values that left the lists. Returns how many ask for more. */
export const renewApproved = ({ locked, frame, definition, source }: PlanContext): Promise<number> =>
  locked(async (trx) => {
    const changed = await dissolveChanged(trx, frame.pipelineId, requestedBy(definition, source.kind))
    await trimApproved(trx, frame.pipelineId)
    return changed
  })

/** A run with `--yes`, or a yes at the terminal, approves what waits already. */
export const approveWaiting = async (
  { consent }: Pick<PlanRuntime, 'consent'>,
  { step, frame, scope }: PlanContext,
): Promise<void> => {
  const by = consent.approvedBy
  if (by === null || scope.mode === 'range') return
  await step((trx) => approveIn(trx, frame.pipelineId, by))
}

/** What a unit of the plan costs; null: unknown. @param isAsked whether to ask the service, where that is free; else earlier bills decide */
type UnitPrice = (isAsked: boolean) => Promise<number | null>

/** Asks for prices only where something could be held. */
export const guardPlan = async (
  { consent }: Pick<PlanRuntime, 'consent'>,
  context: PlanContext,
  units: readonly UnitsToBuy[],
  price: UnitPrice,
): Promise<NightGuard> => {
  const { definition, scope } = context
  const rule = definition.guard
  if (units.length === 0) return noGuard(null)
  const isBeyond = scope.mode === 'due' && units.some(({ wantedBy }) => wantedBy === 'beyond')
  const mayHold = rule !== null && (rule.creditsPerNight !== null || isBeyond)
  const credits = await price(mayHold)
  return mayHold ? guarding(context, units, credits, consent.approvedBy) : noGuard(credits)
}

/**
 * Judges the rest of the plan again at each step, so that what other processes have bought or planned for the account by then counts: its planners take turns
 * under one lock. @param by the person who approved what would be held; null: none
 */
const guarding = (context: PlanContext, units: readonly UnitsToBuy[], credits: number | null, by: string | null): NightGuard => {
  const { definition, scope } = context
  const left = [...units]
  let isOpened = false
  let last: ToApprove | null = null
  let held: Ruling['held'] = []
  const askWord = async (trx: Db, asked: readonly UnitsToBuy[]): Promise<ToApprove | null> => {
    await lockByName(trx, `guard of ${accountName(definition)}`)
    const verdict = verdictOn(await guardFacts(trx, context), left, credits)
    // What was held once stays held: an approval given since does not cover the rest, which needs its own.
    const before = isOpened ? held : []
    held = [...before, ...(verdict === null ? [] : heldAskers(verdict, scope.mode)).filter((one) => !before.includes(one))]
    const waiting = left.filter(({ wantedBy }) => held.includes(wantedBy))
    left.push(...asked.map((one) => ({ ...one, units: -one.units })))
    const isHeld = asked.some(({ wantedBy }) => held.includes(wantedBy))
    return verdict === null || !isHeld ? null : toApprove(context, verdict, waiting, credits ?? 1)
  }
  const rule: NightGuard['rule'] = async (trx, asked) => {
    if (asked !== null) last = await askWord(trx, asked)
    if (last === null) return { ...free, credits }
    const isFirst = !isOpened
    isOpened = true
    if (by === null) return { held, approvalId: await approvalFor(trx, last, isFirst), allowed: [], credits }
    if (isFirst) await recordApproval(trx, last, by)
    return { ...free, allowed: held, credits }
  }
  return { rule, holds: () => isOpened && by === null }
}

/**
 * The first step that holds something opens the approval. Between steps people decide and other runs plan: later steps add to the approval that waits then,
 * never to one that is decided.
 */
const approvalFor = async (trx: Db, ask: ToApprove, isFirst: boolean): Promise<string> => {
  const waiting = isFirst ? null : await waitingApproval(trx, ask.pipelineId, ask.kind)
  return waiting?.approvalId ?? openApproval(trx, ask)
}

const toApprove = (context: PlanContext, { allowed }: NightVerdict, held: readonly UnitsToBuy[], perUnit: number): ToApprove => {
  const { frame, scope } = context
  const reasons: Partial<Record<AskReason, number>> = {}
  for (const { reason, units } of held) reasons[reason] = (reasons[reason] ?? 0) + units
  const units = held.reduce((total, one) => total + one.units, 0)
  return {
    pipelineId: frame.pipelineId,
    kind: scope.mode === 'range' ? 'backfill' : 'night',
    runId: frame.runId,
    digest: digestOf(context),
    ...{ allowed, reasons, units },
    credits: units * perUnit,
  }
}

/** Counts what was held once the plan is complete. */
export const settleApproval = async ({ locked, frame }: PlanContext, { holds }: NightGuard): Promise<void> => {
  if (holds()) await locked((trx) => countApproval(trx, frame.pipelineId))
}

/** Price of a walk's unit by bills, for as many pages as units took so far. */
export const pagePrice =
  (runtime: PlanRuntime, context: PlanContext): UnitPrice =>
  async () =>
    context.source.billing === undefined
      ? 0
      : ((await pagePrices(runtime.database.kysely, runtime, context)).unit?.likely ?? null)

/** @param packed the reports of the first step */
export const reportPrice =
  (runtime: PlanRuntime, context: PlanContext, packed: Packed): UnitPrice =>
  async (isAsked) =>
    (isAsked ? (await nightPrices(runtime, context, packed)).perUnit : null) ??
    (await pricedUnits(runtime.database.kysely, runtime, context)).quota

type Packed = (db: Db) => Promise<readonly BoxToMake[]>

const nightPrices = async (runtime: PlanRuntime, context: PlanContext, packed: Packed): Promise<Prices> => {
  const { definition, frame, signal } = context
  const { kysely } = runtime.database
  const requests: RequestRecord[] = []
  const boxes = (await packed(kysely)).filter(({ answerId }) => answerId === null)
  const some = boxes.length <= mostPricedANight ? boxes : [...boxes.slice(0, mostPricedANight - 1), ...boxes.slice(-1)]
  const reports = await Promise.all(some.map(async (one) => ({ box: await boxWith(kysely, context, one), units: one.cells })))
  try {
    const record = recorder(runtime, frame, requests)
    return await priceReports(runtime, definition, reports, { isStrict: false, most: mostPricedANight, signal, record })
  } finally {
    await retryWhileAway(runtime, signal, () => recordRequests(kysely, requests))
  }
}

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
