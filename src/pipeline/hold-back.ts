// What a window's load does not take: units that wait for a person, records that go to quarantine.
import type { Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import type { Db } from '../db/tables.ts'
import { noteHeld } from '../ledger/answers.ts'
import { insertQuarantine, type QuarantineEntry, supersedeHeld, supersedeStrays, supersedeUnits } from '../ledger/quarantine.ts'
import { holdUnits } from '../ledger/units.ts'
import { attribute } from '../load/accepted-units.ts'
import type { HeldUnit, MergeResult } from '../load/merge-context.ts'
import { stagedKey } from '../load/table-columns.ts'
import type { JobWork } from './job-work.ts'
import type { HeldBecause } from './load-result.ts'
import type { Taken, WindowOrder } from './window-order.ts'

/** One of a unit that takes the answer or is held with it; `unitId` null: one of nobody. */
export interface UnitRefused {
  readonly unitId: number | null
  readonly isHeld: boolean
  readonly entry: QuarantineEntry
}

/** Units that the answer would rob of their rows, or that it has nothing for but rejected records, wait for a person. @returns why the first of them does */
export const holdBack = async (work: JobWork, trx: Db, taken: Taken, held: readonly HeldUnit[]): Promise<HeldBecause | null> => {
  if (held.length === 0) return null
  await holdUnits(
    trx,
    taken.share,
    held.map(({ unitId, code }) => ({ unitId: unitId ?? taken.unitId ?? 0, code })),
  )
  let because: HeldBecause | null = null
  for (const code of ['TEST_FAILED', 'SHRUNK', 'TOO_MANY_REJECTS'] as const) {
    const [first, ...others] = held.filter((unit) => unit.code === code)
    if (first === undefined) continue
    const who =
      taken.unitId === null
        ? `${taken.scope.name}, unit ${first.unitId}${others.length === 0 ? '' : ` and ${others.length} more`}`
        : taken.scope.name
    const message = `${who}: ${reasonOf(work, first, first.unitId ?? taken.unitId)}`
    await noteHeld(trx, taken.share.answerId, code, message)
    because ??= { code, message }
  }
  return because
}

const reasonOf = ({ definition }: JobWork, { code, rows, previousRows, because }: HeldUnit, unitId: number | null): string =>
  code === 'TEST_FAILED'
    ? `${because} If the new answer is right, \`millrace release ${unitId}\` loads it.`
    : code === 'SHRUNK'
      ? `the new answer has ${rows} rows, ${previousRows} are loaded (limits.shrink ${definition.limits.shrink * 100}%). ` +
        `The loaded rows stay; if the new answer is right, \`millrace release ${unitId}\` loads it.`
      : `every record of the new answer was rejected. The loaded rows stay; see \`millrace quarantine list ${definition.pipeline}\`, ` +
        'then correct the columns and run `millrace quarantine retry`.'

/** Records of the units at hand, and those of nobody where they count with this window. */
export const refusedOf = async (
  session: Session,
  definition: Definition,
  order: WindowOrder,
  { scope, unitId }: Taken,
  { conflicts, held }: MergeResult,
): Promise<readonly UnitRefused[]> => {
  const { refused, input } = order
  if (scope.kind === 'one') {
    const ordinals = conflicts.flatMap((conflict) => conflict.ordinals)
    const records = ordinals.length === 0 ? [] : await input.rawRecords(new Set(ordinals))
    return [...refused.map(({ entry }) => entry), ...records].map((entry) => ({ unitId, isHeld: held.length > 0, entry }))
  }
  const keyed = refused.flatMap(({ key, entry }) => (key === null ? [] : [{ key, entry }]))
  const owners = await attribute(
    session,
    scope,
    stagedKey(definition),
    keyed.map(({ key }) => key),
  )
  return keyed.flatMap(({ entry }, place) => {
    const owner = owners[place]
    if (owner === null || owner === undefined || owner.outcome === 'skipped') return []
    return [{ unitId: owner.unitId, isHeld: owner.outcome !== 'accepted', entry }]
  })
}

/** Writes the refused records in the place of what was open for their units; those of nobody with the first window that is loaded. */
export const quarantine = async (
  { claim, definition }: JobWork,
  trx: Db,
  order: WindowOrder,
  taken: Taken,
  refused: readonly UnitRefused[],
  isLoaded: boolean,
): Promise<void> => {
  const { answerId } = order
  if (isLoaded) await supersedeUnits(trx, taken.units)
  const heldIds = new Set(refused.flatMap(({ unitId, isHeld }) => (isHeld && unitId !== null ? [unitId] : [])))
  if (heldIds.size > 0) await supersedeHeld(trx, answerId, [...heldIds])
  const strays = isLoaded ? order.strays : null
  if (strays !== null) await supersedeStrays(trx, answerId)
  const entries = [...refused.map(({ entry, unitId }) => ({ ...entry, unitId })), ...(strays ?? [])]
  if (entries.length === 0) return
  await insertQuarantine(trx, { answerId, jobId: claim.jobId, runId: claim.runId, pipeline: definition.pipeline, entries })
}
