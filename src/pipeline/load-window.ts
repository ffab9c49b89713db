// The one transaction of a window: merge, quarantine, load record, unit pointers and, with the last window, the job commit together or not at all.
import { EtlError } from '../core/errors.ts'
import { type RowCounts, type Window, zeroCounts } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { Session } from '../db/session.ts'
import { lockJob } from '../ledger/hold.ts'
import { lastLoadOf, recordLoad, slicesOf } from '../ledger/loads.ts'
import { supersedeReplaced } from '../ledger/quarantine.ts'
import { recordRequests } from '../ledger/requests.ts'
import { finishJob } from '../ledger/settle-job.ts'
import { recordTests, releasedBefore } from '../ledger/test-failures.ts'
import { passOver } from '../ledger/units.ts'
import { addDimensions } from '../load/dimensions.ts'
import { countRemoved } from '../load/duplicates.ts'
import { anotherWay } from '../load/another-way.ts'
import { largeRows, mergeAnswer } from '../load/merge.ts'
import type { MergeRequest, MergeResult } from '../load/merge-context.ts'
import type { MergeScope } from '../load/merge-scope.ts'
import { emptyMonthOf, ensurePartitions, ensureStatistics } from '../load/partition.ts'
import { refreshSummaries } from '../load/summaries.ts'
import { holdBack, quarantine, refusedOf, type UnitRefused } from './hold-back.ts'
import type { JobWork } from './job-work.ts'
import { driftOf } from './load-input.ts'
import type { LoadResult } from './load-result.ts'
import { proofOfLoad } from './proof-of-load.ts'
import { takeUnits } from './take-units.ts'
import type { Taken, WindowOrder } from './window-order.ts'

/** Throws FENCED where the job is somebody else's by now. */
export const loadWindow = async (work: JobWork, session: Session, order: WindowOrder): Promise<LoadResult> => {
  const { definition, requests } = work
  const mayFill = order.refused.length === 0 && order.repeated !== 'likely'
  const emptyMonth = mayFill ? await emptyMonthOf(session, definition, order.window, rowsToFill(order)) : null
  if (emptyMonth === null) {
    await ensurePartitions(session, definition, order.window)
    if (order.accepted !== null || order.rows > largeRows) await ensureStatistics(session, definition, order.window)
  }
  const known = [...requests]
  const result = await session.kysely.transaction().execute(async (trx) => {
    const inside = { ...session, kysely: trx }
    await lockJob(trx, work.claim)
    const taken = await takeUnits(inside, work, order)
    if (order.isUnsurveyed === true && taken.skipped > 0) throw anotherWay(taken.scope, 'some units hold a newer answer')
    const loaded = taken.accepted === 0 ? nothingOf(taken) : await loadTaken(work, inside, order, taken, emptyMonth)
    if (taken.skipped > 0) await passOver(trx, taken.share)
    if (order.isLast) await finish(trx, work, order, taken, known)
    return loaded
  })
  // A rolled back load leaves them to whoever settles the job.
  if (order.isLast) requests.splice(0, known.length)
  return result
}

/** A month that is filled already is worth it however few its rows are. */
const rowsToFill = ({ filling, rows }: WindowOrder): number => (filling === undefined ? rows : Number.POSITIVE_INFINITY)

const nothingOf = ({ skipped }: Taken): LoadResult => ({
  ...zeroCounts(),
  unitsLoaded: 0,
  unitsHeld: 0,
  heldBecause: null,
  unitsSkipped: skipped,
})

const loadTaken = async (
  work: JobWork,
  session: Session,
  order: WindowOrder,
  taken: Taken,
  emptyMonth: Window | null,
): Promise<LoadResult> => {
  const { runtime, claim, definition } = work
  const { input } = order
  const started = runtime.clock.now()
  const merged = await mergeAnswer(session, requestOf(session.kysely, work, order, taken, emptyMonth))
  const scope = merged.held.length === 0 ? taken.scope : withoutHeld(taken.scope)
  const heldBecause = await holdBack(work, session.kysely, taken, merged.held)
  const unitsLoaded = taken.accepted - merged.held.length
  const refused = await refusedOf(session, definition, order, taken, merged)
  await quarantine(work, session.kysely, order, taken, refused, unitsLoaded > 0)
  const counts = unitsLoaded === 0 ? zeroCounts() : await countsOf(work, session, order, taken, merged, refused)
  if (merged.inserted + merged.updated + merged.ended > 0) {
    await addDimensions(session.kysely, definition, scope, merged.inserted, input.staging.table)
    await refreshSummaries(session.kysely, definition, scope, runtime.marts)
  }
  if (unitsLoaded > 0)
    await recordLoad(session.kysely, {
      ...taken.share,
      claim,
      accepted: taken.units,
      units: unitsLoaded,
      withoutRows: slicesOf(merged.withoutRows === 'all' ? [taken.unitId].flatMap((id) => id ?? []) : merged.withoutRows),
      counts,
      drift: driftOf(input.parsed),
      rowsProof: await proofOfLoad(work, session, order, counts, emptyMonth),
      loadedAt: merged.loadedAt,
      milliseconds: runtime.clock.now() - started,
    })
  if (definition.tests.length > 0) await recordTests(session.kysely, { ...taken.share, claim }, merged.failures)
  return { ...counts, unitsLoaded, unitsHeld: merged.held.length, heldBecause, unitsSkipped: taken.skipped }
}

const withoutHeld = (scope: MergeScope): MergeScope => (scope.kind === 'one' ? scope : { ...scope, isWhole: false })

const requestOf = (
  trx: Db,
  { claim, definition }: JobWork,
  order: WindowOrder,
  { scope, share, loadedSha256 }: Taken,
  emptyMonth: Window | null,
): MergeRequest => ({
  definition,
  scope,
  runId: claim.runId,
  staging: order.input.staging,
  rows: order.rows,
  rejectedKeys: order.refused.flatMap(({ key }) => (key === null ? [] : [key])),
  rejects: order.refused.length,
  mayEnd: order.mayEnd,
  shrink: claim.released ? null : definition.limits.shrink,
  repeated: order.repeated,
  ...(order.judge === undefined ? {} : { judge: order.judge }),
  lastLoad: lastLoadOf(share),
  releasedBefore: (unitIds) => releasedBefore(trx, share, unitIds),
  emptyMonth,
  ...(order.isUnsurveyed === true ? { isUnsurveyed: true } : {}),
  ...(order.filling === undefined ? {} : { filling: order.filling }),
  repeatsLoaded: loadedSha256 === order.input.landing.sha256,
})

/** Every row read is inserted, updated, unchanged, quarantined or a duplicate; anything else is a defect here. */
const countsOf = async (
  { definition, claim }: JobWork,
  session: Session,
  order: WindowOrder,
  { scope }: Taken,
  merged: MergeResult,
  refused: readonly UnitRefused[],
): Promise<RowCounts> => {
  const { inserted, updated, ended, unchanged } = merged
  const quarantined = refused.filter(({ isHeld }) => !isHeld).length + (order.strays?.length ?? 0)
  if (scope.kind === 'many') {
    const { duplicates } = order.hasRemoved ? await countRemoved(session, definition, scope) : { duplicates: 0 }
    const read = inserted + updated + unchanged + quarantined + duplicates
    return { read, inserted, updated, ended, unchanged, quarantined, duplicates }
  }
  const { read } = order.input.parsed
  const counts = { read, inserted, updated, ended, unchanged, quarantined, duplicates: merged.duplicates }
  const accounted = inserted + updated + unchanged + quarantined + merged.duplicates
  if (accounted === read) return counts
  throw new EtlError(
    'INTERNAL',
    `${claim.box.key}: ${read} rows were read but ${accounted} accounted for (${JSON.stringify(counts)}).`,
  )
}

const finish = async (
  trx: Db,
  work: JobWork,
  { accepted, isOnly }: WindowOrder,
  { skipped }: Taken,
  requests: JobWork['requests'],
): Promise<void> => {
  const { claim } = work
  if (accepted !== null) await supersedeReplaced(trx, claim.pipelineId, claim.pipeline)
  await recordRequests(trx, requests)
  // All the job's units are locked here, and each took the answer.
  const mayPass = isOnly !== true || skipped > 0
  await finishJob(trx, claim, 'loaded', { mayPass })
}
