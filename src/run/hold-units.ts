// Units that an answer may not change before a person has seen it, or before the service has published their window: what holds them back, and what people read of it.
import { type RawBuilder, sql } from 'kysely'
import type { Session } from '../db/session.ts'
import type { Db } from '../db/tables.ts'
import { query } from '../db/typed-row.ts'
import { foundGood, noteHeld } from '../ledger/answers.ts'
import { holdUnits } from '../ledger/job-units.ts'
import type { ParseReport, RejectedRow } from '../parse/parse-report.ts'
import type { HeldCode, Loading, LoadResult } from './job-work.ts'
import type { TestedUnit } from './test-units.ts'
import { vanishedColumns } from './vanished-columns.ts'
import { EtlError } from '../core/errors.ts'
import { isPublishedByDay, showSpan, windowAt } from '../core/window.ts'
import { windowsAnswered } from '../ledger/windows.ts'

/** A unit of the job with what came for it. */
export interface Tally extends TestedUnit {
  /** Rows that can be loaded, records that cannot, rows that are loaded. */
  readonly rows: number
  readonly refused: number
  readonly previous: number
  readonly duplicates: number
  /** Its values have rows of periods that were not asked for. */
  readonly isElsewhere: boolean
}

export interface Held extends Tally {
  readonly code: HeldCode
  /** What its tests found. */
  readonly because: string
}

/** What holds a unit back. */
type HoldRule = NonNullable<Awaited<ReturnType<typeof holdRuleOf>>>

type Place = Pick<Tally, 'window' | 'slice'>
type Stray = Pick<RejectedRow, 'part' | 'line' | 'reason'>

/** null: a person allowed the answer. */
export const holdRuleOf = async (db: Db, loading: Loading, parsed: ParseReport) => {
  const { claim, definition, source } = loading.work
  if (claim.released) return null
  const { top = null } = source.limitsOf?.(definition.params) ?? {}
  return {
    /** Columns whose field vanished from the answer. */
    vanished: await vanishedColumns(db, loading, parsed),
    shrink: definition.limits.shrink,
    mostRows: mostRowsOf(loading),
    /** So many rows are wanted; null: all. */
    top,
    /** A rejected record that may be the unit's: what nothing came for is not known to have none. */
    strayOf: strays(parsed.rejected),
  }
}

/** Of records whose unit is not known: one that names a window may be any of that window's, one that names a slice any of that slice's. */
export const strays = (rejected: readonly RejectedRow[]): ((unit: Place) => Stray | null) => {
  const first = new Map<string, Stray>()
  const nameOf = ({ window, slice }: Partial<RejectedRow>) => `${window} ${slice}`
  for (const record of rejected) if (record.unit === null && !first.has(nameOf(record))) first.set(nameOf(record), record)
  return ({ window, slice }) => {
    const places = [
      { window: null, slice: null },
      { window, slice: null },
      { window: null, slice },
    ]
    return first.size === 0
      ? null
      : (places.map((place) => first.get(nameOf(place))).find((found) => found !== undefined) ?? null)
  }
}

/** Units that the answer would rob of their rows, that were cut, that fail a test, or that it has nothing for but rejected records. @param rule null: a person allowed it */
export const heldOf = (rule: HoldRule | null, tallies: readonly Tally[], failing: ReadonlyMap<number, string>): readonly Held[] =>
  tallies.flatMap((tally): readonly Held[] => {
    const because = failing.get(tally.number)
    if (because !== undefined) return [{ ...tally, code: 'TEST_FAILED', because }]
    const code = rule === null ? null : holdCodeOf(rule, tally)
    return code === null ? [] : [{ ...tally, code, because: '' }]
  })

/** null: it may be loaded. */
export const holdCodeOf = (
  { shrink, mostRows, top, vanished, strayOf }: HoldRule,
  { rows, refused, previous, isElsewhere, ...place }: Place & Pick<Tally, 'rows' | 'refused' | 'previous' | 'isElsewhere'>,
): HeldCode | null => {
  if (rows === 0 && refused > 0) return 'TOO_MANY_REJECTS'
  if (rows === 0 && isElsewhere) return 'SHRUNK'
  if (rows > 0 && vanished.length > 0) return 'SCHEMA'
  if (rows === 0 && previous === 0 && strayOf(place) !== null) return 'TOO_MANY_REJECTS'
  const came = rows + refused
  if (isCut(mostRows, { rows, refused })) return 'CAPPED'
  // As many as were wanted: that fewer are wanted than before is no loss.
  if (previous === 0 || (top !== null && came >= top)) return null
  return rows === 0 || previous - came > shrink * previous ? 'SHRUNK' : null
}

/** Units that keep their rows wait for a person. Why the first of them does; null: none does. */
export const holdBack = async (
  { kysely }: Session,
  { work, answer: { answerId } }: Loading,
  held: readonly Held[],
  rule: HoldRule | null,
): Promise<LoadResult['heldBecause']> => {
  if (held.length === 0) return null
  const { claim, definition } = work
  const codes = held.map(({ number, code }) => ({ unitId: number, code }))
  await holdUnits(kysely, claim, answerId, codes)
  // What it was refused for before is over; what is noted of its units stands alone.
  await foundGood(kysely, answerId)
  let because: LoadResult['heldBecause'] = null
  for (const code of ['SCHEMA', 'TEST_FAILED', 'CAPPED', 'SHRUNK', 'TOO_MANY_REJECTS'] as const) {
    const [first, ...others] = held.filter((unit) => unit.code === code)
    if (first === undefined) continue
    const who = claim.cells === 1 ? '' : `, unit ${first.number}${others.length === 0 ? '' : ` and ${others.length} more`}`
    const message = `${claim.box.key}${who}: ${reasonOf(first, rule, definition.pipeline)}`
    await noteHeld(kysely, answerId, code, message)
    because ??= { code, message }
  }
  return because
}

const reasonOf = (
  { code, rows, refused, previous, number, because, isElsewhere, ...place }: Held,
  rule: HoldRule | null,
  pipeline: string,
): string => {
  const release = `\`millrace release ${number}\``
  switch (code) {
    case 'SCHEMA':
      return (
        `none of the records has ${rule?.vanished.join(', ')}, which the definition asks for. The loaded rows stay. If the service calls it otherwise, add that name to ` +
        `\`from\`, behind the one it is asked for by, and run \`millrace replay\`; if it is gone for good, write \`may_vanish: true\` into the column, or ${release} loads this answer.`
      )
    case 'TEST_FAILED':
      return `${because} If the new answer is right, ${release} loads it.`
    case 'CAPPED':
      return (
        `${rows} rows came, as many as were asked for (${rule?.mostRows} each), so there may be more. What is loaded stays. Raise params.limit of ${pipeline} ` +
        `and run \`millrace backfill … --force\`, which costs more; or ${release} loads these.`
      )
    case 'SHRUNK':
      if (previous === 0 && isElsewhere)
        return `the answer has rows of it for other periods alone. If the service has none for this one, ${release} says so.`
      return (
        `the new answer has ${rows} rows, ${previous} are loaded (limits.shrink ${(rule?.shrink ?? 0) * 100}%). ` +
        `The loaded rows stay; if the new answer is right, ${release} loads it.`
      )
    case 'TOO_MANY_REJECTS': {
      const stray = refused === 0 ? (rule?.strayOf(place) ?? null) : null
      if (stray !== null)
        return (
          `no row came for it, and a record that was rejected may be its own (part ${stray.part}, line ${stray.line}: ${stray.reason}). ` +
          `If the service has none for it, ${release} says so; \`millrace backfill … --force\` asks for it again, which costs.`
        )
      return (
        `every record of the new answer was rejected. The loaded rows stay; see \`millrace quarantine list ${pipeline}\`, ` +
        'then correct the columns and run `millrace quarantine retry`.'
      )
    }
  }
}

/** Rows that were asked for of each combination and period; null: all there are. */
export const mostRowsOf = ({ work: { source, definition } }: Loading): number | null =>
  source.limitsOf?.(definition.params).rows ?? null

/** Periods of a window are cut each by itself. */
export const isCut = (mostRows: number | null, { rows, refused }: Pick<Tally, 'rows' | 'refused'>): boolean =>
  mostRows !== null && rows + refused > 0 && (rows + refused) % mostRows === 0

/** Call in the load's transaction. @param rows the answer's, as a table with `_unit_id` */
export const keepCut = async (db: Db, loading: Loading, loaded: readonly Tally[], rows: RawBuilder<unknown>): Promise<void> => {
  const { source, definition } = loading.work
  const { rows: mostRows, top, shareField } = source.limitsOf?.(definition.params) ?? {}
  if (loaded.length === 0 || (mostRows ?? top) === undefined) return
  const numbers = loaded.map(({ number }) => number)
  await query(db)`delete from etl.cut_units where unit_id = any(${numbers}::bigint[])`
  const capped = loaded.filter((unit) => isCut(mostRows ?? null, unit)).map(({ number }) => number)
  const answer = sql`${loading.answer.answerId}::bigint`
  if (capped.length > 0)
    await query(db)`insert into etl.cut_units (unit_id, answer_id, row_limit)
      select unit_id, ${answer}, ${mostRows ?? null}::integer from unnest(${capped}::bigint[]) as x (unit_id)`
  const share = definition.columns.find(({ name, from }) => [...from, name].includes(shareField ?? ''))
  if (top === undefined || share === undefined) return
  // A sum beyond the whole says nothing of it.
  await query(db)`insert into etl.cut_units (unit_id, answer_id, share)
    select _unit_id, ${answer}, least(sum(${sql.ref(share.name)}), 1) from ${rows} r where _unit_id = any(${numbers}::bigint[])
    group by _unit_id having count(*) >= ${top} and sum(${sql.ref(share.name)}) between 0 and 1.001`
}

/** So many values with rows in the window before tell that one without any is not there: a single one may have come to its end. */
const fewestValues = 3

/**
 * The service cuts what is asked for at its newest window (api-facts 75). Throws NOT_PUBLISHED where the answer ends before its last windows, which have never
 * been answered, and no later one was to be published when it was asked for. Asked for alone, a window without rows has none: so none is bought each night.
 */
export const refuseUnpublished = async (
  db: Db,
  loading: Loading,
  loaded: readonly Tally[],
  held: readonly Held[],
): Promise<void> => {
  const { work, answer, units } = loading
  const { claim, definition } = work
  const reached = [...loaded, ...held].reduce(
    (last, { rows, refused, window }) => (rows + refused > 0 ? Math.max(last, window) : last),
    -1,
  )
  const isLate = ({ window }: Tally): boolean => window > reached
  const values = [...loaded, ...held].filter(({ rows, window }) => rows > 0 && window === reached).length
  const [first, last] = [units.windows[reached + 1], units.windows.at(-1)]
  if (claim.released || values < fewestValues || !loaded.some(isLate) || held.some(isLate)) return
  if (first === undefined || last === undefined) return
  const { asked_ms: askedMs, is_answered: isAnswered } = await windowsAnswered(db, claim.pipelineId, first.from, answer.answerId)
  const next = windowAt(last.to, claim.windowEvery)
  if (isAnswered || isPublishedByDay(next, definition.window.publication, askedMs)) return
  throw new EtlError(
    'NOT_PUBLISHED',
    `${claim.box.key}: rows of earlier windows came and none of ${showSpan({ from: first.from, to: last.to })} for any value, so it is taken for not published yet. ` +
      'The next run asks for it again.',
    { follows: { next: 'load up to', day: first.from } },
  )
}
