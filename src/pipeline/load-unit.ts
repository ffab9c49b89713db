// The one transaction of a unit: merge, checks, quarantine, ledger and queue commit together or not at all.
import type { Completeness } from '../core/completeness.ts'
import { EtlError } from '../core/errors.ts'
import type { RowCounts } from '../core/types.ts'
import { markLoaded } from '../ledger/loads.ts'
import { insertQuarantine, type QuarantineEntry, supersedeQuarantine } from '../ledger/quarantine.ts'
import { recordRequests } from '../ledger/requests.ts'
import { lockUnit } from '../ledger/units.ts'
import type { Session } from '../db/session.ts'
import { addDimensions } from '../load/dimensions.ts'
import { mergeUnit } from '../load/merge.ts'
import type { MergeResult } from '../load/merge-context.ts'
import { emptyMonthOf, ensurePartitions } from '../load/partition.ts'
import { refreshSummaries } from '../load/summaries.ts'
import type { ParseReport, RejectedRow } from '../parse/report.ts'
import { loadAtOnce } from './load-at-once.ts'
import { driftOf, type LoadInput } from './load-input.ts'
import type { UnitWork } from './unit-work.ts'

/** Loads what is staged. Throws (and changes nothing) unless the unit is complete and within its limits. */
export const loadUnit = async (work: UnitWork, session: Session, input: LoadInput): Promise<RowCounts> => {
  const { runtime, claim, definition } = work
  const atOnce = await loadAtOnce(work, session, input)
  if (atOnce !== null) return atOnce
  await input.markLanded()
  checkRejects(work, input.parsed.rejects, input.parsed.read)
  await input.staging.flush()
  const rejectedKeys = input.parsed.rejected.flatMap((reject) => (reject.key === null ? [] : [reject.key]))
  const emptyMonth = rejectedKeys.length > 0 ? null : await emptyMonthOf(session, definition, claim.unit, input.staging.rows())
  if (emptyMonth === null) await ensurePartitions(session, definition, claim.unit)
  const started = runtime.clock.now()
  return session.kysely.transaction().execute(async (trx) => {
    await lockUnit(trx, claim)
    const merged = await mergeUnit(
      { ...session, kysely: trx },
      {
        definition,
        unit: claim.unit,
        unitId: claim.unitId,
        runId: work.job.runId,
        staging: input.staging,
        rejectedKeys,
        emptyMonth,
        repeatsLoaded: claim.loaded?.sha256 === input.landing.sha256,
        // A record whose key cannot be read may be any of the loaded rows: then none of them is known to be missing.
        mayEnd: input.parsed.rejected.every((reject) => reject.key !== null),
      },
    )
    const counts = countsOf(input.parsed, merged)
    const conflicting = await conflictingRecords(input, merged, counts.quarantined <= allowedRejects(work, counts.read))
    checkRejects(work, counts.quarantined, counts.read)
    checkComplete(work, counts, input.completeness)
    checkShrink(work, merged)
    await quarantine(work, trx, input, conflicting)
    if (merged.inserted + merged.updated + merged.ended > 0) {
      await addDimensions(trx, definition, claim.unit, merged.inserted, input.staging.table)
      await refreshSummaries(trx, definition, claim.unit, runtime.marts)
    }
    await recordRequests(trx, work.requests.splice(0))
    await markLoaded(trx, claim, {
      runId: work.job.runId,
      counts,
      landing: input.landing.locator,
      landingSha256: input.landing.sha256,
      landingBytes: input.landing.bytes,
      fingerprint: input.completeness.fingerprint,
      drift: driftOf(input.parsed),
      milliseconds: runtime.clock.now() - started,
    })
    await runtime.queue.finish(trx, work.job)
    return counts
  })
}

/** Every row read is inserted, updated, unchanged, quarantined or a duplicate; anything else is a defect here. */
const countsOf = (parsed: ParseReport, merged: MergeResult): RowCounts => {
  const conflicting = merged.conflicts.reduce((sum, conflict) => sum + conflict.ordinals.length, 0)
  const counts: RowCounts = {
    read: parsed.read,
    inserted: merged.inserted,
    updated: merged.updated,
    ended: merged.ended,
    unchanged: merged.unchanged,
    quarantined: parsed.rejects + conflicting,
    duplicates: merged.duplicates,
  }
  const accounted = counts.inserted + counts.updated + counts.unchanged + counts.quarantined + counts.duplicates
  if (accounted !== counts.read) {
    throw new EtlError('INTERNAL', `${counts.read} rows were read but ${accounted} accounted for (${JSON.stringify(counts)}).`)
  }
  return counts
}

const allowedRejects = ({ definition: { limits } }: UnitWork, read: number): number =>
  Math.min(limits.rejectCount ?? Number.POSITIVE_INFINITY, Math.floor(read * limits.rejectShare))

const checkRejects = (work: UnitWork, rejects: number, read: number): void => {
  const { definition, claim } = work
  const allowed = allowedRejects(work, read)
  if (rejects <= allowed) return
  throw new EtlError(
    'TOO_MANY_REJECTS',
    `${claim.unit.key}: ${rejects} of ${read} rows were rejected, the definition allows ${allowed} (limits.rejects). ` +
      `See \`millrace quarantine list ${definition.pipeline}\`; then mend the columns or raise the limit.`,
  )
}

const checkComplete = ({ claim }: UnitWork, counts: RowCounts, { expectedRows }: Completeness): void => {
  if (expectedRows === null) return
  const distinct = counts.read - counts.duplicates
  if (distinct === expectedRows) return
  throw new EtlError(
    'INCOMPLETE',
    `${claim.unit.key}: ${distinct} distinct rows arrived, the service announces ${expectedRows}. Nothing was loaded; ` +
      'the next run reads it again.',
  )
}

/** A unit that lost more than its definition allows, or all its rows, waits for a person unless one released it. */
const checkShrink = ({ claim, definition }: UnitWork, merged: MergeResult): void => {
  if (claim.released || merged.previousRows === 0) return
  const now = merged.previousRows - merged.ended
  const fell = (merged.previousRows - (now + merged.inserted)) / merged.previousRows
  if (fell <= definition.limits.shrink && now + merged.inserted > 0) return
  throw new EtlError(
    'SHRUNK',
    `${claim.unit.key}: the new answer has ${now + merged.inserted} rows, ${merged.previousRows} are loaded ` +
      `(limits.shrink ${definition.limits.shrink * 100}%). The loaded rows stay; if the new answer is right, ` +
      `\`millrace release ${claim.unitId}\` and run again.`,
  )
}

/** Enough to see what is wrong with an answer that is refused. */
export const shownRejects = 1_000

const conflictingRecords = async (
  { rawRecords }: LoadInput,
  { conflicts }: MergeResult,
  all: boolean,
): Promise<readonly QuarantineEntry[]> => {
  const ordinals = conflicts.flatMap((conflict) => conflict.ordinals)
  return ordinals.length === 0 ? [] : rawRecords(new Set(all ? ordinals : ordinals.slice(0, shownRejects)))
}

const quarantine = async (
  work: UnitWork,
  trx: Session['kysely'],
  input: LoadInput,
  conflicting: readonly QuarantineEntry[],
): Promise<void> => {
  await supersedeQuarantine(trx, work.claim.unitId)
  const entries = [...input.parsed.rejected.map((reject) => entryOf(reject)), ...conflicting]
  if (entries.length === 0) return
  await insertQuarantine(trx, {
    unitId: work.claim.unitId,
    edition: work.claim.edition,
    runId: work.job.runId,
    pipeline: work.definition.pipeline,
    landing: input.landing.locator,
    entries,
  })
}

export const entryOf = (reject: RejectedRow): QuarantineEntry => ({
  part: reject.part,
  line: reject.line,
  column: reject.column,
  reason: reject.reason,
  raw: reject.raw,
})
