// One JSON record as a row: fields found by name, every number as it is written.
import { columnTypes } from '../core/column-types.ts'
import { isUtf8 } from 'node:buffer'
import { isSame } from '../core/bytes.ts'
import type { JsonRecords } from '../core/types.ts'
import { CellError, isNullWord } from './cast-text.ts'
import type { Lanes } from './csv-reader.ts'
import { absent, createDirectRow } from './json-direct.ts'
import { cut, eachField, skipValue } from '../core/json-scan.ts'
import { fieldName, type PlannedColumn, RowError } from './parse-plan.ts'
import { rawText } from './raw-text.ts'
import { addUnknown } from './parse-report.ts'
import { type RowSink, rejectRow, takeRow } from './row-sink.ts'

/** One record after the other becomes a row or a reject. */
export interface RecordLane {
  /** Takes the record that begins at `at`; returns its end, or `cut` (and takes nothing). Throws JsonError. @param line see `RecordPlace` */
  read(bytes: Buffer, at: number, line: number): number
  /** Takes a record of a list that was read before. */
  take(records: JsonRecords, index: number): void
}

/** What a field's name means: a column's place and how good the name is for it. */
interface Meaning {
  readonly place: number
  readonly rank: number
}

const nowhere: Meaning = { place: -1, rank: 0 }

const quote = 34
const openBrace = 123
const openBracket = 91

/** @param lanes with `full` every cell goes through its cast */
export const createRecordLane = (sink: RowSink, lanes: Lanes): RecordLane => {
  const { plan } = sink
  const meaningOf = fieldMeanings(sink)
  const starts = new Int32Array(plan.columns.length)
  const ends = new Int32Array(plan.columns.length)
  const ranks = new Int32Array(plan.columns.length)
  const direct = lanes === 'fast' && sink.onAccepted === null ? createDirectRow(sink) : null
  let current: Buffer = Buffer.alloc(0)
  let isCleanText = false
  let twice: string | null = null
  let fields = 0
  const onField = (nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): void => {
    const meanings = meaningOf(current, nameAt, nameEnd, fields)
    fields += 1
    for (let index = 0; index < meanings.length; index += 1) {
      const { place, rank } = meanings[index] ?? nowhere
      const before = ranks[place] ?? absent
      if (before === rank) twice = plan.columns[place]?.column.name ?? null
      if (before <= rank) continue
      ranks[place] = rank
      starts[place] = valueAt
      ends[place] = valueEnd
    }
  }
  const cellOf = (place: number): string | null => {
    const planned = plan.columns[place]
    if (planned === undefined) return null
    if (ranks[place] === absent) return planned.column.ifAbsent
    return fieldText(planned, current, starts[place] ?? 0, ends[place] ?? 0)
  }
  const begin = (bytes: Buffer): void => {
    if (bytes !== current) {
      current = bytes
      // Asked once for all records that lie in these bytes; only where the answer is no, for each of them.
      isCleanText = isUtf8(bytes)
    }
    twice = null
    fields = 0
    ranks.fill(absent)
  }
  const finish = (at: number, end: number, line: number): void => {
    const bytes = current
    const record = { line, raw: () => rawText(bytes.subarray(at, end)) }
    for (let place = 0; place < ranks.length; place += 1) {
      const bit = ranks[place] === absent ? 2 : 1
      if (bytes[at] === openBrace && ((sink.seen[place] ?? 0) & bit) === 0) sink.seen[place] = (sink.seen[place] ?? 0) | bit
    }
    const problem = problemOf(bytes[at] === openBrace, isCleanText || isUtf8(bytes.subarray(at, end)), twice)
    if (problem !== null) rejectRow(sink, problem, record)
    else if (direct === null || !direct(bytes, starts, ends, ranks)) takeRow(sink, cellOf, record)
  }
  return {
    read: (bytes, at, line) => {
      begin(bytes)
      const end = bytes[at] === openBrace ? eachField(bytes, at, 0, onField) : skipValue(bytes, at)
      if (end !== cut) finish(at, end, line)
      return end
    },
    take: ({ bytes, bounds, firstField, fields: places }, index) => {
      begin(bytes)
      const to = 4 * (firstField[index + 1] ?? 0)
      for (let at = 4 * (firstField[index] ?? 0); at < to; at += 4)
        onField(places[at] ?? 0, places[at + 1] ?? 0, places[at + 2] ?? 0, places[at + 3] ?? 0)
      finish(bounds[2 * index] ?? 0, bounds[2 * index + 1] ?? 0, index + 1)
    },
  }
}

const problemOf = (isObject: boolean, isText: boolean, twice: string | null): RowError | null => {
  if (!isText) return notUtf8
  if (!isObject) return notObject
  return twice === null ? null : new RowError(twice, 'the field appears twice in the record')
}

const notUtf8 = new RowError(null, 'the record has bytes that are not UTF-8')
const notObject = new RowError(null, 'the record is not an object')

/** Finds a field's meaning by its bytes: records repeat their fields in the same order. */
const fieldMeanings = ({ plan, report }: RowSink) => {
  const byName = new Map<string, Meaning[]>()
  for (const [place, { names }] of plan.columns.entries()) {
    for (const [rank, name] of names.entries()) byName.set(name, [...(byName.get(name) ?? []), { place, rank }])
  }
  const inOrder: { bytes: Buffer; meanings: readonly Meaning[] }[] = []
  return (bytes: Buffer, nameAt: number, nameEnd: number, index: number): readonly Meaning[] => {
    const before = inOrder[index]
    if (before !== undefined && isSame(bytes, nameAt, nameEnd, before.bytes)) return before.meanings
    const name = stringText(bytes, nameAt, nameEnd)
    const meanings = byName.get(fieldName(name)) ?? []
    if (meanings.length === 0 && !plan.knownElsewhere.has(fieldName(name))) addUnknown(report, name.slice(0, 100).toWellFormed())
    if (index < maxRemembered) inOrder[index] = { bytes: Buffer.from(bytes.subarray(nameAt, nameEnd)), meanings }
    return meanings
  }
}

const maxRemembered = 200

/** The text of a JSON string. */
const stringText = (bytes: Buffer, start: number, end: number): string => {
  const inner = bytes.toString('utf8', start + 1, end - 1)
  return inner.includes('\\') ? String(JSON.parse(`"${inner}"`)) : inner
}

/** A field's value as its column's cast wants it; null for NULL. Throws CellError. */
const fieldText = ({ column }: PlannedColumn, bytes: Buffer, start: number, end: number): string | null => {
  const byte = bytes[start]
  if (byte === quote) {
    const text = stringText(bytes, start, end)
    return column.type !== 'text' && isNullWord(text) ? null : text
  }
  if (byte === openBracket && columnTypes[column.type].isList) return bytes.toString('utf8', start, end)
  if (byte === openBracket || byte === openBrace)
    throw new CellError(`${byte === openBracket ? 'a list' : 'an object'} found where ${column.type} is expected`)
  const token = bytes.toString('latin1', start, end)
  if (token === 'null') return null
  const isWord = token === 'true' || token === 'false'
  if (columnTypes[column.type].isList || (isWord && !columnTypes[column.type].takesWords))
    throw new CellError(`${token} found where ${column.type} is expected`)
  return token
}
