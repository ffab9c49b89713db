// One JSON record as a row: fields found by name, every number as it is written.
import { columnTypes } from '../core/column-types.ts'
import { isUtf8 } from 'node:buffer'
import { CellError, isNullWord } from '../core/cast-cell.ts'
import { cut, eachField, skipValue } from './json-scan.ts'
import { fieldName, type PlannedColumn, RowError } from './parse-plan.ts'
import { rawText } from './raw-text.ts'
import { createDetector, type NamedField } from './tables-of-answer.ts'
import { createCells, isSame } from './row-cells.ts'
import { type RowSink, rejectRow, takeRow } from './row-sink.ts'

/** What a field's name means: a column's place and how good the name is for it. */
interface Meaning {
  readonly place: number
  readonly rank: number
}

/** Rank of a column whose field the record lacks. */
const absent = 1_000_000
const nowhere: Meaning = { place: -1, rank: 0 }

const quote = 34
const nine = 57
const openBracket = 91
const letterN = 110
const openBrace = 123

/**
 * Takes the record that begins at `at`; returns its end, or `cut` (and takes nothing). Throws JsonError, and BAD_RESPONSE where several tables come and
 * none is named. @param line see `RecordPlace` @param isOwn it is known to be of the definition's table
 */
export type RecordLane = (bytes: Buffer, at: number, line: number, isOwn: boolean) => number

/** One record after the other becomes a row or a reject. */
export const createRecordLane = (sink: RowSink): RecordLane => {
  const { plan } = sink
  const { length } = plan.columns
  const [valueStarts, valueEnds, ranks] = [new Int32Array(length), new Int32Array(length), new Int32Array(length)]
  const isList = plan.columns.map(({ column }) => columnTypes[column.type].isList)
  let twice: string | null = null
  let [isCleanText, fields, others] = [false, 0, 0]
  const textAt = (from: number, to: number): string => stringText(cells.bytes.toString('utf8', from, to))
  const [meaningOf, told] = [fieldMeanings(sink), createDetector(sink, (place) => ranks[place] !== absent, textAt)]
  const onField = (nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): void => {
    const { meanings, isCounted } = told.add(meaningOf(cells.bytes, nameAt, nameEnd, fields), fields, valueAt, valueEnd)
    if (isCounted && !isNullWord(textAt(valueAt, valueEnd))) others += 1
    fields += 1
    for (let index = 0; index < meanings.length; index += 1) {
      const { place, rank } = meanings[index] ?? nowhere
      const before = ranks[place] ?? absent
      if (before === rank) twice = plan.columns[place]?.column.name ?? null
      if (before <= rank) continue
      ranks[place] = rank
      valueStarts[place] = valueAt
      valueEnds[place] = valueEnd
    }
  }
  const countedOthers = (): number => others
  const cells = createCells(plan, countedOthers, (place) => {
    const planned = plan.columns[place]
    if (planned === undefined || ranks[place] === absent) return planned?.column.ifAbsent ?? null
    return fieldText(planned, cells.bytes.toString('utf8', valueStarts[place], valueEnds[place]))
  })
  const begin = (bytes: Buffer): void => {
    if (bytes !== cells.bytes) {
      cells.bytes = bytes
      // Checked once for all records in these bytes; only where this fails, for each record.
      isCleanText = isUtf8(bytes)
    }
    ;[twice, fields, others] = [null, 0, 0]
    told.begin()
    ranks.fill(absent)
  }
  /** Points at the inside of a string, a number or a list; other words are no cells. A text with escapes is never copied. */
  const pointAt = (place: number): void => {
    const start = valueStarts[place] ?? 0
    const end = valueEnds[place] ?? 0
    const first = ranks[place] === absent ? letterN : (cells.bytes[start] ?? letterN)
    const isString = first === quote
    const isToken = isList[place] === true ? first === openBracket : first <= nine
    cells.starts[place] = isString ? start + 1 : isToken ? start : -1
    cells.ends[place] = isString ? end - 1 : end
  }
  const finish = (at: number, end: number, line: number, isOwn: boolean): void => {
    const { bytes } = cells
    if (bytes[at] === openBrace && told.isOther(isOwn, line, fields)) return
    const record = { line, raw: () => rawText(bytes.subarray(at, end)) }
    for (let place = 0; place < ranks.length; place += 1) {
      const bit = ranks[place] === absent ? 2 : 1
      if (bytes[at] === openBrace && ((sink.seen[place] ?? 0) & bit) === 0) sink.seen[place] = (sink.seen[place] ?? 0) | bit
      pointAt(place)
    }
    const problem = problemOf(bytes[at] === openBrace, isCleanText || isUtf8(bytes.subarray(at, end)), twice)
    if (problem !== null) rejectRow(sink, problem, record)
    else takeRow(sink, cells, record)
  }
  return (bytes, at, line, isOwn) => {
    begin(bytes)
    const end = bytes[at] === openBrace ? eachField(bytes, at, 0, onField) : skipValue(bytes, at)
    if (end !== cut) finish(at, end, line, isOwn)
    return end
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
const fieldMeanings = ({ plan }: RowSink) => {
  const byName = new Map<string, Meaning[]>()
  for (const [place, { names }] of plan.columns.entries()) {
    for (const [rank, name] of names.entries()) byName.set(name, [...(byName.get(name) ?? []), { place, rank }])
  }
  const inOrder: Field[] = []
  return (bytes: Buffer, start: number, end: number, index: number): Field => {
    const before = inOrder[index]
    if (before !== undefined && isSame(bytes, start, end, before.written)) return before
    const name = stringText(bytes.toString('utf8', start, end))
    const meanings = byName.get(fieldName(name)) ?? []
    const isStrange = meanings.length === 0 && !plan.knownElsewhere.has(fieldName(name))
    const stranger = isStrange ? name.slice(0, 100).toWellFormed() : null
    const isLabel = stranger !== null && plan.tableIn.includes(stranger)
    const isCounted = plan.others.includes(fieldName(name))
    const field = { written: Buffer.from(bytes.subarray(start, end)), meanings, isCounted, stranger, isLabel }
    if (index < maxRemembered) inOrder[index] = field
    return field
  }
}

/** A field by its name. */
interface Field extends NamedField {
  readonly written: Buffer
  readonly meanings: readonly Meaning[]
  /** Whether it is counted and not read. */
  readonly isCounted: boolean
}

const maxRemembered = 200

/** The text of a JSON string. */
const stringText = (token: string): string =>
  token.includes('\\') ? String(JSON.parse(token)) : token.startsWith('"') ? token.slice(1, -1) : token

/** A field's value as its column's cast wants it; null for NULL. Throws CellError. @param token as JSON writes it */
const fieldText = ({ column: { type } }: PlannedColumn, token: string): string | null => {
  const { isList, isText, takesWords } = columnTypes[type]
  const first = token[0]
  if (first === '"') {
    const text = stringText(token)
    return !isText && isNullWord(text) ? null : text
  }
  if (first === '[' && isList) return token
  if (first === '[' || first === '{')
    throw new CellError(`${first === '[' ? 'a list' : 'an object'} found where ${type} is expected`)
  if (token === 'null') return null
  const isWord = token === 'true' || token === 'false'
  if (isList || (isWord && !takesWords)) throw new CellError(`${token} found where ${type} is expected`)
  return token
}
