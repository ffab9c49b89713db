// The first load of a month: its table is filled before it is keyed and attached, from staging or by becoming the table that the rows were copied into.
import { type RawBuilder, sql } from 'kysely'
import type { Counts, Lists, Texts } from '../db/row.ts'
import type { Session } from '../db/session.ts'
import { anotherWay, comesTwice } from './another-way.ts'
import type { Filling } from './filling.ts'
import { lookAtScope } from './look.ts'
import { type MergeRequest, type MergeResult, nothing } from './merge-context.ts'
import type { ManyUnits } from './merge-scope.ts'
import { insertAll } from './merge-statements.ts'
import { fillPartition } from './partition.ts'
import { inWindow, periodColumn } from './table-columns.ts'
import { unitsWithoutRows } from './without-rows.ts'

/** null: the month is there by now, or a key comes twice; then the rows are merged from staging. */
export const fillEmptyMonth = async (session: Session, request: MergeRequest): Promise<MergeResult | null> => {
  const { definition, emptyMonth } = request
  if (emptyMonth === undefined || emptyMonth === null) return null
  let loadedAt: string | null = null
  let withoutRows: MergeResult['withoutRows'] = []
  const fill = async (table: RawBuilder<unknown>): Promise<number> => {
    const context = await lookAtScope(session, request, { hasProtected: false, staged: request.rows, refused: 0 })
    loadedAt = context.loadedAt
    const rows = await insertAll(context, { target: table })
    withoutRows = await unitsWithoutRows(context)
    return rows
  }
  const inserted = await fillPartition(session, definition, emptyMonth, { fill })
  return inserted === null ? null : { ...nothing, inserted, withoutRows, loadedAt }
}

/** Nothing of the scope was ever loaded, and each row copied is some unit's; else the error asks for another way. Adds key, indexes and place. */
export const adoptFilled = async (session: Session, request: MergeRequest, filling: Filling): Promise<MergeResult> => {
  const { definition, scope, emptyMonth } = request
  if (scope.kind === 'one' || !scope.isWhole) throw anotherWay(scope, 'some units do not take the answer')
  if (emptyMonth === undefined || emptyMonth === null) throw anotherWay(scope, monthIsThere)
  const looked = await lookAtScope(session, request, { hasProtected: false, staged: request.rows, refused: 0 })
  if (looked.previousRows > 0 || looked.hasHistory) throw anotherWay(scope, 'rows of it were loaded before')
  let withoutRows: readonly number[] = []
  let isTaken = false
  const make = async (): Promise<void> => {
    isTaken = true
    await filling.adopt(session, looked.loadedAt)
  }
  const fill = async (table: RawBuilder<unknown>): Promise<number> => {
    const found = await unitsOf(session, request, scope, table)
    if (found.outside > 0 || found.rows !== request.rows) throw anotherWay(scope, `${found.outside} rows were not asked for`)
    withoutRows = found.without
    return found.rows
  }
  const inserted = await fillPartition(session, definition, emptyMonth, { make, fill })
  if (inserted === null) throw anotherWay(scope, isTaken ? comesTwice : monthIsThere)
  return { ...nothing, inserted, withoutRows, loadedAt: looked.loadedAt }
}

const monthIsThere = 'its month has been made meanwhile'

/** Reads every row: each must be the window's and some unit's. */
const unitsOf = async (
  session: Session,
  { definition }: MergeRequest,
  { accepted, window }: ManyUnits,
  table: RawBuilder<unknown>,
): Promise<{ readonly rows: number; readonly outside: number; readonly without: readonly number[] }> => {
  const isStray = sql`(${inWindow(definition, window, periodColumn(definition))}) is not true`
  // Units are in a temporary table, which only one process can read: rows are counted by several before they meet it.
  const { rows } = await sql<Counts<'rows' | 'outside'> & Lists<Texts<'without'>>>`
    with came as materialized (
      select _unit_id, count(*) as n, count(*) filter (where ${isStray}) as strays from ${table} group by _unit_id
    )
    select coalesce(sum(came.n), 0) as rows,
      coalesce(sum(case when taken._unit_id is null then came.n else came.strays end), 0) as outside,
      array(select taken._unit_id from ${accepted.name} taken left join came on came._unit_id = taken._unit_id
        where taken._outcome = 'accepted' and came._unit_id is null) as without
    from came left join ${accepted.name} taken on taken._unit_id = came._unit_id`.execute(session.kysely)
  const [row] = rows
  return { rows: Number(row?.rows ?? 0), outside: Number(row?.outside ?? 0), without: (row?.without ?? []).map(Number) }
}
