// Units and rows by window, the base of all totals, and the coverage of a pipeline by month. A window that is not closed may have a million units:
// a page counts them once, and again only after a change.
import { sql } from 'kysely'
import { sum } from '../../core/counted.ts'
import type { UnitState } from '../../core/types.ts'
import type { Db } from '../../db/tables.ts'
import { type Flags, type Numbers, query, type Row } from '../../db/typed-row.ts'
import { isSucceeded, slicesWanted } from '../../ledger/slices.ts'
import { asNumbersOrNull } from './shared-columns.ts'

/** Units of one window in one state. `loaded`: they have an answer, also while a new one is requested; `open`: requested or held; `shown`: readers see this version; `needed`: no later version that readers see has loaded them. */
export type WindowState = Awaited<ReturnType<typeof openStates>>[number]

export type Windows = Awaited<ReturnType<typeof readWindows>>

/** Which windows, and whether unchanged windows are counted again. */
interface Looking {
  /** Only these; empty: all. */
  readonly pipelines?: readonly string[]
  /** Reuse counts of unchanged windows, for pages that reload often. Default false: count everything. */
  readonly remembered?: boolean
}

/** For closed windows: the units still wanted, and the rows counted at the closing. For other windows: counts from units and loads. */
export const readWindows = async (db: Db, { pipelines = [], remembered = false }: Looking = {}) => {
  const [listed, open, absent] = await Promise.all([
    listedWindows(db, pipelines),
    openStates(db, pipelines),
    absentStates(db, pipelines),
  ])
  const openOf = Map.groupBy(open, windowKey)
  const windows = listed.map((window) => ({ ...window, ...openUnits(openOf.get(windowKey(window)) ?? []) }))
  const totals = await windowTotals(db, windows, remembered)
  return {
    states: [...windows.flatMap((window) => settledStates(window, totals.get(windowKey(window)))), ...open].sort(byWindow),
    absent,
    loads: windows.map((window) => loadsOf(window, totals.get(windowKey(window)))),
  }
}

/** Whether readers see the version; true where none is published yet. The same rule as in bi.coverage. */
const isShown = (table: 'w' | 'p') =>
  sql<boolean>`not exists (select from etl.published_now n
    where n.pipeline = ${sql.ref(`${table}.pipeline`)} and n.version <> ${sql.ref(`${table}.version`)})`

const newestLoad = (outcome: 'loaded' | 'unchanged') =>
  sql<string | null>`(select max(l.loaded_at) from etl.loads l
    where l.pipeline_id = w.pipeline_id and l.window_from = w.window_from and l.outcome = ${sql.lit(outcome)})`

/** `loaded`: units with rows, also while a new answer is requested; `idle`: wanted units without rows that no job requests; `rows`. */
type WindowTotals = Numbers<'loaded' | 'idle' | 'rows'>

const noTotals: WindowTotals = { loaded: 0, idle: 0, rows: 0 }

type Key = Row<'etl.window_list', 'pipeline_id' | 'window_from'>

const windowKey = ({ pipeline_id, window_from }: Key): string => `${pipeline_id}/${window_from}`

interface Counted extends WindowTotals {
  /** Time of the last load and number of open units: equal means that nothing has changed. */
  readonly mark: string
  /** By this process's monotonic clock. */
  readonly countedMs: number
}

const memos = new WeakMap<Db, Map<string, Counted>>()

/** A change without a load or job, such as an operator's SQL, shows after so long. */
const trustedMs = 60_000

const markOf = ({ loaded_at, openWithoutRows }: ListedWindow & ReturnType<typeof openUnits>): string =>
  `${loaded_at}/${openWithoutRows}`

/** By `windowKey`; the units of closed windows are not read. */
const windowTotals = async (db: Db, windows: readonly (ListedWindow & ReturnType<typeof openUnits>)[], remembered: boolean) => {
  const known = (remembered ? memos.get(db) : undefined) ?? new Map<string, Counted>()
  if (remembered) memos.set(db, known)
  const countedMs = performance.now()
  const isKnown = (found: Counted | undefined, mark: string): boolean =>
    found?.mark === mark && countedMs - found.countedMs < trustedMs
  const unknown = windows.filter((window) => !window.closed && !isKnown(known.get(windowKey(window)), markOf(window)))
  const totals = await countUnits(db, unknown)
  for (const window of unknown)
    known.set(windowKey(window), { ...(totals.get(windowKey(window)) ?? noTotals), mark: markOf(window), countedMs })
  return new Map(
    windows.map((window) => [
      windowKey(window),
      window.closed
        ? { loaded: window.closed_units ?? 0, idle: 0, rows: window.closed_rows ?? 0 }
        : (known.get(windowKey(window)) ?? noTotals),
    ]),
  )
}

const countUnits = async (db: Db, windows: readonly Key[]): Promise<ReadonlyMap<string, WindowTotals>> => {
  if (windows.length === 0) return new Map()
  const rows = await query<Key & WindowTotals>(db)`
    select w.pipeline_id, w.window_from, c.loaded - g.loaded as loaded, c.idle - g.idle as idle, l.rows
    from unnest(${windows.map((one) => one.pipeline_id)}::integer[], ${windows.map((one) => one.window_from)}::date[]) as w (pipeline_id, window_from)
      cross join lateral (select count(u.answer_id)::float8 as loaded,
        (count(*) filter (where u.answer_id is null and u.job_id is null and u.held_answer_id is null))::float8 as idle
        from etl.units u where u.pipeline_id = w.pipeline_id and u.window_from = w.window_from) c
      -- Slices that left the lists; there are few.
      cross join lateral (select count(u.answer_id)::float8 as loaded, (count(*) - count(u.answer_id))::float8 as idle
        from etl.slices s cross join lateral (select u.answer_id from etl.units u where u.pipeline_id = w.pipeline_id
          and u.window_from = w.window_from and u.slice_id = s.slice_id and u.job_id is null and u.held_answer_id is null offset 0) u
        where s.pipeline_id = w.pipeline_id and s.wanted_until is not null) g
      cross join lateral (select coalesce(sum(x.rows_inserted - x.rows_ended), 0)::float8 as rows from etl.loads x
        where x.pipeline_id = w.pipeline_id and x.window_from = w.window_from and x.outcome = 'loaded') l`
  return new Map(rows.map((row) => [windowKey(row), row]))
}

const listedWindows = async (db: Db, pipelines: readonly string[]) => {
  const rows = await db
    .selectFrom('etl.window_list as w')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'w.pipeline_id')
    .leftJoin('etl.windows as c', (join) =>
      join.onRef('c.pipeline_id', '=', 'w.pipeline_id').onRef('c.window_from', '=', 'w.window_from'),
    )
    .select(['w.pipeline_id', 'w.pipeline', 'w.window_from', 'w.closed', 'w.looked_at', 'p.generation', 'c.closed_generation'])
    .select(asNumbersOrNull('w', 'closed_units', 'closed_rows'))
    .select(isShown('w').as('shown'))
    .select([newestLoad('loaded').as('loaded_at'), newestLoad('unchanged').as('unchanged_at')])
    .$if(pipelines.length > 0, (query) => query.where('w.pipeline', 'in', pipelines))
    .execute()
  return Promise.all(
    rows.map(async ({ generation, closed_generation, ...window }) => ({
      ...window,
      // Without slices that left the lists since the window was closed.
      closed_units:
        !window.closed || closed_generation === generation
          ? window.closed_units
          : await slicesWanted(db, { pipeline_id: window.pipeline_id, generation }, closed_generation ?? 0),
    })),
  )
}

type ListedWindow = Awaited<ReturnType<typeof listedWindows>>[number]

// Runs the subquery only for held and failed units: there may be a million others.
const isNeeded = sql<Flags<'needed'>>`(select not (u.state in ('held', 'failed') and ${isSucceeded}) as needed)`

const openStates = (db: Db, pipelines: readonly string[]) =>
  db
    .selectFrom('etl.open_units as u')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'u.pipeline_id')
    .innerJoinLateral(isNeeded.as('x'), (join) => join.onTrue())
    .select(['x.needed', 'u.pipeline_id', 'p.pipeline', 'u.window_from', sql<UnitState>`u.state`.as('state')])
    .select([sql<boolean>`u.answer_id is not null`.as('loaded'), sql<number>`count(*)::float8`.as('units')])
    .select([isShown('p').as('shown'), sql<boolean>`true`.as('open')])
    .$if(pipelines.length > 0, (query) => query.where('p.pipeline', 'in', pipelines))
    .groupBy(['u.pipeline_id', 'p.pipeline', 'p.version', 'u.window_from', 'u.state', sql`u.answer_id is not null`, 'x.needed'])
    .execute()

/** Weeks or days without a unit in months that have other units: such a month is incomplete, although no run has planned them. The same rule as in bi.coverage. */
export const absentStates = async (db: Db, pipelines: readonly string[] = []): Promise<WindowState[]> => {
  const windows = await db
    .selectFrom('etl.expected_windows as w')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'w.pipeline_id')
    .select(['w.pipeline_id', 'w.pipeline', 'w.window_from', 'p.generation', isShown('w').as('shown')])
    .where('p.window_every', '<>', 'month')
    .where(
      sql<boolean>`not exists (select from etl.units u where u.pipeline_id = w.pipeline_id and u.window_from = w.window_from)`,
    )
    .where(sql<boolean>`exists (select from etl.units u where u.pipeline_id = w.pipeline_id
      and u.window_from >= date_trunc('month', w.window_from::timestamp) and u.window_from < date_trunc('month', w.window_from::timestamp) + interval '1 month')`)
    .$if(pipelines.length > 0, (query) => query.where('w.pipeline', 'in', pipelines))
    .execute()
  return Promise.all(
    windows.map(async ({ generation, ...window }) => ({
      ...{ ...window, state: 'planned' as const, needed: true, loaded: false, open: false },
      units: await slicesWanted(db, { pipeline_id: window.pipeline_id, generation }),
    })),
  )
}

const openUnits = (open: readonly WindowState[]) => ({
  openWithRows: unitsIn(open.filter(({ loaded }) => loaded)),
  openWithoutRows: unitsIn(open.filter(({ loaded }) => !loaded)),
})

/** Units that no job requests: loaded ones, and planned ones without rows. */
const settledStates = (
  { pipeline_id, pipeline, window_from, shown, openWithRows }: ListedWindow & ReturnType<typeof openUnits>,
  { loaded, idle }: WindowTotals = noTotals,
): WindowState[] => {
  const of = { pipeline_id, pipeline, window_from, shown, needed: true, open: false }
  const states: WindowState[] = [
    { ...of, state: 'loaded', loaded: true, units: Math.max(0, loaded - openWithRows) },
    { ...of, state: 'planned', loaded: false, units: idle },
  ]
  return states.filter(({ units }) => units > 0)
}

/** `last_checked_at`: when the service was last asked whether anything changed. */
const loadsOf = (
  { pipeline, window_from, shown, loaded_at, unchanged_at, looked_at }: ListedWindow,
  { rows }: WindowTotals = noTotals,
) => ({
  ...{ pipeline, window_from, shown, rows, last_loaded_at: loaded_at },
  last_checked_at: newestOf([loaded_at, unchanged_at, looked_at]),
})

/** null: none is known. */
export const newestOf = (moments: readonly (string | null)[]): string | null =>
  moments.reduce((newest, at) => (newest === null || (at !== null && at > newest) ? at : newest), null)

const byWindow = (a: WindowState, b: WindowState): number =>
  compare(a.pipeline, b.pipeline) || compare(a.window_from, b.window_from)
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

export type PipelineCounts = ReturnType<typeof pipelineCounts>[number]

const inTrouble = ({ state }: WindowState): boolean => state === 'held' || state === 'failed'

/** Of a version that readers do not see, only held and failed units count, unless the later version has loaded them. */
const counting = (states: readonly WindowState[]): WindowState[] =>
  states.flatMap((row) => (row.shown ? [row] : inTrouble(row) && row.needed ? [{ ...row, loaded: false }] : []))

/** By name; pipelines that have no unit yet are left out. */
export const pipelineCounts = ({ states, loads }: Windows) =>
  [...Map.groupBy(states, ({ pipeline }) => pipeline)].sort(byName).map(([pipeline, all]) => {
    const own = counting(all)
    const ownLoads = loads.filter((row) => row.pipeline === pipeline && row.shown)
    const loaded = own.flatMap((row) => (row.loaded ? [row.window_from] : [])).sort()
    return {
      pipeline,
      units: Object.fromEntries(
        [...Map.groupBy(own, ({ state }) => state)].map(([state, rows]) => [state, unitsIn(rows)] as const),
      ),
      rows: sum(ownLoads, 'rows'),
      newest_window: loaded.at(-1) ?? null,
      oldest_window: loaded[0] ?? null,
      last_loaded_at: newestOf(ownLoads.map(({ last_loaded_at }) => last_loaded_at)),
    }
  })

export const unitsIn = (states: readonly WindowState[]): number => sum(states, 'units')

export type CoverageMonth = ReturnType<typeof coverageMonths>[number]

/** By pipeline and month (`2026-01`). `loaded`: units with rows, also while a new answer is requested; `open`: neither loaded nor held or failed. */
export const coverageMonths = ({ states, absent }: Pick<Windows, 'states' | 'absent'>) =>
  [...Map.groupBy(counting([...states, ...absent]), ({ pipeline, window_from }) => `${pipeline}/${window_from.slice(0, 7)}`)]
    .sort(byName)
    .map(([key, own]) => ({
      pipeline: own[0]?.pipeline ?? '',
      month: key.slice(-7),
      loaded: unitsIn(own.filter((row) => row.loaded)),
      total: unitsIn(own),
      held: unitsIn(own.filter(({ state }) => state === 'held')),
      failed: unitsIn(own.filter(({ state }) => state === 'failed')),
      open: unitsIn(own.filter((row) => !row.loaded && !inTrouble(row))),
    }))

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => compare(a, b)
