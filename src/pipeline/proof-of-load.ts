// Notes with the first load of a month by what its rows are known again, and finds what was noted when a forced report comes.
import { rowMakerOf } from '../core/makes-rows.ts'
import type { RowCounts, Window } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import { isCluster } from '../db/cluster.ts'
import type { Session } from '../db/session.ts'
import { provenLoad } from '../ledger/loads.ts'
import { answerOfAll } from '../ledger/units.ts'
import { proveRows, type RowsProof, readProof } from '../load/rows-proof.ts'
import type { JobWork } from './job-work.ts'
import { driftOf } from './load-input.ts'
import type { WindowOrder } from './window-order.ts'

/** Reports of one window only; a verdict of data tests may depend on other windows, which may have changed since. */
const mayProve = ({ claim, definition }: JobWork): boolean =>
  claim.kind === 'report' &&
  definition.tests.length === 0 &&
  windowsBetween(claim.box.window.from, claim.box.window.to, claim.windowEvery).length === 1

/** Call at the end of the load's transaction. null: the load did not fill the month, or not with every record of a whole answer. */
export const proofOfLoad = async (
  work: JobWork,
  session: Session,
  { input }: Pick<WindowOrder, 'input'>,
  { inserted }: RowCounts,
  month: Window | null,
): Promise<RowsProof | null> => {
  const { parsed, box } = input
  const { runtime, claim, definition } = work
  if (month === null || !mayProve(work) || box.key !== claim.box.key) return null
  if (inserted !== parsed.read || parsed.rejects > 0 || driftOf(parsed) !== null) return null
  const maker = rowMakerOf(definition)
  if (maker === null || (await isCluster(runtime.database))) return null
  return proveRows(session, definition, month, { rows: inserted, maker })
}

/** The answer that all units of a forced job were loaded from, with what its rows are known by. */
export interface Former {
  readonly answerId: number
  readonly sha256: string
  /** Locator. */
  readonly landing: string
  readonly dataPoints: number | null
  readonly count: number | null
  readonly slicesWithoutRows: readonly number[]
  readonly proof: RowsProof
}

/** null: whatever comes is parsed. */
export const formerOf = async (work: JobWork): Promise<Former | null> => {
  const { runtime, claim, definition } = work
  if (!claim.forced || !mayProve(work) || (await isCluster(runtime.database))) return null
  const { kysely } = runtime.database
  const loaded = await answerOfAll(kysely, claim, claim.cells)
  if (loaded === null) return null
  const load = await provenLoad(kysely, loaded.answerId, claim.box.window, claim.sliceIds.length)
  if (load === null || load.units !== claim.cells) return null
  const proof = readProof(load.proof)
  if (proof === null || proof.maker !== rowMakerOf(definition)) return null
  const { landing, dataPoints, count, slices_without_rows: slicesWithoutRows } = load
  const { answerId, sha256 } = loaded
  return { answerId, sha256, landing, dataPoints, count, slicesWithoutRows, proof }
}
