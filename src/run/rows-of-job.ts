// Parses the rows of a landed answer, a job's or all: each with its constants and its unit's number, in the order of the COPY.
import { columnTypes } from '../core/column-types.ts'
import { EtlError } from '../core/errors.ts'
import { windowAt } from '../core/window.ts'
import { arrayText } from '../db/typed-row.ts'
import type { QuarantineEntry } from '../ledger/quarantine.ts'
import type { RowsChunk } from '../load/copy-rows.ts'
import { constantColumns, measureColumns, periodColumn, parsedColumns, parsedKey, unitColumns } from '../load/table-columns.ts'
import { escapeCell } from '../parse/copy-text.ts'
import { createAnswerParser, readRecords } from '../parse/parse.ts'
import { compileParsePlan, type ParsePlan } from '../parse/parse-plan.ts'
import { cutRaw, longestRaw, type ParseReport, shortRaw } from '../parse/parse-report.ts'
import { createUnitMark, type MarkedUnits, type MarkPlaces, type UnitMark } from '../parse/unit-mark.ts'
import type { Load } from './job-work.ts'

/**
 * How an answer is parsed for one job. @param counted metrics whose values are counted, for which every cell is read; null: none are
 * @param isDeduplicating whether repeated keys are looked for, in all of the answer: the service's count is not that of a part
 */
export const planRows = (
  { work, answer, units }: Load,
  { isDeduplicating, counted }: { readonly isDeduplicating: boolean; readonly counted: readonly string[] | null },
): ParsePlan & { readonly mark: UnitMark } => {
  const { definition, source } = work
  const plan = compileParsePlan(definition, answer.box, source, answer.completeness.dialect, counted ?? [])
  const constants = constantColumns(definition, answer.box).map(({ value }) => `\t${escapeCell(constantText(value))}`)
  const mark = createUnitMark(
    { ...markedUnits(plan, { work, units }), keepsOthers: isDeduplicating },
    { ...placesOf({ work }, counted !== null), others: plan.others.length },
    constants.join(''),
  )
  return { ...plan, mark }
}

/** As PostgreSQL writes it. */
export const constantText = (value: string | boolean | number | readonly string[]): string =>
  typeof value === 'object' ? String(arrayText([...value])) : typeof value === 'boolean' ? (value ? 't' : 'f') : String(value)

const markedUnits = (
  plan: ParsePlan,
  { work: { definition, claim }, units }: Pick<Load, 'work' | 'units'>,
): Omit<MarkedUnits, 'keepsOthers'> => {
  const columns = unitColumns(definition).map(({ name }) => ({
    // As the answer spells the value after its cast: `007` is category 7.
    cast: plan.columns.find(({ column }) => column.name === name)?.cast ?? ((value: string) => value),
    place: Object.keys(claim.box.slice).indexOf(name),
  }))
  const nameOf = (values: readonly string[]): string =>
    columns.map(({ cast, place }) => escapeCell(cast(values[place] ?? ''))).join('\t')
  const slices = new Map(units.sliceIds.map((id, place) => [nameOf(units.values.get(id) ?? []), place]))
  const windows = new Map(units.windows.map(({ from }, place) => [from, place]))
  const known = new Map<string, number>()
  const windowOf = (period: string): number => {
    const place = known.get(period) ?? windows.get(windowAt(period, claim.windowEvery).from) ?? -1
    known.set(period, place)
    return place
  }
  return { slices, sliceCount: units.sliceIds.length, windowOf, numbers: units.numbers }
}

const placesOf = ({ work: { definition } }: Pick<Load, 'work'>, countsValues: boolean): Omit<MarkPlaces, 'others'> => {
  const inAnswer = parsedColumns(definition)
  const key = parsedKey(definition).map(({ name }) => name)
  const told = unitColumns(definition).map(({ name }) => name)
  const period = periodColumn(definition)
  const placeIn = (list: readonly string[], name: string): number | null => (list.includes(name) ? list.indexOf(name) : null)
  const all = inAnswer.map(({ name }) => name)
  const measures = measureColumns(definition)
  return {
    slice: told.map((name) => all.indexOf(name)),
    period: placeIn(all, period),
    keySlice: told.map((name) => key.indexOf(name)),
    keyPeriod: placeIn(key, period),
    counted: countsValues
      ? Uint8Array.from(inAnswer, (column) => (!measures.includes(column) ? 0 : columnTypes[column.type].isText ? 2 : 1))
      : null,
  }
}

/** Rows as they are parsed. What was rejected or counted is in `parsed` and in the mark. Throws as the parser does, and INTERRUPTED. */
export async function* rowsOf(
  { work, answer }: Load,
  plan: ParsePlan,
  parsed: ParseReport,
): AsyncGenerator<RowsChunk, void, void> {
  const parser = createAnswerParser(plan, parsed)
  for await (const part of answer.parts()) {
    for await (const chunk of parser.parse(part)) {
      if (work.signal.aborted)
        throw new EtlError('INTERRUPTED', `Stopped while loading ${work.claim.box.key}; run the same command again to resume.`)
      yield chunk
    }
  }
  const rest = parser.rest()
  if (rest !== null) yield rest
}

const reason = 'another row of the same answer has the same key and other values'

/** Up to so many raw records are kept in full. */
const few = 1_000

/** A record that shares its key with another one. */
interface ConflictRecord extends QuarantineEntry {
  /** Number of the row among those of the answer, from 1. */
  readonly ordinal: number
}

/** Raw records of rows by the number that a deduplicating load gave them, read again from the landing. */
export const conflictRecords = async (loading: Load, ordinals: ReadonlySet<number>): Promise<readonly ConflictRecord[]> => {
  if (ordinals.size === 0) return []
  const plan = planRows(loading, { isDeduplicating: true, counted: null })
  const most = ordinals.size > few ? shortRaw : longestRaw
  const entries: ConflictRecord[] = []
  for await (const { raw, ...record } of readRecords(loading.answer.parts(), plan, ordinals))
    entries.push({ ...record, column: null, reason, raw: cutRaw(raw, most) })
  return entries
}
