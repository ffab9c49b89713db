// An answer of many units: surveyed and judged once, then loaded window by window, each in a transaction of its own.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import { type IsoDate, type Window, zeroCounts } from '../core/types.ts'
import { windowAt, windowsBetween } from '../core/window.ts'
import type { Session } from '../db/session.ts'
import { foundGood } from '../ledger/answers.ts'
import { windowsLoaded } from '../ledger/loads.ts'
import { finishJob } from '../ledger/settle-job.ts'
import { openAccepted } from '../load/accepted-units.ts'
import { type Conflict, conflictsOf, dropRepeated, findRepeated, hasRepeated, removeRepeated } from '../load/duplicates.ts'
import { needsAnotherWay } from '../load/another-way.ts'
import { largeRows } from '../load/merge.ts'
import type { AcceptedTable } from '../load/merge-scope.ts'
import { stagedPeriod, surveyRows } from '../load/survey.ts'
import { stagedKey } from '../load/table-columns.ts'
import type { JobWork } from './job-work.ts'
import { type Judging, entryOf, judgeRepeated } from './judge.ts'
import type { LoadResult } from './load-result.ts'
import { loadWindow } from './load-window.ts'
import type { Refused, WindowOrder } from './window-order.ts'

/** From here on the rows of a window are looked up; fewer are read through for each window in less time than an index takes. */
const indexFromRows = 20_000

/** The job's windows that are not loaded yet, oldest first; the job is done with the last one. */
export const loadWindows = async (work: JobWork, session: Session, judging: Judging): Promise<LoadResult> => {
  const { definition, claim, runtime } = work
  const { input, answerId } = judging
  const { staging, parsed } = input
  const accepted = await openAccepted(session, definition, claim.box)
  const loaded = await loadedBefore(work, answerId)
  const windows = windowsOf(work).filter(({ from }) => !loaded.has(from))
  const unsurveyed = loaded.size > 0 ? null : await loadOnlyWindow(work, session, judging, accepted)
  if (unsurveyed !== null) return unsurveyed
  const periods = await surveyRows(session, definition, staging, input.box)
  const rows = rowsByWindow(work, periods)
  const atOnce = await loadOneWindow(work, session, judging, { windows, rows, accepted })
  if (atOnce !== null) return atOnce
  const conflicts = await removeConflicts(work, session, judging)
  await foundGood(runtime.database.kysely, answerId)
  await prepare(session, work, judging, windows.length)
  const refused = await refusedByWindow(work, judging, conflicts ?? [])
  let strays = loaded.size > 0 ? null : parsed.rejected.filter(({ key }) => key === null).map(entryOf)
  let total: LoadResult = { ...zeroCounts(), unitsLoaded: 0, unitsHeld: 0, heldBecause: null, unitsSkipped: 0 }
  for (const [place, window] of windows.entries()) {
    if (work.signal.aborted)
      throw new EtlError('INTERRUPTED', `Stopped while loading ${claim.box.key}; run the same command again to resume.`)
    const result = await loadWindow(work, session, {
      input,
      answerId,
      window,
      accepted,
      rows: rows.get(window.from) ?? 0,
      refused: refused.get(window.from) ?? [],
      strays,
      repeated: 'removed',
      hasRemoved: conflicts !== null,
      // A record whose unit is not known may be any unit's.
      mayEnd: parsed.rejected.every(({ key }) => key !== null),
      isLast: place === windows.length - 1,
    })
    if (result.unitsLoaded > 0) strays = null
    total = sumOf(total, result)
  }
  await dropRepeated(session)
  if (windows.length === 0) await finishJob(runtime.database.kysely, claim, 'loaded')
  return total
}

interface OneWindow {
  readonly windows: readonly Window[]
  readonly rows: ReadonlyMap<IsoDate, number>
  readonly accepted: AcceptedTable
}

/** A clean answer for one window, without a search for repeated keys, which takes as long as the load: they show in it. null: it has some, or is not such an answer. */
const loadOneWindow = async (
  work: JobWork,
  session: Session,
  judging: Judging,
  { windows: [window, ...others], rows, accepted }: OneWindow,
): Promise<LoadResult | null> =>
  window === undefined || others.length > 0 || judging.input.parsed.rejects > 0
    ? null
    : loadClean(work, session, judging, { window, accepted, rows: rows.get(window.from) ?? 0 })

/** The same where the job has no other window and the answer no other units: then the load itself sees rows that nobody asked for. */
const loadOnlyWindow = async (
  work: JobWork,
  session: Session,
  judging: Judging,
  accepted: AcceptedTable,
): Promise<LoadResult | null> => {
  const { input } = judging
  const [window, ...others] = windowsOf(work)
  if (window === undefined || others.length > 0 || input.parsed.rejects > 0 || input.box.key !== work.claim.box.key) return null
  const only = { isUnsurveyed: true, isOnly: true }
  return loadClean(work, session, judging, { window, accepted, rows: input.staging.rows(), ...only })
}

/** A clean answer for the one window that is left; null: a key comes twice after all, or rows were not asked for. */
export const loadClean = async (
  work: JobWork,
  session: Session,
  { input, answerId }: Judging,
  order: Pick<WindowOrder, 'window' | 'accepted' | 'rows' | 'isUnsurveyed' | 'isOnly' | 'filling'>,
): Promise<LoadResult | null> => {
  const clean = { refused: [], strays: null, repeated: 'refused', hasRemoved: false, mayEnd: true, isLast: true } as const
  try {
    const result = await loadWindow(work, session, { input, answerId, ...order, ...clean })
    await foundGood(work.runtime.database.kysely, answerId)
    return result
  } catch (error) {
    if (!needsAnotherWay(error)) throw error
    return null
  }
}

const sumOf = (total: LoadResult, more: LoadResult): LoadResult => ({
  read: total.read + more.read,
  inserted: total.inserted + more.inserted,
  updated: total.updated + more.updated,
  ended: total.ended + more.ended,
  unchanged: total.unchanged + more.unchanged,
  quarantined: total.quarantined + more.quarantined,
  duplicates: total.duplicates + more.duplicates,
  unitsLoaded: total.unitsLoaded + more.unitsLoaded,
  unitsHeld: total.unitsHeld + more.unitsHeld,
  heldBecause: total.heldBecause ?? more.heldBecause,
  unitsSkipped: total.unitsSkipped + more.unitsSkipped,
})

const windowsOf = ({ claim }: JobWork): readonly Window[] =>
  windowsBetween(claim.box.window.from, claim.box.window.to, claim.windowEvery)

/** What a person had loaded again goes over every window anew, but only once: whoever takes it over goes on behind what is done. */
const loadedBefore = async ({ runtime, claim }: JobWork, answerId: number): Promise<ReadonlySet<IsoDate>> =>
  claim.forced && claim.attempts <= 1 ? new Set() : windowsLoaded(runtime.database.kysely, claim, answerId)

/** Takes rows with repeated keys out of the staging, once for all windows; null: there are none. Throws where that refuses the answer. */
const removeConflicts = async (work: JobWork, session: Session, judging: Judging): Promise<readonly Conflict[] | null> => {
  const { definition } = work
  const { staging } = judging.input
  if (!(await hasRepeated(session, definition, staging))) return null
  const repeated = await findRepeated(session, definition, staging)
  await judgeRepeated(work, judging)(repeated)
  const conflicts = await conflictsOf(session, definition)
  await removeRepeated(session, staging)
  return conflicts
}

const prepare = async (session: Session, { definition }: JobWork, { input }: Judging, windows: number): Promise<void> => {
  const { staging } = input
  const period = stagedPeriod(definition)
  if (windows > 1 && period !== null && staging.rows() > indexFromRows) await staging.indexBy(period)
  if (staging.rows() > largeRows) await sql`analyze ${sql.raw(staging.table)}`.execute(session.kysely)
}

const windowOf = ({ claim }: JobWork, period: IsoDate | null): IsoDate =>
  period === null ? claim.box.window.from : windowAt(period, claim.windowEvery).from

const rowsByWindow = (work: JobWork, periods: ReadonlyMap<IsoDate | null, number>): ReadonlyMap<IsoDate, number> => {
  const rows = new Map<IsoDate, number>()
  for (const [period, count] of periods) rows.set(windowOf(work, period), (rows.get(windowOf(work, period)) ?? 0) + count)
  return rows
}

/** Records whose key can be read, by the window it names. */
const refusedByWindow = async (
  work: JobWork,
  { input }: Judging,
  conflicts: readonly Conflict[],
): Promise<ReadonlyMap<IsoDate, readonly Refused[]>> => {
  const keys = new Map(
    conflicts.flatMap(({ ordinals, key }) => ordinals.map((ordinal): [number, Conflict['key']] => [ordinal, key])),
  )
  const records = keys.size === 0 ? [] : await input.rawRecords(new Set(keys.keys()))
  const all: Refused[] = [
    ...input.parsed.rejected.map((reject) => ({ key: reject.key, entry: entryOf(reject) })),
    ...records.map(({ ordinal, ...entry }) => ({ key: keys.get(ordinal) ?? null, entry })),
  ]
  const period = stagedPeriod(work.definition)
  const place = stagedKey(work.definition).findIndex(({ name }) => name === period)
  const byWindow = new Map<IsoDate, Refused[]>()
  for (const refused of all) {
    if (refused.key === null) continue
    const from = windowOf(work, refused.key[place] ?? null)
    const list = byWindow.get(from)
    if (list === undefined) byWindow.set(from, [refused])
    else list.push(refused)
  }
  return byWindow
}
