// What a person did from outside a run, each with its event in the same transaction.
import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import type { Tables } from '../db/tables.ts'
import { releaseHeld } from './held.ts'
import { mayBegin, unitTransitions } from './transitions.ts'

/** @param by who did it, for the event: `status page`, `command line`. */
export const releaseByPerson = (db: Kysely<Tables>, unitId: number, by: string): Promise<boolean> =>
  db.transaction().execute(async (trx) => {
    const released = await releaseHeld(trx, [unitId])
    if (released.length === 0) return false
    await note(trx, { kind: 'released', unitId, runId: null, message: `Unit ${unitId} was released by a person (${by}).` })
    return true
  })

/** A failed unit is planned again with all its tries; its report, if it bought one, stays its own. False: it had not failed. */
export const retryByPerson = (db: Kysely<Tables>, unitId: number, by: string): Promise<boolean> =>
  db.transaction().execute(async (trx) => {
    const { rows } = await sql<{ unit_id: string }>`
      update etl.units set state = case when landing is null then 'planned' else 'landed' end, attempts = 0, not_before = null,
        updated_at = clock_timestamp()
      where unit_id = ${unitId}::bigint and ${mayBegin('state', unitTransitions.retry)} returning unit_id`.execute(trx)
    if (rows.length === 0) return false
    await note(trx, { kind: 'retried', unitId, runId: null, message: `Unit ${unitId} was planned again by a person (${by}).` })
    return true
  })

export const noteCancel = (db: Kysely<Tables>, runId: number, by: string): Promise<void> =>
  note(db, { kind: 'cancelled', unitId: null, runId, message: `Run ${runId} was cancelled by a person (${by}).` })

interface Note {
  readonly kind: string
  readonly unitId: number | null
  readonly runId: number | null
  readonly message: string
}

const note = async (db: Kysely<Tables>, { kind, unitId, runId, message }: Note): Promise<void> => {
  await db.insertInto('etl.events').values({ kind, unit_id: unitId, run_id: runId, message, details: '{}' }).execute()
}
