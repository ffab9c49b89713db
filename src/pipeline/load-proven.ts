// A forced report whose bytes are those that are loaded, while PostgreSQL shows that nobody has touched their rows: its units take the new
// answer, and nothing is parsed.
import { sql } from 'kysely'
import { zeroCounts } from '../core/types.ts'
import { type Session, withSession } from '../db/session.ts'
import { lockJob } from '../ledger/hold.ts'
import { recordLoad } from '../ledger/loads.ts'
import { supersedeReplaced, supersedeUnits } from '../ledger/quarantine.ts'
import { recordRequests } from '../ledger/requests.ts'
import { finishJob } from '../ledger/settle-job.ts'
import { openAccepted } from '../load/accepted-units.ts'
import { areUntouched } from '../load/rows-proof.ts'
import type { JobWork } from './job-work.ts'
import type { Landed } from './land.ts'
import type { LoadResult } from './load-result.ts'
import type { Former } from './proof-of-load.ts'
import { takeUnits } from './take-units.ts'
import type { Taken } from './window-order.ts'

/** The same bytes, and the service says the same of them: what was found of the former answer holds for this one. */
export const isSameAnswer = (former: Former, { manifest, completeness }: Landed): boolean =>
  manifest.sha256 === former.sha256 &&
  completeness.dataPoints === former.dataPoints &&
  completeness.fingerprint.count === former.count

/**
 * Loads the recorded answer and settles the job, in one transaction; null, with nothing written, where the rows are not proved to be those of
 * the former answer, or a unit holds a newer one. Throws FENCED.
 */
export const loadProven = (work: JobWork, answerId: number, former: Former): Promise<LoadResult | null> =>
  withSession(work.runtime.database.pool, async (session) => {
    const { claim, definition, requests, runtime } = work
    const accepted = claim.cells === 1 ? null : await openAccepted(session, definition, claim.box)
    const known = [...requests]
    const started = runtime.clock.now()
    const isProven = await session.kysely.transaction().execute(async (trx) => {
      const inside = { ...session, kysely: trx }
      await lockJob(trx, claim)
      const { box } = claim
      const clean = { refused: [], strays: null, hasRemoved: false }
      const taken = await takeUnits(inside, work, { answerId, window: box.window, accepted, input: { box }, ...clean })
      if (taken.skipped > 0 || !(await areUntouched(inside, definition, taken.scope, former.proof))) return false
      await take(work, inside, taken, former, started)
      await supersedeReplaced(trx, claim.pipelineId, claim.pipeline)
      await recordRequests(trx, known)
      await finishJob(trx, claim, 'loaded', { mayPass: false })
      return true
    })
    if (!isProven) return null
    requests.splice(0, known.length)
    return { ...countsOf(former), unitsLoaded: claim.cells, unitsHeld: 0, heldBecause: null, unitsSkipped: 0 }
  })

const countsOf = ({ proof: { rows } }: Former) => ({ ...zeroCounts(), read: rows, unchanged: rows })

const take = async (
  { claim, runtime }: JobWork,
  { kysely }: Session,
  taken: Taken,
  former: Former,
  started: number,
): Promise<void> => {
  await supersedeUnits(kysely, taken.units)
  await recordLoad(kysely, {
    ...taken.share,
    claim,
    accepted: taken.units,
    units: taken.accepted,
    withoutRows: sql`${[...former.slicesWithoutRows]}::integer[]`,
    counts: countsOf(former),
    drift: null,
    // The rows are still those of the first load, and so is what they are known by.
    rowsProof: former.proof,
    loadedAt: null,
    milliseconds: runtime.clock.now() - started,
  })
}
