// One JSON record as a row: fields found by name, every number as it is written.
import { columnTypes } from '../core/column-types.ts'
import { isUtf8 } from 'node:buffer'
import { CellError, isNullWord } from './cast-text.ts'
import { cut, eachField, skipValue } from './json-scan.ts'
import { fieldName, type PlannedColumn, RowError } from './parse-plan.ts'
import { detached, rawText } from './raw-text.ts'
import { addUnknown } from './parse-report.ts'
import { type RowSink, rejectRow, takeRow } from './row-sink.ts'

/** One record after the other becomes a row or a reject. */
export interface RecordLane {
  /** Takes the record that begins at `at`; returns its end, or `cut` (and takes nothing). Throws JsonError. @param line see `RecordPlace` */
  read(bytes: Buffer, at: number, line: number): number
}

/** What a field's name means: a column's place and how good the name is for it. */
interface Meaning {
  readonly place: number
  readonly rank: number
}

/** Rank of a column whose field the record lacks. */
const absent = 1_000_000
const nowhere: Meaning = { place: -1, rank: 0 }

const openBrace = 123

export const createRecordLane = (sink: RowSink): RecordLane => {
  const { plan } = sink
  const meaningOf = fieldMeanings(sink)
  const starts = new Int32Array(plan.columns.length)
  const ends = new Int32Array(plan.columns.length)
  const ranks = new Int32Array(plan.columns.length)
  let current: Buffer = Buffer.alloc(0)
  let text = ''
  let isCleanText = false
  let twice: string | null = null
  let fields = 0
  const onField = (nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): void => {
    const meanings = meaningOf(text.slice(nameAt, nameEnd), fields)
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
    return fieldText(planned, text.slice(starts[place], ends[place]))
  }
  const begin = (bytes: Buffer): void => {
    if (bytes !== current) {
      current = bytes
      // Asked once for all records that lie in these bytes; only where the answer is no, for each of them.
      isCleanText = isUtf8(bytes)
      // A byte a character: places in the bytes are places in it, and most cells are cut from it.
      text = bytes.toString('latin1')
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
    else takeRow(sink, cellOf, record)
  }
  return {
    read: (bytes, at, line) => {
      begin(bytes)
      const end = bytes[at] === openBrace ? eachField(bytes, at, 0, onField) : skipValue(bytes, at)
      if (end !== cut) finish(at, end, line)
      return end
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

/** Finds a field's meaning by its name: records repeat their fields in the same order. */
const fieldMeanings = ({ plan, report }: RowSink) => {
  const byName = new Map<string, Meaning[]>()
  for (const [place, { names }] of plan.columns.entries()) {
    for (const [rank, name] of names.entries()) byName.set(name, [...(byName.get(name) ?? []), { place, rank }])
  }
  const inOrder: { written: string; meanings: readonly Meaning[] }[] = []
  return (written: string, index: number): readonly Meaning[] => {
    const before = inOrder[index]
    if (before?.written === written) return before.meanings
    const name = stringText(written)
    const meanings = byName.get(fieldName(name)) ?? []
    if (meanings.length === 0 && !plan.knownElsewhere.has(fieldName(name))) addUnknown(report, name.slice(0, 100).toWellFormed())
    if (index < maxRemembered) inOrder[index] = { written: detached(written), meanings }
    return meanings
  }
}

const maxRemembered = 200
const beyondAscii = /[\u0080-\u00ff]/

/** What the bytes say, which stand in the text one a character. */
const decoded = (bytes: string): string => (beyondAscii.test(bytes) ? Buffer.from(bytes, 'latin1').toString() : bytes)

/** The text of a JSON string. */
const stringText = (token: string): string =>
  token.includes('\\') ? String(JSON.parse(decoded(token))) : decoded(token.slice(1, -1))

/** A field's value as its column's cast wants it; null for NULL. Throws CellError. @param token as JSON writes it */
const fieldText = ({ column: { type } }: PlannedColumn, token: string): string | null => {
  const { isList, takesWords } = columnTypes[type]
  const first = token[0]
  if (first === '"') {
    const text = stringText(token)
    return type !== 'text' && isNullWord(text) ? null : text
  }
  if (first === '[' && isList) return decoded(token)
  if (first === '[' || first === '{')
    throw new CellError(`${first === '[' ? 'a list' : 'an object'} found where ${type} is expected`)
  if (token === 'null') return null
  const isWord = token === 'true' || token === 'false'
  if (isList || (isWord && !takesWords)) throw new CellError(`${token} found where ${type} is expected`)
  return token
}
