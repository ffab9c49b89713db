// The difference between a complete answer and the rows loaded before, applied in the caller's transaction.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Session } from '../db/session.ts'
import { anotherWay, comesTwice } from './another-way.ts'
import { type Conflict, conflictsOf, dropRepeated, findRepeated, removeRepeated } from './duplicates.ts'
import { adoptFilled, fillEmptyMonth } from './fill-month.ts'
import { holdFailing } from './hold-failing.ts'
import { keyOrder } from './key-order.ts'
import { type LookOptions, lookAtScope, lookAtUnits } from './look.ts'
import { type MergeContext, type MergeRequest, type MergeResult, nothing } from './merge-context.ts'
import { applyDifference, dropDifference, findDifference, insertAll, type Kinds } from './merge-statements.ts'
import { isUniqueViolation } from './partition.ts'
import { protectKeys } from './protected-keys.ts'
import { sameRows } from './same-rows.ts'
import { unitsWithoutRows } from './without-rows.ts'

/**
 * Call inside an open transaction of `session`, with the units' rows locked. Inserts new rows, updates those that differ, ends those the
 * answer lacks; unchanged rows are not touched, and a unit that would lose too much is left as it is. Every statement names the scope.
 */
export const mergeAnswer = async (session: Session, request: MergeRequest): Promise<MergeResult> => {
  const isLarge = request.rows > largeRows
  if (isLarge) await settle(session)
  if (isLarge && isAnalyzed(request)) await sql`analyze ${sql.raw(request.staging.table)}`.execute(session.kysely)
  const { request: left, failures, held } = await holdFailing(session, request)
  if (request.scope.kind === 'one' && held.length > 0) return { ...nothing, failures, held }
  const merged = await mergeTested(session, left, isLarge)
  return { ...merged, failures, held: [...held, ...merged.held] }
}

/** Rows that are only counted and keyed need no plan. */
const isAnalyzed = ({ repeated, filling, definition }: MergeRequest): boolean =>
  repeated !== 'removed' && (filling === undefined || definition.tests.length > 0)

const mergeTested = async (session: Session, request: MergeRequest, isLarge: boolean): Promise<MergeResult> => {
  if (request.filling !== undefined) return adoptFilled(session, request, request.filling)
  if (isLarge && request.repeatsLoaded === true && request.rejectedKeys.length === 0) {
    const same = await sameRows(session, request)
    if (same !== null) return { ...nothing, unchanged: same.rows, previousRows: same.rows, withoutRows: same.withoutRows }
  }
  if (request.repeated === 'removed') return mergeDeduped(session, request, { duplicates: 0, conflicts: [] })
  if (request.rejectedKeys.length > 0 || request.repeated === 'likely')
    return mergeDeduped(session, request, await dedupe(session, request))
  const filled = await fillEmptyMonth(session, request)
  if (filled !== null) return filled
  if (request.repeated === 'refused') return mergeOrRefuse(session, request)
  await sql`savepoint merge_at_once`.execute(session.kysely)
  try {
    const result = await mergeDistinct(session, request, {
      hasProtected: false,
      staged: request.staging.rows(),
      refused: request.rejects,
    })
    if (result !== null) {
      await sql`release savepoint merge_at_once`.execute(session.kysely)
      return { ...nothing, ...result }
    }
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
  }
  // Some key comes twice. That is rare, so it is looked for only now.
  await sql`rollback to savepoint merge_at_once`.execute(session.kysely)
  return mergeDeduped(session, request, await dedupe(session, request))
}

const mergeOrRefuse = async (session: Session, request: MergeRequest): Promise<MergeResult> => {
  const options = { hasProtected: false, staged: request.rows, refused: 0 }
  const result = await mergeDistinct(session, request, options).catch((error: unknown) => {
    throw isUniqueViolation(error) ? anotherWay(request.scope, comesTwice) : error
  })
  if (result === null) throw anotherWay(request.scope, comesTwice)
  return { ...nothing, ...result }
}

/** Fewer rows are merged in less time than it takes to say how. */
export const largeRows = 5_000

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

interface Deduped {
  readonly duplicates: number
  readonly conflicts: readonly Conflict[]
}

const dedupe = async (session: Session, { definition, staging, judge }: MergeRequest): Promise<Deduped> => {
  const repeated = await findRepeated(session, definition, staging)
  await judge?.(repeated)
  const conflicts = await conflictsOf(session, definition)
  await removeRepeated(session, staging)
  await dropRepeated(session)
  return { duplicates: repeated.duplicates, conflicts }
}

const mergeDeduped = async (
  session: Session,
  request: MergeRequest,
  { duplicates, conflicts }: Deduped,
): Promise<MergeResult> => {
  if (request.repeated === 'removed' && request.rejectedKeys.length === 0) {
    const filled = await fillEmptyMonth(session, request)
    if (filled !== null) return filled
  }
  const conflicting = conflicts.reduce((sum, conflict) => sum + conflict.ordinals.length, 0)
  const hasProtected = await protectKeys(session, request.definition, [
    ...request.rejectedKeys,
    ...conflicts.map((conflict) => conflict.key),
  ])
  const result = await mergeDistinct(session, request, {
    hasProtected,
    staged: request.staging.rows() - duplicates - conflicting,
    refused: request.rejects + conflicting,
  })
  if (result === null)
    throw new EtlError('INTERNAL', `${request.scope.name}: a key of the answer comes twice after duplicates were taken out.`)
  return { ...nothing, ...result, duplicates, conflicts }
}

type Distinct = Omit<MergeResult, 'duplicates' | 'conflicts' | 'failures'>

/** null: the staged rows turned out to hold a key twice, and what was done must be rolled back. */
const mergeDistinct = async (session: Session, request: MergeRequest, options: LookOptions): Promise<Distinct | null> => {
  const looked = await lookAtScope(session, request, options)
  if (request.scope.kind === 'one' && looked.held.length > 0) return { ...nothing, held: looked.held }
  if (looked.previousRows === 0) {
    const isAnalyzed = request.repeated !== 'removed' && request.rows > largeRows
    const order = await keyOrder(session, request.definition, { table: request.staging.table, isAnalyzed }, 's')
    const inserted = await insertAll(looked, { order })
    return { ...nothing, inserted, held: looked.held, withoutRows: await unitsWithoutRows(looked), loadedAt: looked.loadedAt }
  }
  const { context, kinds } = await judgeDifference(looked, request, options)
  const { held, loadedAt, previousRows, stagedRows } = context
  const { inserted, updated, ended, isDistinct } = await applyDifference(context, kinds)
  if (!isDistinct) return null
  const unchanged = stagedRows - inserted - updated
  return { inserted, updated, ended, unchanged, previousRows, held, withoutRows: await unitsWithoutRows(context), loadedAt }
}

/** The difference without what units lose that are held because of it. */
const judgeDifference = async (
  looked: MergeContext,
  request: MergeRequest,
  options: LookOptions,
): Promise<{ readonly context: MergeContext; readonly kinds: Kinds }> => {
  const kinds = await findDifference(looked)
  if (looked.isJudged || kinds.missing === 0 || request.scope.kind === 'one') return { context: looked, kinds }
  const context = await lookAtUnits(looked.session, request, request.scope, options)
  if (context.held.length === 0) return { context, kinds }
  await dropDifference(context)
  return { context, kinds: await findDifference(context) }
}
