// Units that an answer must not change until a person has seen it, or until the service has published their window: the rules, and the messages about them.
import { type RawBuilder, sql } from 'kysely'
import type { Session } from '../db/session.ts'
import type { Db } from '../db/tables.ts'
import { query } from '../db/typed-row.ts'
import { markGood, recordHoldReason } from '../ledger/answers.ts'
import { holdUnits } from '../ledger/job-units.ts'
import type { ParseReport, RejectedRow } from '../parse/parse-report.ts'
import type { HeldCode, Load, LoadResult } from './job-work.ts'
import type { TestedUnit } from './test-units.ts'
import { vanishedColumns } from './vanished-columns.ts'
import { EtlError } from '../core/errors.ts'
import { isPublishedByDay, showSpan, windowAt } from '../core/window.ts'
import { windowsAnswered } from '../ledger/windows.ts'

/** A unit of the job with what came for it. */
export interface Tally extends TestedUnit {
  /** `rows` can be loaded, `refused` records cannot, `previous` rows are loaded now. */
  readonly rows: number
  readonly refused: number
  readonly previous: number
  readonly duplicates: number
  /** The answer has rows of its values for periods that were not requested. */
  readonly hasOtherPeriods: boolean
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

/** null: a person released the answer. */
export const holdRuleOf = async (db: Db, loading: Load, parsed: ParseReport) => {
  const { claim, definition, source } = loading.work
  if (claim.released) return null
  const { top = null } = source.limitsOf?.(definition.params) ?? {}
  return {
    /** Columns whose field vanished from the answer. */
    vanished: await vanishedColumns(db, loading, parsed),
    shrink: definition.limits.shrink,
    mostRows: mostRowsOf(loading),
    /** The number of rows that are wanted; null: all. */
    top,
    /** A rejected record that may belong to the unit: then a unit without rows is not known to be empty. */
    strayOf: strays(parsed.rejected),
  }
}

/** A rejected record without a known unit may belong to any unit of the window or of the slice that it names, or of the answer where it names neither. */
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

/** Units that would lose their rows, were cut, fail a test, or got nothing but rejected records. @param rule null: a person released the answer */
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
  {
    rows,
    refused,
    previous,
    hasOtherPeriods,
    ...place
  }: Place & Pick<Tally, 'rows' | 'refused' | 'previous' | 'hasOtherPeriods'>,
): HeldCode | null => {
  if (rows === 0 && refused > 0) return 'TOO_MANY_REJECTS'
  if (rows === 0 && hasOtherPeriods) return 'SHRUNK'
  if (rows > 0 && vanished.length > 0) return 'SCHEMA'
  if (rows === 0 && previous === 0 && strayOf(place) !== null) return 'TOO_MANY_REJECTS'
  const came = rows + refused
  if (isCut(mostRows, { rows, refused })) return 'CAPPED'
  // All wanted rows came. Fewer than before are no loss: fewer are wanted now.
  if (previous === 0 || (top !== null && came >= top)) return null
  return rows === 0 || previous - came > shrink * previous ? 'SHRUNK' : null
}

/** Held units keep their loaded rows and wait for a person. Returns why the first of them does; null: none is held. */
export const holdBack = async (
  { kysely }: Session,
  { work, answer: { answerId } }: Load,
  held: readonly Held[],
  rule: HoldRule | null,
): Promise<LoadResult['heldBecause']> => {
  if (held.length === 0) return null
  const { claim, definition } = work
  const codes = held.map(({ number, code }) => ({ unitId: number, code }))
  await holdUnits(kysely, claim, answerId, codes)
  // A former refusal of the whole answer is over; what is noted of its held units stays.
  await markGood(kysely, answerId)
  let because: LoadResult['heldBecause'] = null
  for (const code of ['SCHEMA', 'TEST_FAILED', 'CAPPED', 'SHRUNK', 'TOO_MANY_REJECTS'] as const) {
    const [first, ...others] = held.filter((unit) => unit.code === code)
    if (first === undefined) continue
    const who = claim.cells === 1 ? '' : `, unit ${first.number}${others.length === 0 ? '' : ` and ${others.length} more`}`
    const message = `${claim.box.key}${who}: ${reasonOf(first, rule, definition.pipeline)}`
    await recordHoldReason(kysely, answerId, code, message)
    because ??= { code, message }
  }
  return because
}

const reasonOf = (
  { code, rows, refused, previous, number, because, hasOtherPeriods, ...place }: Held,
  rule: HoldRule | null,
  pipeline: string,
): string => {
  const release = `\`millrace release ${number}\``
  switch (code) {
    case 'SCHEMA':
      return (
        `none of the records has ${rule?.vanished.join(', ')}, which the definition asks for. The loaded rows stay. If the service renamed the field, add the new name to ` +
        `\`from\`, after the one that is requested, and run \`millrace replay\`; if the service dropped it, write \`may_vanish: true\` into the column, or ${release} loads this answer.`
      )
    case 'TEST_FAILED':
      return `${because} If the new answer is right, ${release} loads it.`
    case 'CAPPED':
      return (
        `${rows} rows came, exactly the requested limit (${rule?.mostRows} each), so rows may be missing. The loaded rows stay. Raise params.limit of ${pipeline} ` +
        `and run \`millrace backfill … --force\`, which costs more; or ${release} loads this answer.`
      )
    case 'SHRUNK':
      if (previous === 0 && hasOtherPeriods)
        return `the answer has rows of this unit for other periods only. If the service has none for this period, ${release} confirms it.`
      return (
        `the new answer has ${rows} rows, ${previous} are loaded (limits.shrink ${(rule?.shrink ?? 0) * 100}%). ` +
        `The loaded rows stay; if the new answer is right, ${release} loads it.`
      )
    case 'TOO_MANY_REJECTS': {
      const stray = refused === 0 ? (rule?.strayOf(place) ?? null) : null
      if (stray !== null)
        return (
          `the answer has no row of this unit, and a rejected record may belong to it (part ${stray.part}, line ${stray.line}: ${stray.reason}). ` +
          `If the service has none for it, ${release} confirms it; \`millrace backfill … --force\` buys it again.`
        )
      return (
        `every record of the new answer was rejected. The loaded rows stay; see \`millrace quarantine list ${pipeline}\`, ` +
        'then correct the columns and run `millrace quarantine retry`.'
      )
    }
  }
}

/** Rows requested for each combination and period; null: all. */
export const mostRowsOf = ({ work: { source, definition } }: Load): number | null =>
  source.limitsOf?.(definition.params).rows ?? null

/** The limit cuts each period of a window by itself, so a multiple of it may have been cut, too. */
export const isCut = (mostRows: number | null, { rows, refused }: Pick<Tally, 'rows' | 'refused'>): boolean =>
  mostRows !== null && rows + refused > 0 && (rows + refused) % mostRows === 0

/** Records which loaded units may have been cut. Call in the load's transaction. @param rows the answer's, as a table with `_unit_id` */
export const keepCut = async (db: Db, loading: Load, loaded: readonly Tally[], rows: RawBuilder<unknown>): Promise<void> => {
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
  // Shares that add up to more than the whole are wrong, so they are not recorded.
  await query(db)`insert into etl.cut_units (unit_id, answer_id, share)
    select _unit_id, ${answer}, least(sum(${sql.ref(share.name)}), 1) from ${rows} r where _unit_id = any(${numbers}::bigint[])
    group by _unit_id having count(*) >= ${top} and sum(${sql.ref(share.name)}) between 0 and 1.001`
}

/** An empty window counts as not published only if so many values have rows in the window before it: a single value may have ended. */
const fewestValues = 3

/**
 * The service cuts a request at its newest window (api-facts 75). Throws NOT_PUBLISHED where the answer has no rows for its last windows, no earlier answer
 * covered them, and no later window was due for publication at the time of the request. A window requested alone and empty counts as empty: no night buys it again.
 */
export const refuseUnpublished = async (
  db: Db,
  loading: Load,
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
    `${claim.box.key}: the answer has rows of earlier windows but none of ${showSpan({ from: first.from, to: last.to })}, so this counts as not published yet. ` +
      'The next run requests it again.',
    { follows: { next: 'load up to', day: first.from } },
  )
}
