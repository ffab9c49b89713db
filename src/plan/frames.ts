// What a plan covers: windows that are due, or a range, and some or all values of the lists. Pure.
import { EtlError } from '../core/errors.ts'
import type { Definition, Dimension, IsoDate, JobKind, Window } from '../core/types.ts'
import { addWindows, dateIn, isPastEnd, isPublished, isPublishedByDay, windowsBetween } from '../core/window.ts'
import { suggest } from '../definition/problem.ts'

export interface Scope {
  /** `due`: what a nightly run owes. `range`: a span and nothing outside it. */
  readonly mode: 'due' | 'range'
  /** Half-open, for each definition's own window size; needed with `range`, ignored with `due`. */
  readonly rangeOf?: ((definition: Definition) => Window) | undefined
  /** Ask for loaded units of the range again. Default false; ignored with `due`. */
  readonly force?: boolean | undefined
  /** The ask number at which the forced run began that this run resumes. null: it resumes none. */
  readonly takenSince?: string | null | undefined
  /** Values by dimension; null: all. */
  readonly only?: Only | null | undefined
  /** Order of windows. Default newest first: last month is what readers wait for, and it comes first when quota runs short. */
  readonly order?: 'newest-first' | 'oldest-first' | undefined
}

export interface PlanWindow extends Window {
  /** Number in the calendar; consecutive windows have consecutive ones. */
  readonly place: number
  readonly isPublished: boolean
  /** One of the newest published ones, which are asked about again. Never with a range. */
  readonly isInLookBack: boolean
}

/** Oldest first, without gaps. Throws USAGE where a range is needed and not given. */
export const windowsInScope = (definition: Definition, scope: Scope, nowMs: number): PlanWindow[] => {
  const { lookBack, publication } = definition.window
  const windows = scope.mode === 'due' ? dueWindows(definition, nowMs) : rangeWindows(definition, scope)
  // By the calendar: a table whose data ended long ago has no new window.
  const recentFrom = publication.until === undefined ? null : lookBackStart(definition, nowMs)
  return windows.map((window, place) => ({
    ...window,
    place,
    isPublished: isPublished(window, publication, nowMs),
    isInLookBack: scope.mode === 'due' && place >= windows.length - lookBack && window.from >= (recentFrom ?? ''),
  }))
}

/** Throws USAGE where the definitions do not have the range or the values. Called before anything is recorded or asked for, and again once queries were read. */
export const checkScope = (definitions: readonly Definition[], scope: Scope): void => {
  for (const definition of definitions) {
    if (scope.mode === 'range') rangeWindows(definition, scope)
    const versions = definitions.filter(({ pipeline }) => pipeline === definition.pipeline)
    checkOnly(definition, scope.only ?? new Map(), (name, value) => versions.some((one) => mayHave(one, name, value)))
  }
}

const mayHave = ({ dimensions }: Definition, name: string, value: string): boolean =>
  dimensions.some((one) => one.name === name && (isUnread(one) || spellings(value).some((text) => one.values.includes(text))))

/** Its values are known once its query was read. */
const isUnread = ({ query }: Dimension): boolean => query !== undefined && query.isRead !== true

const rangeWindows = (definition: Definition, { rangeOf }: Scope): Window[] => {
  if (rangeOf === undefined) throw new EtlError('USAGE', 'A range of months is needed; write --from YYYY-MM --to YYYY-MM.')
  const { from, to } = rangeOf(definition)
  return windowsBetween(from, to, definition.window.every).filter((window) => !isPastEnd(window, definition.window.publication))
}

/** Published windows from the definition's first one to now. */
const dueWindows = ({ window: { every, from, publication } }: Definition, nowMs: number): Window[] => {
  const tomorrow = addWindows(dateIn(nowMs, publication.timeZone), 'day', 1)
  return windowsBetween(from, tomorrow, every).filter((window) => isPublished(window, publication, nowMs))
}

/** First day of the oldest window of the look-back: older ones can be closed. null: no window is published. */
export const lookBackStart = ({ window }: Definition, nowMs: number): IsoDate | null => {
  const { every, lookBack, publication } = window
  const today = dateIn(nowMs, publication.timeZone)
  // Three months back are enough: the newest published window is never further back than two months.
  const recent = windowsBetween(addWindows(today, 'month', -3), today, every).filter((one) =>
    isPublishedByDay(one, publication, nowMs),
  )
  const newest = recent.at(-1)
  return newest === undefined ? null : addWindows(newest.from, every, 1 - lookBack)
}

const monthlyDays = 28

/**
 * Over how many nights units take turns, and how old an answer must be at its turn to be checked. Each unit has its turn at least twice in `window.full_check`. It is checked if its answer would be
 * older than that by its next turn: so no answer goes unchecked for longer, and none younger than half of it is checked. Half a day is left for nights that begin late.
 * null: reports with a check once a month or less: the calendar buys them again every month anyway, and a check due at the same time would buy them twice.
 */
export const checkCycle = (kind: JobKind, days: number) => {
  // Units of reports have one turn together, so that they are packed together.
  if (kind === 'report') return days < monthlyDays ? { nights: 1, olderThanDays: days - 0.5 } : null
  const nights = Math.max(1, Math.floor((days - 1) / 2))
  return { nights, olderThanDays: Math.max(0.5, days - nights - 0.5) }
}

/** Which night of a cycle of `nights` it is, by the service's own calendar. */
export const nightOf = ({ window }: Definition, nights: number, nowMs: number): number => {
  const day = dateIn(nowMs, window.publication.timeZone)
  return Math.floor(Date.parse(`${day}T00:00:00Z`) / 86_400_000) % nights
}

/** Values by dimension; a dimension that is not named is not narrowed. */
type Only = ReadonlyMap<string, readonly string[]>

/**
 * `only` in the spelling of the lists. Throws USAGE for a dimension or a value the definition does not have, naming the nearest or the known ones.
 * @param isElsewhere whether another version has the value: then it is accepted here, and asks for nothing
 */
export const checkOnly = (definition: Definition, only: Only, isElsewhere: IsElsewhere = () => false): Only =>
  new Map([...only].map(([name, values]) => [name, listedValues(definition, name, values, isElsewhere)]))

type IsElsewhere = (dimension: string, value: string) => boolean

const listedValues = (
  definition: Definition,
  name: string,
  values: readonly string[],
  isElsewhere: IsElsewhere,
): readonly string[] => {
  const names = definition.dimensions.map((dimension) => dimension.name)
  const found = definition.dimensions.find((dimension) => dimension.name === name)
  if (found !== undefined && isUnread(found)) return values
  const list = found?.values
  if (list === undefined) {
    throw new EtlError('USAGE', `--only ${name}=...: ${definition.pipeline} has no dimension '${name}'${near(name, names)}`)
  }
  if (values.length === 0) throw new EtlError('USAGE', `--only ${name}= names no value; write --only ${name}=${list[0]}.`)
  return [
    ...new Set(
      values.map((value) => {
        const spelled = spellings(value).find((spelling) => list.includes(spelling))
        if (spelled !== undefined || isElsewhere(name, value)) return spelled ?? value
        const { pipeline, file } = definition
        const message = `--only ${name}=${value}: '${value}' is not in the list of ${pipeline} (${file})${near(value, list)}`
        throw new EtlError('USAGE', message)
      }),
    ),
  ]
}

const spellings = (value: string): readonly string[] => [value, value.trim().toLowerCase()]

const near = (word: string, candidates: readonly string[]): string =>
  candidates.length === 0 ? '; leave the option out.' : `.${suggest(word, candidates)}`
