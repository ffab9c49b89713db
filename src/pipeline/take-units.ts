// The units of a window that an answer is for: locked for the rest of the transaction, and told apart by who takes it.
import { sql } from 'kysely'
import type { Session } from '../db/session.ts'
import { acceptUnit, acceptUnits } from '../ledger/units.ts'
import { acceptedUnits } from '../load/accepted-units.ts'
import { manyUnits, oneUnit } from '../load/merge-scope.ts'
import type { JobWork } from './job-work.ts'
import type { LoadInput } from './load-input.ts'
import type { Taken, WindowOrder } from './window-order.ts'

/** So many units are worth a moment in which the server counts them. */
const statisticsFrom = 1_000

/** What of an order says which units it is for, and whether every row that came is staged. */
export interface UnitsOrder extends Pick<WindowOrder, 'answerId' | 'window' | 'accepted' | 'refused' | 'strays' | 'hasRemoved'> {
  readonly input: Pick<LoadInput, 'box'>
}

/** Call in the transaction of the load, after the job is locked. */
export const takeUnits = async (session: Session, { claim }: JobWork, order: UnitsOrder): Promise<Taken> => {
  const { accepted: table, window, answerId } = order
  const share = { claim, answerId, window }
  if (table === null) {
    const { unitId, accepts } = await acceptUnit(session.kysely, share)
    const scope = oneUnit(claim.box, unitId)
    const units = sql`array[${unitId}::bigint]`
    const loadedSha256 = claim.loaded?.sha256 ?? null
    return { share, scope, accepted: accepts ? 1 : 0, skipped: accepts ? 0 : 1, loadedSha256, units, unitId }
  }
  const taken = await acceptUnits(session.kysely, share, table)
  if (claim.sliceIds.length > statisticsFrom) await sql`analyze ${table.name}`.execute(session.kysely)
  const isWhole = taken.skipped === 0 && isClean(order) && order.input.box.key === claim.box.key
  return { ...taken, share, scope: manyUnits(claim.box, window, table, isWhole), units: acceptedUnits(table), unitId: null }
}

/** Every row that came is staged. */
const isClean = ({ refused, strays, hasRemoved }: UnitsOrder): boolean =>
  refused.length === 0 && (strays ?? []).length === 0 && !hasRemoved
