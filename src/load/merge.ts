// The difference between a complete answer and the rows loaded before, applied in the caller's transaction.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Session } from '../db/session.ts'
import { dedupeStaging } from './duplicates.ts'
import { keyOrder } from './key-order.ts'
import type { MergeContext, MergeRequest, MergeResult } from './merge-context.ts'
import { applyDifference, insertAll } from './merge-statements.ts'
import { fillPartition, isUniqueViolation } from './partition.ts'
import { protectKeys } from './protected-keys.ts'
import { countIfSame } from './same-rows.ts'
import { dataTable, historyTable, scopeOf } from './table-columns.ts'

/**
 * Call inside an open transaction of `session`, with the unit's row locked. Inserts new rows, updates those that differ, ends those the
 * answer lacks; unchanged rows are not touched. Every statement names the unit's scope.
 */
export const mergeUnit = async (session: Session, request: MergeRequest): Promise<MergeResult> => {
  const isLarge = request.staging.rows() > largeRows
  if (isLarge) await settle(session)
  if (isLarge && request.repeatsLoaded === true && request.rejectedKeys.length === 0) {
    const same = await countIfSame(session, request)
    if (same !== null) return { ...nothing, unchanged: same, previousRows: same }
  }
  if (isLarge) await sql`analyze ${sql.raw(request.staging.table)}`.execute(session.kysely)
  if (request.rejectedKeys.length > 0) return mergeDeduped(session, request)
  const filled = await fillEmptyMonth(session, request)
  if (filled !== null) return filled
  await sql`savepoint merge_at_once`.execute(session.kysely)
  try {
    const result = await mergeDistinct(session, request, false, request.staging.rows())
    if (result !== null) {
      await sql`release savepoint merge_at_once`.execute(session.kysely)
      return { ...result, duplicates: 0, conflicts: [] }
    }
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
  }
  // Some key comes twice. That is rare, so it is looked for only now.
  await sql`rollback to savepoint merge_at_once`.execute(session.kysely)
  return mergeDeduped(session, request)
}

/** Fewer rows are merged in less time than it takes to say how. */
const largeRows = 5_000

/**
 * Rows are looked up on a disk without a head to move, and a large join is worth several workers, since the process waits for it; their
 * usual price would be asked for rows that the join only compares. Statistics need not be finer than how many rows there are.
 */
const mergeSettings = {
  work_mem: '256MB',
  random_page_cost: '1.1',
  parallel_setup_cost: '100',
  parallel_tuple_cost: '0',
  default_statistics_target: '10',
} as const

const settle = async (session: Session): Promise<void> => {
  const settings = Object.entries(mergeSettings).map(([name, value]) => sql`set_config(${name}, ${value}, true)`)
  await sql`select ${sql.join(settings)}`.execute(session.kysely)
}

const nothing: MergeResult = { inserted: 0, updated: 0, ended: 0, unchanged: 0, previousRows: 0, duplicates: 0, conflicts: [] }

/** null: the month is there by now, or a key comes twice; then the rows go the long way. */
const fillEmptyMonth = async (session: Session, request: MergeRequest): Promise<MergeResult | null> => {
  const { definition, emptyMonth } = request
  if (emptyMonth === undefined || emptyMonth === null) return null
  const inserted = await fillPartition(session, definition, emptyMonth, async (table) =>
    insertAll(await lookAtScope(session, request, false), { target: table }),
  )
  return inserted === null ? null : { ...nothing, inserted }
}

const mergeDeduped = async (session: Session, request: MergeRequest): Promise<MergeResult> => {
  const { duplicates, conflicts } = await dedupeStaging(session, request.definition, request.staging)
  const hasProtected = await protectKeys(session, request.definition, request.rejectedKeys, conflicts)
  const gone = duplicates + conflicts.reduce((sum, conflict) => sum + conflict.ordinals.length, 0)
  const result = await mergeDistinct(session, request, hasProtected, request.staging.rows() - gone)
  if (result === null)
    throw new EtlError('INTERNAL', `${request.unit.key}: a key of the answer comes twice after duplicates were taken out.`)
  return { ...result, duplicates, conflicts }
}

type Distinct = Omit<MergeResult, 'duplicates' | 'conflicts'>

/** null: the staged rows turned out to hold a key twice, and what was done must be rolled back. */
const mergeDistinct = async (
  session: Session,
  request: MergeRequest,
  hasProtected: boolean,
  staged: number,
): Promise<Distinct | null> => {
  const context = await lookAtScope(session, request, hasProtected)
  if (context.previousRows === 0) {
    const order = await keyOrder(
      session,
      request.definition,
      { table: request.staging.table, isAnalyzed: request.staging.rows() > largeRows },
      's',
    )
    const inserted = await insertAll(context, { order })
    return { inserted, updated: 0, ended: 0, unchanged: 0, previousRows: 0 }
  }
  const { inserted, updated, ended, isDistinct } = await applyDifference(context, staged)
  if (!isDistinct) return null
  return { inserted, updated, ended, unchanged: staged - inserted - updated, previousRows: context.previousRows }
}

const lookAtScope = async (session: Session, request: MergeRequest, hasProtected: boolean): Promise<MergeContext> => {
  const { definition, unit } = request
  const scope = scopeOf(definition, unit, 't')
  const { rows } = await sql<{ previous: string; at: string; has_history: boolean }>`
    select previous, past.ended is not null as has_history,
      to_char(greatest(transaction_timestamp(), loaded + interval '1 microsecond', past.ended) at time zone 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
    from (select count(*) as previous, max(t._loaded_at) as loaded from ${dataTable(definition)} t where ${scope}) present,
      (select max(h._valid_to) as ended from ${historyTable(definition)} h where ${scopeOf(definition, unit, 'h')}) past`.execute(
    session.kysely,
  )
  const [row] = rows
  if (row === undefined) throw new EtlError('INTERNAL', `${unit.key}: the scope could not be counted.`)
  return { ...request, session, loadedAt: row.at, previousRows: Number(row.previous), hasHistory: row.has_history, hasProtected }
}
