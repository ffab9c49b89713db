// Units and rows of windows that are not closed, of which there may be a million: a page counts them once, and again when something has changed.
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Row } from '../../db/typed-row.ts'
import type { Db } from '../../db/tables.ts'

type Key = Row<'etl.window_list', 'pipeline_id' | 'window_from'>

/** A window, and by what it is known that its totals have changed. */
export interface CountedWindow extends Key {
  readonly closed: boolean
  /** Of closed windows: units with rows, and rows. */
  readonly closed_units: number | null
  readonly closed_rows: number | null
  /** When rows last came; null: never. */
  readonly loaded_at: string | null
  /** Units that are asked for or held. */
  readonly openWithRows: number
  readonly openWithoutRows: number
}

/** What is in a window. */
export interface WindowTotals {
  /** Units with rows, whatever is asked for beside them. */
  readonly loaded: number
  /** Units without rows that nobody asks for. */
  readonly idle: number
  readonly rows: number
}

export const noTotals: WindowTotals = { loaded: 0, idle: 0, rows: 0 }

export const windowKey = ({ pipeline_id, window_from }: Key): string => `${pipeline_id}/${window_from}`

interface Known extends WindowTotals, Pick<CountedWindow, 'loaded_at' | 'openWithoutRows'> {
  /** Of this process's clock. */
  readonly countedMs: number
}

interface Memo {
  readonly known: Map<string, Known>
  /** Windows are being counted again for who comes next. */
  counting: boolean
  /** Not before then, so that counting takes at most a tenth of the time. */
  nextMs: number
  recounts: number
}

const memos = new WeakMap<Db, Memo>()
const memoOf = (db: Db): Memo => {
  const memo = memos.get(db) ?? { known: new Map(), counting: false, nextMs: 0, recounts: 0 }
  memos.set(db, memo)
  return memo
}

/** What no load tells of, for example a statement of an operator, shows after so long. */
const trustedMs = 60_000
/** Who finds figures out of date that are older waits a moment for newer ones. */
const behindForMs = 1_000
const patienceMs = 40

/** Rows come with a load, units with a job. What is asked for no more, or asked for again, is or was idle. */
const isBehind = (known: Known | undefined, { loaded_at, openWithoutRows }: CountedWindow): boolean =>
  known === undefined ||
  known.loaded_at !== loaded_at ||
  openWithoutRows < known.openWithoutRows ||
  (openWithoutRows > known.openWithoutRows && known.idle > 0)

/** How often windows were counted again in the background: who shows their totals shows them anew when it grows. */
export const recounts = (db: Db): number => memoOf(db).recounts

interface Totals {
  /** By `windowKey`. */
  readonly totals: ReadonlyMap<string, WindowTotals>
  /** Age of the oldest figures that a change since has made out of date; 0: none are. */
  readonly behindMs: number
}

/**
 * Reads the units of windows that are not closed: of all of them, or, where former totals do, of those of which nothing is known. The others that changed
 * are then counted beside it; if that takes long the former totals are told, with their age.
 */
export const windowTotals = async (db: Db, windows: readonly CountedWindow[], remembered: boolean): Promise<Totals> => {
  const closed = new Map(windows.filter((window) => window.closed).map((window) => [windowKey(window), closedTotals(window)]))
  const open = windows.filter((window) => !window.closed)
  if (!remembered) return { totals: new Map([...closed, ...(await count(db, open))]), behindMs: 0 }
  const { known } = memoOf(db)
  // Should it be opened again, that is known of it.
  for (const [key, totals] of closed) known.set(key, totals)
  const unknown = open.filter((window) => !known.has(windowKey(window)))
  for (const [key, totals] of await count(db, unknown)) known.set(key, totals)
  const ageOf = (window: CountedWindow): number => performance.now() - (known.get(windowKey(window))?.countedMs ?? 0)
  const behind = (): CountedWindow[] => open.filter((window) => isBehind(known.get(windowKey(window)), window))
  const old = new Set([...behind(), ...open.filter((window) => ageOf(window) > trustedMs)])
  const counting = recount(db, [...old])
  for (const window of open) raise(known, window)
  if (behind().some((window) => ageOf(window) > behindForMs)) await Promise.race([counting, sleep(patienceMs)])
  return {
    totals: new Map(windows.map((window) => [windowKey(window), known.get(windowKey(window)) ?? noTotals])),
    behindMs: Math.max(0, ...behind().map(ageOf)),
  }
}

/** More is asked for than was: should less be later, something became idle. */
const raise = (known: Map<string, Known>, window: CountedWindow): void => {
  const former = known.get(windowKey(window))
  if (former !== undefined && !isBehind(former, window))
    known.set(windowKey(window), { ...former, openWithoutRows: window.openWithoutRows })
}

const closedTotals = ({ closed_units, closed_rows, loaded_at, openWithoutRows }: CountedWindow): Known => ({
  ...{ loaded: closed_units ?? 0, idle: 0, rows: closed_rows ?? 0 },
  ...{ loaded_at, openWithoutRows, countedMs: performance.now() },
})

/** Resolves when it is over, also where the ledger is away: that is told to the next reader. */
const recount = async (db: Db, windows: readonly CountedWindow[]): Promise<void> => {
  const memo = memoOf(db)
  const startedMs = performance.now()
  if (windows.length === 0 || memo.counting || startedMs < memo.nextMs) return
  memo.counting = true
  const counted = await count(db, windows).catch(() => new Map<string, Known>())
  for (const [key, totals] of counted) memo.known.set(key, totals)
  const endedMs = performance.now()
  memo.counting = false
  memo.recounts += 1
  memo.nextMs = endedMs + 9 * (endedMs - startedMs)
}

const count = async (db: Db, windows: readonly CountedWindow[]): Promise<ReadonlyMap<string, Known>> => {
  if (windows.length === 0) return new Map()
  const countedMs = performance.now()
  const { rows } = await sql<Key & WindowTotals>`
    select w.pipeline_id, w.window_from, c.loaded, c.idle, l.rows
    from unnest(${windows.map((one) => one.pipeline_id)}::integer[], ${windows.map((one) => one.window_from)}::date[]) as w (pipeline_id, window_from)
      cross join lateral (select count(u.answer_id)::float8 as loaded,
        (count(*) filter (where u.answer_id is null and u.job_id is null and u.held_answer_id is null))::float8 as idle
        from etl.units u where u.pipeline_id = w.pipeline_id and u.window_from = w.window_from) c
      cross join lateral (select coalesce(sum(x.rows_inserted - x.rows_ended), 0)::float8 as rows from etl.loads x
        where x.pipeline_id = w.pipeline_id and x.window_from = w.window_from and x.outcome = 'loaded') l`.execute(db)
  const totals = new Map(rows.map((row) => [windowKey(row), row]))
  return new Map(
    windows.map((window) => {
      const { loaded_at, openWithoutRows } = window
      const { loaded, idle, rows: stored } = totals.get(windowKey(window)) ?? noTotals
      return [windowKey(window), { loaded, idle, rows: stored, loaded_at, openWithoutRows, countedMs }]
    }),
  )
}
