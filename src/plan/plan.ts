// A definition, a range and what is done already -> the units to work on. Pure: no clock, no database, no network.
import { EtlError } from '../core/errors.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Definition, Slice, Unit, UnitState, Window } from '../core/types.ts'
import { addWindows, dateIn, isPublished, lastRestatementMs, showWindow, windowAt, windowsBetween } from '../core/window.ts'
import { checkOnly } from './only.ts'
import { type Only, type Share, slicesOf } from './slices.ts'
import { unitKey } from './unit-key.ts'

/** A unit the ledger knows, of the same pipeline and version. */
export interface ExistingUnit {
  readonly unit: Unit
  readonly state: UnitState
  readonly edition: number
  /** When it was last loaded or last found unchanged at the service; null: never. */
  readonly loadedAtMs: number | null
}

/** `held` waits for a person, `not-published` for the service, `done` for nothing: these three are shown and not worked on. */
export type PlanReason = 'new' | 'unfinished' | 'look-back' | 'forced' | 'not-published' | 'held' | 'done'

export interface PlannedUnit extends Unit {
  readonly reason: PlanReason
  /** The unit is loaded and asked for anew: its edition grows. Otherwise the edition at hand goes on and buys nothing twice. */
  readonly newEdition: boolean
}

export interface PlanRequest {
  readonly definition: Definition
  readonly kind: SourceSpec['kind']
  readonly existing: readonly ExistingUnit[]
  readonly nowMs: number
  /** `due`: what a nightly run owes. `range`: a span and nothing outside it. */
  readonly mode: 'due' | 'range'
  /** Half-open; needed with `range`, ignored with `due`. */
  readonly range?: Window | undefined
  /** Ask for loaded units of the range again. Default false; ignored with `due`. */
  readonly force?: boolean | undefined
  /** Values by dimension; null: all. */
  readonly only?: Only | null | undefined
  /** Order of windows. Default newest first: last month is what readers wait for, and it comes first when quota runs short. */
  readonly order?: 'newest-first' | 'oldest-first' | undefined
}

export interface Plan {
  /** By window, within a window by key. With `due` loaded units that owe nothing are left out. */
  readonly units: readonly PlannedUnit[]
  /** Units in the range nobody asks for any more: their values left the lists, or newer units replaced them. */
  readonly retired: readonly ExistingUnit[]
}

/** Throws USAGE for an unknown `only`, DEFINITION when units were made with another window size or other dimensions. */
export const planUnits = (request: PlanRequest): Plan => {
  const { definition, existing } = request
  const only = checkOnly(definition, request.only ?? new Map())
  const own = existing.filter(({ unit }) => unit.pipeline === definition.pipeline && unit.version === definition.version)
  const byWindow = Map.groupBy(own, ({ unit }) => checkedStart(unit, definition))
  const windows = request.mode === 'due' ? dueWindows(request) : windowsOf(request)
  const input: WindowInput = { ...request, only, lookBackFrom: lookBackStart(windows, request) }
  const ordered = request.order === 'oldest-first' ? windows : windows.toReversed()
  const plans = ordered.map((window) => planWindow(window, byWindow.get(window.from) ?? [], input))
  return { units: plans.flatMap(({ units }) => units), retired: plans.flatMap(({ retired }) => retired) }
}

/** Start of the oldest window that is looked at again; null: none is. */
const lookBackStart = (windows: readonly Window[], { mode, definition }: PlanRequest): string | null => {
  const { lookBack } = definition.window
  return mode === 'range' || lookBack === 0 ? null : (windows.at(-Math.min(lookBack, windows.length))?.from ?? null)
}

const windowsOf = ({ definition, range }: PlanRequest): readonly Window[] => {
  if (range === undefined) throw new EtlError('USAGE', 'A range of months is needed; write --from YYYY-MM --to YYYY-MM.')
  return windowsBetween(range.from, range.to, definition.window.every)
}

/** Published windows from the definition's first one to now, oldest first. */
const dueWindows = ({ definition, nowMs }: PlanRequest): readonly Window[] => {
  const { every, from, publication } = definition.window
  const tomorrow = addWindows(dateIn(nowMs, publication.timeZone), 'day', 1)
  return windowsBetween(from, tomorrow, every).filter((window) => isPublished(window, publication, nowMs))
}

const checkedStart = (unit: Unit, { window, pipeline }: Definition): string => {
  const expected = windowAt(unit.window.from, window.every)
  if (expected.from === unit.window.from && expected.to === unit.window.to) return unit.window.from
  throw new EtlError(
    'DEFINITION',
    `${pipeline} loads a ${window.every} at a time, but its unit ${unit.key} was made for ${showWindow(unit.window)}. ` +
      'Two sizes would overlap in one table: write the former window.every, or raise version and write its migration.',
  )
}

interface WindowInput extends Omit<PlanRequest, 'only'> {
  readonly only: Only
  /** Windows from this day on are looked at again; null: none. */
  readonly lookBackFrom: string | null
}

const planWindow = (window: Window, existing: readonly ExistingUnit[], input: WindowInput): Plan => {
  const { dimensions } = input.definition
  const coverings = existing.map((one) => ({ one, slice: one.unit.slice, loadedAtMs: one.loadedAtMs, key: one.unit.key }))
  const { fresh, shares, retired } = slicesOf(dimensions, coverings, input.only)
  const published = isPublished(window, input.definition.window.publication, input.nowMs)
  const known = new Map(existing.map((one) => [one.unit.key, one]))
  const made = fresh.map((slice) => newUnit(window, slice, published ? 'new' : 'not-published', known, input))
  const kept = shares.flatMap((share) => planShare(window, { ...share, unit: share.unit.one }, published, known, input))
  const units = [...made, ...kept].sort((left, right) => (left.key < right.key ? -1 : 1))
  return { units, retired: retired.map(({ one }) => one) }
}

const newUnit = (
  window: Window,
  slice: Slice,
  reason: PlanReason,
  known: ReadonlyMap<string, ExistingUnit>,
  { definition: { pipeline, version } }: WindowInput,
): PlannedUnit => {
  const key = unitKey(pipeline, version, window, slice)
  const before = known.get(key)?.state
  return { key, pipeline, version, window, slice, reason: before === 'held' ? 'held' : reason, newEdition: before === 'loaded' }
}

// A paid or running answer is finished as it is, even when a value of it is no longer wanted; all else is cut to what is wanted.
const planShare = (
  window: Window,
  share: Share<ExistingUnit>,
  published: boolean,
  known: ReadonlyMap<string, ExistingUnit>,
  input: WindowInput,
): readonly PlannedUnit[] => {
  const { unit, state } = share.unit
  const instead = (reason: PlanReason): readonly PlannedUnit[] =>
    share.whole
      ? [{ ...unit, reason, newEdition: state === 'loaded' }]
      : share.remains.map((slice) => newUnit(window, slice, reason, known, input))
  if (state === 'held') return [{ ...unit, reason: 'held', newEdition: false }]
  if (state === 'running' || state === 'waiting' || state === 'landed')
    return [{ ...unit, reason: 'unfinished', newEdition: false }]
  if (state === 'planned' || state === 'failed') return instead(published ? unfinishedReason(state, input) : 'not-published')
  const reason = refreshReason(window, share.unit, input)
  if (reason !== null) return instead(reason)
  return input.mode === 'due' ? [] : [{ ...unit, reason: 'done', newEdition: false }]
}

/** Force on a failed unit allows what failed to be asked for anew, also where that buys a report again. */
const unfinishedReason = (state: 'planned' | 'failed', { mode, force }: WindowInput): PlanReason =>
  state === 'failed' && mode === 'range' && force === true ? 'forced' : 'unfinished'

/** Why a loaded unit is asked for anew; null when it is not. */
const refreshReason = (window: Window, { loadedAtMs }: ExistingUnit, input: WindowInput): 'forced' | 'look-back' | null => {
  if (input.mode === 'range') return input.force === true ? 'forced' : null
  if (input.lookBackFrom === null || window.from < input.lookBackFrom) return null
  // A walk is probed with one record; a report costs quota, so it is bought again only after the service may have restated it.
  if (input.kind === 'walk') return 'look-back'
  const restatedAt = lastRestatementMs(input.definition.window.publication, input.nowMs)
  return loadedAtMs === null || loadedAtMs < restatedAt ? 'look-back' : null
}
