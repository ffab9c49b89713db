// Lists units, those that need a person first, page by page; fast with any number of units.
import { sql } from 'kysely'
import type { UnitState } from '../../core/types.ts'
import type { Db } from '../../db/tables.ts'
import type { Maybe, Numbers, Row } from '../../db/typed-row.ts'
import { isSucceeded } from '../../ledger/slices.ts'
import { unitsIn, type WindowState } from './read-windows.ts'
import { amongIds, asNumbers } from './shared-columns.ts'

export interface UnitFilter {
  readonly pipeline?: string | undefined
  readonly state?: UnitState | undefined
  /** `2026-01` */
  readonly month?: string | undefined
  /** A value of any dimension, spelled as in its list. */
  readonly value?: string | undefined
  /** Only units that no later version visible to readers has loaded. */
  readonly needed?: boolean
}

const troubles: readonly UnitState[] = ['held', 'failed']
const openStates: readonly UnitState[] = ['waiting', 'running', 'landed', 'planned']
/** Views and their states, most urgent first. */
const listed = {
  'etl.troubled_units': troubles,
  'etl.open_units': openStates,
  'etl.unit_list': [...troubles, ...openStates, 'loaded'],
} as const

const fits =
  ({ pipeline, state, month }: UnitFilter) =>
  (row: WindowState): boolean =>
    (pipeline === undefined || row.pipeline === pipeline) &&
    (state === undefined || row.state === state) &&
    (month === undefined || row.window_from.startsWith(month))

export const countUnits = async (db: Db, states: readonly WindowState[], filter: UnitFilter): Promise<number> => {
  if (filter.value === undefined) return unitsIn(states.filter(fits(filter)))
  const counted = db.selectFrom('etl.unit_list as u').select(({ fn }) => fn.countAll().as('units'))
  return Number((await counted.where(within(filter)).executeTakeFirstOrThrow()).units)
}

/** A group of units within the list: how many there are, and a part of their ids in order. */
interface Shelf {
  readonly units: number
  ids(limit: number, offset: number): Promise<number[]>
}

/**
 * Most urgent first: held, failed, waiting, running, landed, planned, loaded; then newest window first.
 * @param states of all windows: their counts allow to skip the units before the offset without reading them
 */
export const unitLines = async (
  db: Db,
  states: readonly WindowState[],
  filter: UnitFilter,
  { limit, offset = 0 }: { readonly limit: number; readonly offset?: number },
): Promise<UnitLine[]> => {
  // The counts of windows are over all values, so a filter by value reads and sorts that value's units.
  if (filter.value !== undefined) return linesOf(db, await idsIn(db, 'etl.unit_list', filter, limit, offset))
  const own = states.filter(fits(filter))
  const isTrouble = ({ state }: WindowState): boolean => troubles.includes(state)
  const among = (view: Listed, rows: readonly WindowState[]): Shelf => ({
    ...{ units: unitsIn(rows), ids: (most, skip) => idsIn(db, view, filter, most, skip) },
  })
  const settled = own.filter(({ open }) => !open).sort(settledOrder)
  const open = own.filter((row) => row.open && !isTrouble(row))
  const shelves: Shelf[] = [
    among('etl.troubled_units', own.filter(isTrouble)),
    among('etl.open_units', open),
    ...settled.map((row): Shelf => ({ units: row.units, ids: (most, skip) => settledIds(db, row, most, skip) })),
  ]
  const found: number[] = []
  let skip = offset
  for (const { units, ids } of shelves) {
    if (skip < units && found.length < limit) found.push(...(await ids(limit - found.length, skip)))
    skip = Math.max(0, skip - units)
  }
  return linesOf(db, found)
}

/** Order of windows of units that no job requests: without rows first. Only windows of the page are read. */
const settledOrder = (a: WindowState, b: WindowState): number =>
  Number(a.loaded) - Number(b.loaded) || b.window_from.localeCompare(a.window_from) || a.pipeline_id - b.pipeline_id

/** Held and failed units that are still needed, without reading other units. */
export const troubledLines = async (db: Db, filter: UnitFilter, limit: number): Promise<UnitLine[]> =>
  linesOf(db, await idsIn(db, 'etl.troubled_units', { ...filter, needed: true }, limit, 0))

const within = ({ pipeline, month, state, value, needed = false }: UnitFilter) => {
  const first = `${month}-01`
  const conditions = [
    pipeline && sql`u.pipeline_id in (select p.pipeline_id from etl.pipelines p where p.pipeline = ${pipeline})`,
    month && sql`u.window_from >= ${first}::date and u.window_from < ${first}::date + interval '1 month'`,
    state && sql`u.state = ${state}`,
    needed && sql`not ${isSucceeded}`,
    value && sql`u.slice_id in (select s.slice_id from etl.slices s where ${value} = any (s."values"))`,
  ].filter((one) => typeof one === 'object')
  return sql<boolean>`${sql.join([sql`true`, ...conditions], sql` and `)}`
}

type Listed = keyof typeof listed
const idsIn = async (db: Db, view: Listed, filter: UnitFilter, limit: number, offset: number): Promise<number[]> => {
  const rows = await db
    .selectFrom(sql<Row<'etl.unit_list', 'unit_id' | 'state' | 'window_from'>>`${sql.table(view)}`.as('u'))
    .select(asNumbers('u', 'unit_id'))
    .where(within(filter))
    .where('u.state', 'in', listed[view])
    .orderBy(sql`array_position(${sql.val([...listed[view]])}::text[], u.state)`)
    .orderBy('u.window_from', 'desc')
    .orderBy('u.unit_id')
    .limit(limit)
    .offset(offset)
    .execute()
  return rows.map((row) => row.unit_id)
}

/** Units of one window that no job requests. */
const settledIds = async (db: Db, window: WindowState, limit: number, offset: number): Promise<number[]> => {
  const rows = await db
    .selectFrom('etl.units as u')
    .select(asNumbers('u', 'unit_id'))
    .where('u.pipeline_id', '=', window.pipeline_id)
    .where('u.window_from', '=', window.window_from)
    .where('u.job_id', 'is', null)
    .where('u.held_answer_id', 'is', null)
    .where('u.answer_id', window.loaded ? 'is not' : 'is', null)
    // Without slices that left the lists, as in the counts of windows. These are few and are read once.
    .where(({ eb, selectFrom }) =>
      eb(
        'u.slice_id',
        'not in',
        selectFrom('etl.slices as s')
          .select('s.slice_id')
          .where('s.pipeline_id', '=', window.pipeline_id)
          .where('s.wanted_until', 'is not', null),
      ),
    )
    .orderBy('u.slice_id')
    .limit(limit)
    .offset(offset)
    .execute()
  return rows.map((row) => row.unit_id)
}

/** The load of a unit's rows; `rows` only where the answer was for this unit alone. */
const lastLoad = sql<Maybe<Row<'etl.loads', 'loaded_at'> & Numbers<'rows'>>>`(
  select l.loaded_at, case when cardinality(a.slice_ids) = 1 then (l.rows_inserted + l.rows_updated + l.rows_unchanged)::float8 end as rows
  from etl.loads l join etl.answers a on a.answer_id = l.answer_id
  where l.answer_id = u.answer_id and l.window_from = u.window_from and l.outcome = 'loaded' order by l.loaded_at desc limit 1)`

const unitsOf = (db: Db, unitIds: readonly number[]) =>
  db
    .selectFrom('etl.unit_list as u')
    .leftJoinLateral(lastLoad.as('l'), (join) => join.onTrue())
    .select([...asNumbers('u', 'unit_id'), 'u.unit_key', 'u.pipeline', 'u.state', 'u.attempts', 'l.rows', 'u.error_code'])
    .select(['u.error_message', 'u.not_before', 'l.loaded_at'])
    .where(amongIds('u.unit_id', unitIds))
    .execute()

export type UnitLine = Awaited<ReturnType<typeof unitsOf>>[number]

/** In the order of the numbers given. */
export const linesOf = async (db: Db, unitIds: readonly number[]): Promise<UnitLine[]> => {
  if (unitIds.length === 0) return []
  const rows = await unitsOf(db, unitIds)
  const byId = new Map(rows.map((row) => [row.unit_id, row]))
  return unitIds.flatMap((unitId) => byId.get(unitId) ?? [])
}

/** The line of one unit; null: there is no such unit. */
export const unitLine = async (db: Db, unitId: number): Promise<UnitLine | null> => (await linesOf(db, [unitId]))[0] ?? null
