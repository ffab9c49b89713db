// Settles the units of an answer whose rows have arrived: taken or skipped, tested, held or loaded, and everything that commits with them.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import { type RowCounts, zeroCounts } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import { finishJob, lockJob } from '../ledger/claim-fence.ts'
import { type AnswerUnits, isUsedUnitNumber, isUnitOf, detachSkipped, type LockedUnits, lockUnits } from '../ledger/job-units.ts'
import { recordLoad, recordTests, type WindowLoad } from '../ledger/loads.ts'
import { insertQuarantine, type QuarantineEntry, supersede, supersedeReplaced } from '../ledger/quarantine.ts'
import { recordRequests } from '../ledger/requests.ts'
import {
  type StagingTable,
  staged,
  type Loaded,
  loadedRows,
  momentOf,
  protectKeys,
  sumOf,
  writeDifference,
  type Written,
} from '../load/difference.ts'
import { addChanges } from '../load/figure-changes.ts'
import { addDimensions } from '../load/load-dimensions.ts'
import { attachMonths, type MadeMonths, rowsOfMonths } from '../load/partition.ts'
import { refreshSummaries } from '../load/summaries.ts'
import { dataTable, inScope, tableName, type UnitScope } from '../load/table-columns.ts'
import {
  type Held,
  heldOf,
  holdBack,
  holdRuleOf,
  isCut,
  keepCut,
  mostRowsOf,
  refuseUnpublished,
  type Tally,
} from './hold-units.ts'
import { type Load, type LoadResult, type ParsedAnswer, tinyBytes, type LoadMode } from './job-work.ts'
import { conflictRecords } from './rows-of-job.ts'
import { testUnits } from './test-units.ts'
import { driftOf, fieldsOf } from './vanished-columns.ts'

/** An answer whose rows are in the database, found good as a whole. */
export interface Arrived {
  readonly loading: Load
  readonly read: ParsedAnswer
  /** null: the rows are in the table already, or in months that are being made. */
  readonly staging: StagingTable | null
  readonly made: MadeMonths | null
}

/** The outcome of the job's units: all writes that follow derive from it. */
interface Shared {
  readonly taken: LockedUnits
  readonly scope: UnitScope
  readonly loaded: readonly Tally[]
  readonly held: readonly Held[]
}

const nothingLoaded: Loaded = { byUnit: new Map(), rows: 0, newest: null }

/** Call in the load's transaction. Returns the way to start over with, where another load came between or a key comes twice. Throws FENCED. */
export const settleLoad = async (session: Session, arrived: Arrived): Promise<LoadResult | LoadMode> => {
  const { loading, staging, read } = arrived
  const { work, answer } = loading
  const { claim, definition } = work
  const started = work.runtime.clock.now()
  await lockJob(session.kysely, claim)
  const found = await lockUnits(session.kysely, claim, answer.answerId)
  const taken = { ...found, skipped: [...found.skipped, ...loading.units.outside] }
  if (staging === null && (taken.hasEarlierAnswer || !taken.isLater)) return 'merge'
  const all: UnitScope = { window: claim.box.window, slice: claim.box.slice, leftOut: taken.skipped }
  const before = staging === null ? nothingLoaded : await loadedRows(session, definition, all)
  await refuseUngiven(session, loading, before)
  const tallies = tallyUnits(arrived, taken, before)
  const rule = await holdRuleOf(session.kysely, loading, read.parsed)
  const keeping = heldOf(rule, tallies, new Map()).map(({ number }) => number)
  const answered = { units: tallies, rows: rowsOfAnswer(arrived, all), mayBeLoaded: staging !== null }
  const tested = await testUnits(session, loading, answered, keeping)
  const held = heldOf(rule, tallies, tested.held)
  // Repeated rows count twice until a deduplicating load finds them; in the table the key refuses them. Rows of held units must not be in the table.
  const isDoubtful = staging === null ? tested.held.size > 0 || held.some(({ rows }) => rows > 0) : tested.failures.length > 0
  if (isDoubtful && read.repeated === null) return 'deduplicate'
  const isHeld = new Set(held.map(({ number }) => number))
  const shared: Shared = {
    taken,
    scope: { ...all, leftOut: [...taken.skipped, ...isHeld] },
    loaded: tallies.filter(({ number }) => !isHeld.has(number)),
    held,
  }
  await refuseUnpublished(session.kysely, loading, shared.loaded, held)
  const written = await writeRows(session, arrived, shared, before)
  if (written === null) return 'deduplicate'
  const heldBecause = await holdBack(session, loading, held, rule)
  const drift = await driftOf(session.kysely, loading, read.parsed)
  const counts = await record(session, arrived, shared, { ...written, started, drift })
  if (definition.tests.length > 0) await recordTests(session.kysely, claim, answer.answerId, tested.failures)
  await detachSkipped(session.kysely, claim, taken.skipped)
  await recordRequests(session.kysely, [...work.requests])
  await finishJob(session.kysely, claim, 'loaded', { mayPass: taken.skipped.length > 0, isLocked: true })
  if (claim.cells > 1 || taken.hasEarlierAnswer) await supersedeReplaced(session.kysely, claim.pipelineId, claim.pipeline)
  const units = { unitsLoaded: shared.loaded.length, unitsHeld: held.length, unitsSkipped: taken.skipped.length }
  return { ...counts, ...units, heldBecause, drift }
}

/** Throws TABLE_DRIFT where a loaded row bears a unit number that the ledger has not given: a later unit would get that number and the row with it. */
const refuseUngiven = async ({ kysely }: Session, { work, units }: Load, { byUnit }: Loaded): Promise<void> => {
  const own = new Set(units.numbers)
  const highest = [...byUnit.keys()].reduce((most, number) => (own.has(number) ? most : Math.max(most, number)), 0)
  if (highest === 0 || (await isUsedUnitNumber(kysely, highest))) return
  throw new EtlError(
    'TABLE_DRIFT',
    `${work.claim.box.key}: rows in data.${tableName(work.definition)} bear the number of unit ${highest}, which this ledger has not given to any. ` +
      'Nothing was loaded. If the ledger was created again, restore the one that belongs to the data; if somebody put the rows in by hand, delete them.',
  )
}

/** The job's units that take the answer, with what came for them. */
const tallyUnits = (
  { loading: { units }, read: { mark, repeated } }: Arrived,
  { skipped }: LockedUnits,
  before: Loaded,
): readonly Tally[] => {
  const isSkipped = new Set(skipped)
  const conflicts = new Map<number, number>()
  for (const { unitId } of repeated?.conflicts ?? []) conflicts.set(unitId, (conflicts.get(unitId) ?? 0) + 1)
  const tallies: Tally[] = []
  for (const [place, number] of units.numbers.entries()) {
    if (number === 0 || isSkipped.has(number)) continue
    const [duplicates, conflicting] = [repeated?.duplicates.get(number) ?? 0, conflicts.get(number) ?? 0]
    tallies.push({
      ...{ number, window: Math.floor(place / units.sliceIds.length), slice: place % units.sliceIds.length },
      rows: (mark.rows[place] ?? 0) - duplicates - conflicting,
      refused: (mark.rejects[place] ?? 0) + conflicting,
      hasOtherPeriods: mark.others[place % units.sliceIds.length] === 1,
      previous: before.byUnit.get(number) ?? 0,
      duplicates,
    })
  }
  return tallies
}

/** The answer's rows as a table, with `_unit_id`. */
const rowsOfAnswer = ({ staging, made, loading }: Arrived, scope: UnitScope): RawBuilder<unknown> => {
  const { definition } = loading.work
  if (staging !== null) return staged({ staging, scope })
  return made === null
    ? sql`(select * from ${dataTable(definition)} t where ${inScope(definition, scope, 't')})`
    : rowsOfMonths(made)
}

/** Rows that were written, and the moment they bear; null: that of the transaction. */
interface WrittenAt extends Written {
  readonly loadedAt: string | null
}

const nothingWritten: WrittenAt = {
  inserted: new Map(),
  updated: new Map(),
  ended: new Map(),
  changes: new Map(),
  loadedAt: null,
}

/** null: a key comes twice. */
const writeRows = async (
  session: Session,
  arrived: Arrived,
  { taken, scope, loaded, held }: Shared,
  before: Loaded,
): Promise<WrittenAt | null> => {
  const { staging, made, loading, read } = arrived
  const { definition, claim } = loading.work
  if (staging === null) {
    // No rows of held units are among these: only rejects came for them.
    if (made !== null) await attachMonths(session, definition, made)
    const inserted = new Map(loaded.filter(({ rows }) => rows > 0).map(({ number, rows }) => [number, rows]))
    return { ...nothingWritten, inserted }
  }
  if (loaded.length === 0) return nothingWritten
  const { rejected } = read.parsed
  const keys = [
    ...rejected.flatMap(({ key }) => (key === null ? [] : [key])),
    ...(read.repeated?.conflicts.map(({ key }) => key) ?? []),
  ]
  const moment = await momentOf(session, definition, scope, [before.newest, taken.lastLoad])
  const written = await writeDifference({
    ...{ session, definition, scope, staging, moment, runId: claim.runId },
    came: loaded.reduce((sum, { rows }) => sum + rows, 0),
    loaded: before.rows - held.reduce((sum, { previous }) => sum + previous, 0),
    hasProtected: await protectKeys(session, definition, keys),
    // A record whose key cannot be read may be any of the loaded rows, and a limit may have cut rows off: then no loaded row is known to be missing.
    mayEnd: rejected.every(({ key }) => key !== null) && !loaded.some((unit) => isCut(mostRowsOf(loading), unit)),
  })
  if (written !== null) return { ...written, loadedAt: moment.loadedAt }
  if (read.repeated === null) return null
  throw new EtlError('INTERNAL', `${claim.box.key}: a key of the answer comes twice after duplicates were taken out.`)
}

/** Writes the records that go with the rows. Returns the counts of all windows. */
const record = async (
  session: Session,
  arrived: Arrived,
  shared: Shared,
  written: WrittenAt & Pick<LoadResult, 'drift'> & { readonly started: number },
): Promise<RowCounts> => {
  const { loading, read } = arrived
  const { work, answer, units } = loading
  const { claim, definition, runtime } = work
  const { loaded, scope } = shared
  const windows = countWindows(arrived, shared, written)
  const isWithoutRows = windows.some(({ withoutRows }) => withoutRows.length > 0)
  if (isWithoutRows || sumOf(written.inserted) > 0) {
    const rows = rowsOfAnswer(arrived, scope)
    const slice = valuesOf(Object.keys(claim.box.slice), units, loaded)
    await addDimensions(session.kysely, definition, {
      slice,
      rows,
      isTiny: arrived.staging === null && answer.bytes <= tinyBytes,
    })
  }
  if (loaded.length > 0)
    await recordLoad(session.kysely, {
      ...{ claim, answerId: answer.answerId, windows, loadedAt: written.loadedAt },
      units: loaded.map(({ number }) => number),
      drift: written.drift,
      fields: fieldsOf(read.parsed),
      milliseconds: runtime.clock.now() - written.started,
    })
  if (isWithoutRows || sumOf(written.inserted) + sumOf(written.updated) + sumOf(written.ended) > 0)
    await refreshSummaries(
      session.kysely,
      definition,
      { ...scope, units: isUnitOf(claim), hasGaps: units.numbers.includes(0) },
      runtime.marts,
    )
  await keepCut(session.kysely, loading, loaded, rowsOfAnswer(arrived, scope))
  await quarantine(session, arrived, shared)
  const total = zeroCounts()
  for (const { counts } of windows) for (const name of countNames) total[name] += counts[name]
  return total
}

const valuesOf = (dimensions: readonly string[], { sliceIds, values }: AnswerUnits, loaded: readonly Tally[]) => {
  const slices = [...new Set(loaded.map(({ slice }) => slice))].map((slice) => values.get(sliceIds[slice] ?? 0) ?? [])
  return new Map(dimensions.map((name, place) => [name, [...new Set(slices.map((one) => one[place] ?? ''))].sort()]))
}

const countNames = ['read', 'inserted', 'updated', 'ended', 'unchanged', 'quarantined', 'duplicates'] as const

/** Windows with loaded units. Records of no unit, and ended rows that somebody put in by hand under a number of no unit, count with the first. */
const countWindows = ({ loading, read }: Arrived, { loaded }: Shared, written: Written): readonly WindowLoad[] => {
  const { windows, sliceIds } = loading.units
  const byWindow = Map.groupBy(loaded, ({ window }) => window)
  const known = new Set(loaded.map(({ number }) => number))
  const others = [...written.ended].reduce((sum, [number, rows]) => sum + (known.has(number) ? 0 : rows), 0)
  const strays = read.parsed.rejected.filter(({ unit }) => unit === null).length
  return [...byWindow].map(([window, tallies], index) => {
    const sum = (of: (one: Tally) => number): number => tallies.reduce((total, one) => total + of(one), 0)
    const of = (rows: ReadonlyMap<number, number>): number => sum(({ number }) => rows.get(number) ?? 0)
    const [inserted, updated, rows] = [of(written.inserted), of(written.updated), sum((one) => one.rows)]
    const quarantined = sum(({ refused }) => refused) + (index === 0 ? strays : 0)
    const duplicates = sum((one) => one.duplicates)
    return {
      windowFrom: windows[window]?.from ?? '',
      units: tallies.length,
      withoutRows: tallies.filter((one) => one.rows + one.refused === 0).map(({ slice }) => sliceIds[slice] ?? 0),
      counts: {
        read: rows + quarantined + duplicates,
        unchanged: rows - inserted - updated,
        ended: of(written.ended) + (index === 0 ? others : 0),
        ...{ inserted, updated, quarantined, duplicates },
      },
      changes: addChanges(written.changes, tallies.map(({ number }) => number)), // biome-ignore format: one look
    }
  })
}

/** Replaces the open quarantine of the units by the refused records. Records of no unit are written if any unit is loaded or held. */
const quarantine = async (session: Session, { loading, read }: Arrived, { loaded, held }: Shared): Promise<void> => {
  const { work, answer, units } = loading
  const { claim } = work
  const { kysely } = session
  const isLoaded = new Set(loaded.map(({ number }) => number))
  const isHeld = new Set(held.map(({ number }) => number))
  const isForAny = loaded.length + held.length > 0
  const refused: QuarantineEntry[] = read.parsed.rejected.flatMap((reject): QuarantineEntry[] => {
    const unitId = reject.unit === null ? null : (units.numbers[reject.unit] ?? 0)
    if (unitId === null) return isForAny ? [{ ...reject, unitId }] : []
    return isLoaded.has(unitId) || isHeld.has(unitId) ? [{ ...reject, unitId }] : []
  })
  const conflicts = (read.repeated?.conflicts ?? []).filter(({ unitId }) => isLoaded.has(unitId) || isHeld.has(unitId))
  const owners = new Map(conflicts.map(({ ordinal, unitId }) => [ordinal, unitId]))
  const records = await conflictRecords(loading, new Set(owners.keys()))
  const entries = [...refused, ...records.map(({ ordinal, ...entry }) => ({ ...entry, unitId: owners.get(ordinal) ?? null }))]
  const heldIds = [...new Set(entries.flatMap(({ unitId }) => (unitId != null && isHeld.has(unitId) ? [unitId] : [])))]
  if (heldIds.length > 0) await supersede(kysely, claim, answer.answerId, heldIds)
  // An answer that is loaded for the first time has no strays on record.
  if (isForAny && (claim.answer !== null || read.parsed.rejected.length > 0))
    await supersede(kysely, claim, answer.answerId, 'strays')
  await insertQuarantine(kysely, answer.answerId, claim, entries)
}
