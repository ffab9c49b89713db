// How complete each of a pipeline's last months is, and when the next one is due: from the counts of windows and the calendar.
import type { Definition } from '../../core/types.ts'
import {
  addWindows,
  alignDown,
  dateIn,
  dayOfMonth,
  isPastEnd,
  isPublished,
  publicationDate,
  windowAt,
  windowsBetween,
} from '../../core/window.ts'
import type { Db } from '../../db/tables.ts'
import { type Lists, query, type Row, type Texts } from '../../db/typed-row.ts'
import { slicesWanted } from '../../ledger/slices.ts'
import type { CoverageState } from './read-coverage.ts'
import { unitsIn, type WindowState } from './read-windows.ts'

/** `partly`: some units are loaded. `later`: the service has not published it, or the definition begins after it. */
export type MonthState = CoverageState | 'partly' | 'later'

/** One month (`2026-01`). `complete`: every wanted unit of every window in it has an answer, with or without rows; `wanted`: units, over its windows. */
export type MonthLine = ReturnType<typeof monthLine>

type WantedLine = Awaited<ReturnType<typeof wantedLines>>[number]

/**
 * For the version of each pipeline that readers see, else the newest: the number of `wanted` slices, and the first days of closed windows that lack a slice
 * added to the lists later (`unfinished`). Reads windows and, once a generation, the wanted slices; no units.
 */
export const wantedLines = async (db: Db) => {
  const rows = await query<
    Row<'etl.pipelines', 'pipeline_id' | 'pipeline' | 'version' | 'generation'> & Lists<Texts<'unfinished'>>
  >(db)`
    select p.pipeline_id, p.pipeline, p.version, p.generation,
      array(select w.window_from::text from etl.windows w where w.pipeline_id = p.pipeline_id and w.closed_generation < p.generation and exists
        (select from etl.slices s where s.pipeline_id = p.pipeline_id and s.wanted_until is null and s.wanted_since > w.closed_generation)) as unfinished
    from (select distinct on (pipeline) o.* from etl.pipelines o left join etl.published_now n using (pipeline)
      order by pipeline, n.version = o.version desc nulls last, o.version desc, o.updated_at desc) p order by p.pipeline`
  return Promise.all(
    rows.map(async ({ generation, ...line }) => ({
      ...line,
      wanted: await slicesWanted(db, { pipeline_id: line.pipeline_id, generation }),
    })),
  )
}

interface MonthInput {
  readonly definition: Definition | undefined
  readonly wanted: WantedLine | undefined
  /** States of all pipelines, also of windows without a unit. */
  readonly states: readonly WindowState[]
  /** Months in which rows changed lately, `2026-01`. */
  readonly restated: ReadonlySet<string>
  /** Whether all held units of the month wait for approval: that is no failure and no gap. */
  waitsForApproval(month: string): boolean
  readonly nowMs: number
}

/** The last `count` months up to the present one, oldest first. */
export const lastMonths = (input: MonthInput, count: number): MonthLine[] => {
  const own = input.states.filter(({ pipeline_id }) => pipeline_id === input.wanted?.pipeline_id)
  const byWindow = Map.groupBy(own, ({ window_from }) => window_from)
  const newest = alignDown(dateIn(input.nowMs, 'UTC'), 'month')
  return windowsBetween(addWindows(newest, 'month', 1 - count), addWindows(newest, 'month', 1), 'month').map(({ from, to }) =>
    monthLine(input, byWindow, from, to),
  )
}

const monthLine = (
  { definition, wanted, restated, waitsForApproval, nowMs }: MonthInput,
  byWindow: ReadonlyMap<string, readonly WindowState[]>,
  from: string,
  to: string,
) => {
  const month = from.slice(0, 7)
  const known = [...byWindow.keys()].filter((first) => first >= from && first < to)
  const due = definition === undefined ? [] : publishedIn(definition, from, to, nowMs)
  const rows = known.flatMap((first) => byWindow.get(first) ?? [])
  const slices = wanted?.wanted ?? 0
  const isWhole = (first: string): boolean =>
    !(wanted?.unfinished.includes(first) ?? false) && unitsIn((byWindow.get(first) ?? []).filter((row) => row.loaded)) >= slices
  const windows = [...new Set([...known, ...due])]
  const isTelling = ({ state }: WindowState): boolean => state !== 'held' || !waitsForApproval(month)
  const complete = windows.length > 0 && slices > 0 && windows.every(isWhole) && rows.every((row) => row.loaded)
  return {
    month,
    state: windows.length === 0 ? 'later' : stateOf(rows.filter(isTelling), complete, restated.has(month)),
    complete,
    loaded: unitsIn(rows.filter((row) => row.loaded)),
    wanted: windows.length * slices,
  }
}

/** The most urgent state of the month's units. */
const stateOf = (rows: readonly WindowState[], complete: boolean, restated: boolean): MonthState => {
  const has = (...states: readonly string[]): boolean => rows.some(({ state }) => states.includes(state))
  if (has('held')) return 'held'
  if (has('failed')) return 'failed'
  if (complete) return restated ? 'restated' : 'loaded'
  if (has('running', 'landed')) return 'running'
  if (has('waiting')) return 'waiting'
  return rows.some((row) => row.loaded) ? 'partly' : 'missing'
}

const publishedIn = ({ window: { every, from: first, publication } }: Definition, from: string, to: string, nowMs: number) =>
  windowsBetween(from > first ? from : first, to, every)
    .filter((window) => window.from >= from && isPublished(window, publication, nowMs))
    .map((window) => window.from)

/** The newest complete months without a gap; null: no month is complete. */
export const completeSpan = (months: readonly MonthLine[]): { readonly from: string; readonly to: string } | null => {
  const last = months.findLastIndex(({ complete }) => complete)
  const gap = months.slice(0, last + 1).findLastIndex(({ complete }) => !complete)
  const [from, to] = [months[gap + 1], months[last]]
  return from === undefined || to === undefined ? null : { from: from.month, to: to.month }
}

export type DueMonth = NonNullable<ReturnType<typeof nextDue>>

/**
 * The month after the complete ones, with the day by which it should be loaded: the definition's `expect`, else the day on which the service publishes it.
 * null: there is no definition, or the table has ended and is complete. @param completeTo the newest complete month; null: none
 */
export const nextDue = (definition: Definition | undefined, completeTo: string | null, nowMs: number) => {
  if (definition === undefined) return null
  const { every, from, publication } = definition.window
  const today = dateIn(nowMs, publication.timeZone)
  const newest = addWindows(alignDown(today, 'month'), 'month', -1)
  const next = completeTo === null ? newest : addWindows(`${completeTo}-01`, 'month', 1)
  const window = windowAt(next < from ? from : next, 'month')
  if (isPastEnd(window, publication)) return null
  // The last week that begins in it ends after it.
  const newestOf = windowsBetween(window.from, window.to, every).at(-1) ?? window
  const on =
    definition.expect === null ? publicationDate(newestOf, publication) : dayOfMonth(window.to, definition.expect.monthBy)
  return { month: window.from.slice(0, 7), on, overdue: on < today }
}
