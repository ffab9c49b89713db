// Checks whether the service has released anything new for the windows of the look-back, by a few units each, so that a quiet night costs a few requests.
import { once } from '../core/clock.ts'
import { type EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { multiplyRange } from '../core/learned-price.ts'
import { isSameFingerprint, maskedFingerprint } from '../core/completeness.ts'
import type { IsoDate } from '../core/types.ts'
import { showWindow } from '../core/window.ts'
import { boxOf } from '../core/unit-key.ts'
import type { Db } from '../db/tables.ts'
import { retryWhileAway } from '../db/retry-while-away.ts'
import type { ProbeContext, Source } from '../extract/source.ts'
import { hasBudget, type Payer, reserveForPlanning } from '../ledger/budget.ts'
import { countCells, noRefresh, type Refresh } from '../ledger/candidates.ts'
import { priceKnown } from '../ledger/prices.ts'
import { setPlanningReserve } from '../ledger/request-credits.ts'
import { type RequestRecord, recordRequests } from '../ledger/requests.ts'
import { readIdentity } from '../ledger/warehouse.ts'
import { noteUnchangedWindow, noteUnchangedUnits, type SampledUnit, sampleUnits, unrefreshedUnits } from '../ledger/windows.ts'
import type { PlanWindow } from './frames.ts'
import { askOf, probeContext, payerOf, type PlanContext, priceSubject, recorder } from './plan-context.ts'
import type { PlanRuntime } from './plan-runtime.ts'
import { probePrice, pagePrices } from './price.ts'

/** Units asked about in a window on a usual night. */
const usualSample = 2
/** The same after a day on which the service may have published or restated. */
const largeSample = 20

/**
 * Asks the service about a few loaded units of each window of the look-back. Where none has changed, the whole window counts as unchanged and only its
 * `looked_at` is written; where one has, the service is to be asked about every loaded unit. Units that could not be checked are left to their own jobs.
 * `refreshes`: which loaded units of each window are asked for again. Older windows whose full check is due are sampled, too: where one was restated,
 * reading the others may cost as much as loading them did (promise 13).
 * A copy that no person has declared restored or a clone yet sends no paid request.
 */
export const sampleWindows = async (runtime: PlanRuntime, context: PlanContext) => {
  const refreshes = new Map<IsoDate, Refresh>()
  const { kysely } = runtime.database
  const before = runtime.progress.counters.requests
  // A check costs as much as a page.
  if (context.source.billing !== undefined && (await readIdentity(kysely)).standing !== 'own') return { refreshes, requests: 0 }
  const told = once(({ code, message }: EtlError) => runtime.progress.emit({ event: 'notice', code, message }))
  for (const window of context.windows.filter(({ isInLookBack }) => isInLookBack)) {
    context.signal.throwIfAborted()
    const refresh = await sampleWindow(runtime, context, window, told)
    if (refresh === null) continue
    refreshes.set(window.from, refresh)
    if (!refresh.all && refresh.sliceIds.length === 0) await noteUnchangedWindow(kysely, context.frame.pipelineId, window.from)
  }
  const { fullCheck } = context
  const overdue = await context.overdue()
  // Newest first; what the windows of the look-back are about to cost is kept for them.
  const older = context.windows.filter(({ from, isInLookBack }) => !isInLookBack && overdue.has(from)).toReversed()
  const kept = older.length === 0 ? 0 : await newerNeed(runtime, context, refreshes)
  for (const window of older) {
    context.signal.throwIfAborted()
    const refresh = await sampleWindow(runtime, context, window, told, kept)
    if (fullCheck !== null && refresh !== null && refresh.releases.length > 0)
      refreshes.set(window.from, { ...noRefresh, fullCheck: { ...fullCheck, isRestated: true } })
  }
  return { refreshes, requests: runtime.progress.counters.requests - before }
}

/** Credits that the units of the look-back need; 0: none, or unknown. */
const newerNeed = async (runtime: PlanRuntime, context: PlanContext, refreshes: ReadonlyMap<IsoDate, Refresh>) => {
  if (budgetOf(runtime, context) === null) return 0
  const { kysely } = runtime.database
  let units = 0
  for (const window of context.windows.filter(({ isInLookBack }) => isInLookBack)) {
    const ask = askOf(context, window, refreshes.get(window.from) ?? noRefresh)
    for (const { decision, served, cells } of await countCells(kysely, context.cells, ask))
      if (!served && (decision === 'ask' || decision === 'join')) units += cells
  }
  return units * ((await pagePrices(kysely, runtime, context)).unit?.likely ?? 0)
}

/** null: nothing of the window is loaded, or the check is beyond a budget. @param refused gets the budget's error @param kept credits to leave for other windows */
const sampleWindow = async (
  runtime: PlanRuntime,
  context: PlanContext,
  window: PlanWindow,
  refused: (error: EtlError) => void,
  kept = 0,
): Promise<Refresh | null> => {
  const { kysely } = runtime.database
  const { pipelineId } = context.frame
  const { units, isWhole } = await sampleOf(kysely, context, window)
  if (units.length === 0) return null
  // Units without a release that other units of the window have are due; no sample is needed to know that.
  const behind = window.isInLookBack ? await unrefreshedUnits(kysely, pipelineId, window.from) : []
  const { probe } = context.source
  const known = units.filter(({ fingerprint }) => fingerprint.lastUpdated !== null)
  if (probe === undefined || known.length === 0) return { ...noRefresh, all: true }
  const verdicts = await withinBudget(runtime, context, window, { questions: known.length, kept }, (probing) =>
    inBatches(known, context.definition.limits.concurrency, (unit) => probed(probe, unit, context, window, probing)),
  ).catch((error: unknown) => {
    if (!isEtlError(error) || (error.code !== 'QUOTA_EXHAUSTED' && error.code !== 'REPORT_PENDING')) throw error
    refused(error)
    return null
  })
  if (verdicts === null) return behind.length === 0 ? null : { ...noRefresh, sliceIds: behind }
  const stood = known.filter((_, index) => verdicts[index]?.verdict === 'stands').map(({ sliceId }) => sliceId)
  // This was their full check: no job should pay for it again.
  if (!window.isInLookBack) await noteUnchangedUnits(kysely, pipelineId, window.from, stood)
  const changed = verdicts.filter(({ verdict }) => verdict === 'changed')
  const releases = [...new Set(changed.flatMap(({ release }) => release ?? []))]
  if (changed.length > 0 && !isWhole) return { ...noRefresh, all: true, releases }
  const seen = units.filter((unit) => known.includes(unit) || isWhole).map(({ sliceId }) => sliceId)
  return { ...noRefresh, sliceIds: [...new Set([...behind, ...seen.filter((id) => !stood.includes(id))])], releases }
}

/** Reserves the credits of so many checks while they are made. Throws as reserveBudget. */
const withinBudget = async <T>(
  runtime: PlanRuntime,
  context: PlanContext,
  window: PlanWindow,
  { questions, kept }: { readonly questions: number; readonly kept: number },
  ask: (probing: ProbeContext) => Promise<T>,
): Promise<T> => {
  const { definition, source, frame, signal } = context
  const { kysely } = runtime.database
  const subject = priceSubject(runtime, definition, source)
  const payer = budgetOf(runtime, context)
  if (payer !== null) {
    const estimated = multiplyRange(probePrice(await priceKnown(kysely, subject)), questions)?.high ?? null
    const unitKey = `${definition.pipeline}, to check whether ${showWindow(window)} was restated${kept > 0 ? ' (credits for newer months included)' : ''}`
    await reserveForPlanning(kysely, frame, { ...payer, estimated, isBlind: estimated === null, unitKey }, kept)
  }
  const requests: RequestRecord[] = []
  const record = recorder(runtime, frame, requests, subject)
  try {
    return await ask(probeContext(runtime, definition, { signal, lane: String(frame.runId), record }))
  } finally {
    await retryWhileAway(runtime, signal, async () => {
      await recordRequests(kysely, requests)
      if (payer !== null) await setPlanningReserve(kysely, { ...frame, account: payer.account }, 0)
    })
  }
}

/** The budgets of the checks, with the night's limit among them: a night checks for no more than it may buy. null: there is no limit. */
const budgetOf = (runtime: PlanRuntime, { definition, source }: PlanContext): Payer | null => {
  const { pipeline, guard } = definition
  const payer = payerOf(runtime, definition)
  const perNight = guard?.creditsPerNight ?? null
  const setting = { perMonth: `limits.quota_per_month of ${pipeline}`, perDay: `guard.credits_per_night of ${pipeline}` }
  const isLess = perNight !== null && perNight < (payer.budget.perDay ?? Number.POSITIVE_INFINITY)
  const bounded = isLess ? { ...payer, budget: { ...payer.budget, perDay: perNight, setting } } : payer
  return source.billing !== undefined && hasBudget(bounded) ? bounded : null
}

/** Which units of the window are sampled: others each night, and more where the service may have restated since they were last found unchanged. */
export const sampleOf = async (
  db: Db,
  { frame, states, nowMs, restatedAt, fullCheck }: PlanContext,
  { from, isInLookBack }: PlanWindow,
) => {
  const turn = (Math.floor(nowMs / 86_400_000) * 0.618_034) % 1
  const few = await sampleUnits(db, frame.pipelineId, from, { most: usualSample, turn, check: isInLookBack ? null : fullCheck })
  if (!isInLookBack) return few
  const stoodAt = Math.min(...few.units.map(({ stoodAtMs }) => stoodAtMs))
  const since = Math.max(states.get(from)?.lookedAtMs ?? 0, few.units.length === 0 ? nowMs : stoodAt)
  if (since >= Date.parse(restatedAt) || few.isWhole) return few
  return sampleUnits(db, frame.pipelineId, from, { most: largeSample, turn })
}

/** `release`: when the service last changed the unit, as it is recorded. */
const probed = async (
  probe: NonNullable<Source['probe']>,
  unit: SampledUnit,
  { definition, pipeline, signal }: PlanContext,
  window: PlanWindow,
  probing: ProbeContext,
): Promise<{ readonly verdict: 'stands' | 'changed' | 'failed'; readonly release?: string | null }> => {
  try {
    const box = boxOf({ ...definition, window, dimensions: pipeline.dimensions, slices: [unit.values] })
    const now = await probe({ definition, box }, probing)
    if (now !== null && isSameFingerprint(now, unit.fingerprint)) return { verdict: 'stands' }
    return { verdict: 'changed', release: now === null ? null : maskedFingerprint(now).lastUpdated }
  } catch (error) {
    signal.throwIfAborted()
    probing.log.warn(
      { pipeline: definition.pipeline, window: window.from, error: messageOf(error) },
      'a unit could not be checked',
    )
    return { verdict: 'failed' }
  }
}

/** Results in the order of the items, at most so many at once. */
export const inBatches = async <Item, Result>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> => {
  const results: Result[] = []
  for (let start = 0; start < items.length; start += atOnce)
    results.push(...(await Promise.all(items.slice(start, start + atOnce).map(work))))
  return results
}
