// Reads a CSV body chunk by chunk, in whole lines: the first record is the header, which maps cells to columns; the others are rows, in order.
// Another header begins another table.
import { columnTypes } from '../core/column-types.ts'
import { isUtf8 } from 'node:buffer'
import { EtlError } from '../core/errors.ts'
import { CellError, excerpt, isNullWord } from '../core/cast-cell.ts'
import { afterBreak, cellTextOf, countBreaks, createRecord, type CsvRecord, readRecord } from './csv-record.ts'
import { maxColumns, maxRecordBytes, maxRecordLines } from './parse-limits.ts'
import { fieldName, type ParsePlan, RowError } from './parse-plan.ts'
import { addUnknown } from './parse-report.ts'
import { rawText } from './raw-text.ts'
import { createCells } from './row-cells.ts'
import { isRow, rejectRow, type RowSink, takeRow } from './row-sink.ts'
import { beginTable, ifRenamed, isWanted, leaveTable } from './tables-of-answer.ts'

/** One part of an answer, as its bytes come. */
export interface Reader {
  /** Takes the next bytes; keeps a copy of what is not yet a whole record. */
  write(chunk: Uint8Array): void
  /** Nothing comes after this. Throws TRUNCATED where something is missing. */
  end(): void
}

type State = ReturnType<typeof createState>

const createState = () => ({
  /** Holds an incomplete record and the chunk behind it. Used again, since memory that is taken for each chunk is freed late. */
  room: Buffer.alloc(0),
  /** Bytes in it. */
  filled: 0,
  /** The carry is read again once it has this many bytes, so that a long record is not read for every chunk. */
  lookAgainAt: 0,
  /** Line on which the next record begins. */
  line: 1,
  header: null as Header | null,
  /** The last byte of the header's line end; null where nothing ended it. */
  lineEnd: null as number | null,
  /** The last byte of the body so far; null: none came. */
  last: null as number | null,
  /** Takes the records under the header. */
  take: null as ((found: Found) => void) | null,
  /** The service said that there are no rows: in place of the header, or in the first record under it (api-facts G 72). */
  saidEmpty: false,
  /** A record under the header was read. */
  hasRecord: false,
  record: createRecord(),
})

const noData = /^no data returned/i

/** Memory does not grow with the part; a record has a limit of its own. */
export const createCsvReader = (sink: RowSink): Reader => {
  const state = createState()
  return {
    write: (chunk) => {
      state.last = chunk.at(-1) ?? state.last
      takeIn(state, chunk)
      if (state.filled < state.lookAgainAt) return
      const used = readLines(sink, state, carryOf(state), false)
      state.room.copyWithin(0, used, state.filled)
      state.filled -= used
      checkCarry(sink, state)
    },
    end: () => {
      const used = readLines(sink, state, carryOf(state), true)
      if (used < state.filled)
        throw cutOff(sink.part, state.line, 'a quote is not closed when the body ends: it was cut off, or the quote is misplaced')
      if (state.header === null && !state.saidEmpty)
        throw new EtlError(
          'TRUNCATED',
          `Part ${sink.part} is empty: it has neither a header nor "No data returned". Nothing was loaded.`,
        )
      if (state.header !== null && !isWhole(state, state.header)) sink.report.unended ??= { part: sink.part, line: state.line }
    },
  }
}

const carryOf = ({ room, filled }: State): Buffer => room.subarray(0, filled)

const takeIn = (state: State, chunk: Uint8Array): void => {
  const needed = state.filled + chunk.length
  if (needed > state.room.length) {
    const grown = Buffer.allocUnsafeSlow(needed * 2)
    state.room.copy(grown, 0, 0, state.filled)
    state.room = grown
  }
  state.room.set(chunk, state.filled)
  state.filled = needed
}

/**
 * Whether the last line ended as the header's did: a body that was cut right there looks whole otherwise. A cut leaves no line end, or the first half
 * of a CRLF; never another kind. A header alone has no line to compare with; it is whole where it names every column.
 */
const isWhole = ({ lineEnd, last }: State, { places }: Header): boolean =>
  lineEnd === null ? places.every((place) => place >= 0) : last === lf || last === lineEnd

/** Reads whole records; returns how many bytes they have. */
const readLines = (sink: RowSink, state: State, bytes: Buffer, isLast: boolean): number => {
  const lines = bytes.subarray(0, isLast ? bytes.length : endOfLines(bytes))
  const { record } = state
  const found: Found = { lines, record, isText: isUtf8(lines), start: 0, line: 0 }
  for (let at = 0; ; at = record.next) {
    at = skipBlankLines(state, lines, at)
    if (at >= lines.length || !readRecord(lines, at, record)) return at
    found.start = at
    found.line = state.line
    if (record.breaks > maxRecordLines || record.end - at > maxRecordBytes) throw damaged(sink.part, state.line, longRecord)
    state.line += record.breaks + (record.next > record.end ? 1 : 0)
    takeRecord(sink, state, found)
  }
}

const takeRecord = (sink: RowSink, state: State, found: Found): void => {
  if (state.header !== null && mayBeHeader(state.header, found) && isHeader(textsOf(found), sink.plan)) {
    openTable(sink, state, found)
    return
  }
  if (state.saidEmpty)
    throw new EtlError(
      'BAD_RESPONSE',
      `Part ${sink.part} says "No data returned" and yet has a record on line ${found.line}. Nothing was loaded; check the landed file.`,
    )
  if (state.take === null) {
    openTable(sink, state, found)
    return
  }
  state.saidEmpty = !state.hasRecord && saysNone(found)
  state.hasRecord = true
  if (!state.saidEmpty) state.take(found)
}

/** False for every row that can be read: a header has another width, or a word in the place of the date. */
const mayBeHeader = ({ width, dateAt }: Header, { lines, record }: Found): boolean =>
  !record.isMalformed && (record.count !== width || (lines[record.starts[dateAt] ?? -1] ?? 0) > nine)

const textsOf = ({ lines, record }: Found): string[] =>
  Array.from({ length: record.count }, (_, index) => cellTextOf(lines, record, index).trim())

const saysNone = (found: Found): boolean => {
  const [first = '', ...others] = textsOf(found)
  return !found.record.isMalformed && noData.test(first) && others.every((cell) => cell === '')
}

const openTable = (sink: RowSink, state: State, found: Found): void => {
  const { record, lines } = found
  if (record.isMalformed) throw badHeader(sink.part)
  const cells = textsOf(found)
  if (noData.test(cells[0] ?? '')) {
    state.saidEmpty = true
    return
  }
  // The same table goes on; its columns may be in another order.
  if (state.header !== null && cells.join() === sink.tables.names.join()) return
  if (namesOf(cells) === namesOf(sink.tables.names)) sink.tables.names = cells
  else if (state.header === null && isRowBefore(cells, sink)) throw headless(cells, sink, found.line)
  else beginTable(sink, found.line, cells, null)
  ;[state.saidEmpty, state.hasRecord] = [false, false]
  state.lineEnd ??= record.next > record.end ? (lines[record.next - 1] ?? null) : null
  if (isWanted(sink, sink.tables.count, null)) {
    state.header = readHeader(cells, sink)
    for (const [place, at] of state.header.places.entries()) sink.seen[place] = (sink.seen[place] ?? 0) | (at === -1 ? 6 : 1)
    state.take = createRows(sink, state.header)
  } else {
    state.header = foreignHeader(cells, sink.plan)
    state.take = passOver(sink)
  }
}

/** Whether a file begins with a row of the table before it. If the definition names its table, files are told apart without headers. */
const isRowBefore = (cells: readonly string[], { tables, plan }: RowSink): boolean => {
  const { width, dateAt } = foreignHeader(tables.names, plan)
  return typeof plan.section !== 'string' && cells.length === width && /^\d/.test(cells[dateAt] ?? '')
}

const headless = (cells: readonly string[], { tables, part }: RowSink, line: number): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `Part ${part}, line ${line}: the file has no header: found ${shown(cells)}; expected ${shown(tables.names)}, as in the file before it. ` +
      'Nothing was loaded; check the landed file, and ask the service for a header in each file.',
  )

const namesOf = (cells: readonly string[]): string => cells.map(fieldName).sort().join()

const passOver =
  (sink: RowSink) =>
  ({ record }: Found): void =>
    leaveTable(sink, record.count)

/** Behind the last whole line; 0 where there is none. A CR at the very end may be half of a CRLF. */
const endOfLines = (bytes: Buffer): number => {
  const feed = bytes.lastIndexOf(lf)
  return feed >= 0 || bytes.length < 2 ? feed + 1 : bytes.lastIndexOf(cr, -2) + 1
}

const lf = 10
const cr = 13
const nine = 57

const skipBlankLines = (state: State, lines: Buffer, from: number): number => {
  let at = from
  for (let next = afterBreak(lines, at); next > at; next = afterBreak(lines, at)) {
    state.line += 1
    at = next
  }
  return at
}

const checkCarry = (sink: RowSink, state: State): void => {
  const carry = carryOf(state)
  state.lookAgainAt = carry.length > 256 * 1024 ? Math.min(carry.length * 2, maxRecordBytes + 1) : 0
  if (carry.length > maxRecordBytes) throw damaged(sink.part, state.line, longRecord)
  if (carry.length > 16 * 1024 && countBreaks(carry) > maxRecordLines) throw damaged(sink.part, state.line, longRecord)
}

const longRecord = `the record has more than ${maxRecordBytes} bytes or ${maxRecordLines} lines, so a quote is probably not closed`

/** Rows cannot be told apart. */
const damaged = (part: number, line: number, found: string): EtlError =>
  new EtlError('BAD_RESPONSE', `Part ${part}, line ${line}: ${found}. Nothing was loaded; check the landed file.`)

const cutOff = (part: number, line: number, found: string): EtlError =>
  new EtlError('TRUNCATED', `Part ${part}, line ${line}: ${found}. Nothing was loaded.`)

const badHeader = (part: number): EtlError =>
  new EtlError('BAD_RESPONSE', `The CSV header of part ${part} has a misplaced quote. Nothing was loaded; check the landed file.`)

/** A record among whole lines, and its first line. */
interface Found {
  readonly lines: Buffer
  readonly record: CsvRecord
  /** Where it begins. */
  start: number
  line: number
  /** Whether the lines are UTF-8. */
  readonly isText: boolean
}

/** Takes record after record. Throws BAD_RESPONSE or TRUNCATED where rows cannot be told apart. */
const createRows = (sink: RowSink, header: Header): ((found: Found) => void) => {
  const { columns } = sink.plan
  // Cells of these columns tell a row from any other text.
  const canTell = columns.some(
    ({ column, isPlain }, place) => header.places[place] !== -1 && (!isPlain || !columnTypes[column.type].isText),
  )
  let record = createRecord()
  let isBroken = false

  const others = (): number =>
    header.others.filter((at) => at < record.count && !isNullWord(cellTextOf(cells.bytes, record, at))).length
  const cells = createCells(sink.plan, others, (place) => {
    const at = header.places[place] ?? -1
    const column = columns[place]?.column
    if (at < 0 || column === undefined) return null
    if (at >= record.count) throw new CellError('the record ends before this cell')
    const { isText } = columnTypes[column.type]
    if (record.starts[at] === record.ends[at]) return isText && !column.nullable ? '' : null
    const cell = cellTextOf(cells.bytes, record, at)
    if (isBroken && cell.includes('\ufffd')) throw new CellError('the cell has bytes that are not UTF-8')
    return !isText && isNullWord(cell) ? null : cell
  })

  const pointAt = (bytes: Buffer, found: CsvRecord): void => {
    record = found
    cells.bytes = bytes
    for (let place = 0; place < columns.length; place += 1) {
      const at = header.places[place] ?? -1
      const isAsItStands = at >= 0 && at < found.count && found.doubled[at] !== true && !isBroken
      cells.starts[place] = isAsItStands ? (found.starts[at] ?? -1) : -1
      cells.ends[place] = found.ends[at] ?? -1
    }
  }

  /** Whether all lines of the record may be rows by themselves: then two stray quotes may have joined them. */
  const isLookalike = (own: Buffer, lines: readonly CsvRecord[]): boolean =>
    lines.every((line) => {
      if (line.count !== header.width) return false
      pointAt(own, line)
      return isRow(sink, cells)
    })

  return ({ lines, record: found, start, line, isText }) => {
    const { breaks, isMalformed, next, end, count } = found
    const own = (): Buffer => lines.subarray(start, end)
    isBroken = !isText && !isUtf8(own())
    const place = { line, raw: () => rawText(own()) }
    const within = breaks > 0 ? naiveLines(own()) : []
    const refuseSwallowed = (): void => {
      // A rejected record that holds whole lines of the table's width may have swallowed rows: they would count as missing, and end.
      if (within.some((one) => one.count === header.width)) throw damaged(sink.part, line, misplacedQuote)
    }
    if (breaks > 0 && canTell && !isMalformed && count === header.width && isLookalike(own(), within))
      throw damaged(sink.part, line, misplacedQuote)
    pointAt(lines, found)
    if (isMalformed || count !== header.width) {
      if (next === end && !isMalformed && count < header.width)
        throw cutOff(sink.part, line, 'the last record has too few cells and no line end, so the body was cut off')
      refuseSwallowed()
      // With too many cells, a cell may be in the place of another; with too few, those that are there are in their own.
      const canBeRead = !isMalformed && count < header.width
      rejectRow(sink, isMalformed ? malformed : wrongWidth(count, header.width), place, canBeRead ? cells.textOf : null)
      return
    }
    if (takeRow(sink, cells, place)) refuseSwallowed()
  }
}

const malformed = new RowError(null, 'a closing quote is followed by something other than a comma or the end of the line')

const wrongWidth = (cells: number, width: number): RowError =>
  new RowError(null, `the record has ${cells} cells, the header ${width}`)

/** The record's lines, as if quotes had no meaning. */
const naiveLines = (bytes: Buffer): readonly CsvRecord[] => {
  const lines: CsvRecord[] = []
  for (let at = 0; ; ) {
    const line = createRecord()
    readRecord(bytes, at, line, false)
    lines.push(line)
    if (line.next === line.end) return lines
    at = line.next
  }
}

const misplacedQuote =
  'a quoted cell spans lines that look like rows of their own, so a quote is misplaced and rows cannot be distinguished'

/** What a header says. */
export interface Header {
  /** Cells of a record. */
  readonly width: number
  /** For each planned column the place of its cell; -1 where the file lacks it. */
  readonly places: readonly number[]
  /** Places of the fields that are counted and not read. */
  readonly others: readonly number[]
  /** Place of the period, in which a row has a date; -1: none. */
  readonly dateAt: number
}

/** Of a table that is not the definition's. */
const foreignHeader = (cells: readonly string[], { columns }: ParsePlan): Header => {
  const dates = columns.flatMap(({ column, names }) => (column.isKey && column.type === 'date' ? names : []))
  return { width: cells.length, places: [], others: [], dateAt: cells.findIndex((cell) => dates.includes(fieldName(cell))) }
}

/** Whether a record under a header is the header of another table: words alone, one of them a name of the key. A row has a date. */
export const isHeader = (cells: readonly string[], { columns, keyPlaces }: ParsePlan): boolean =>
  cells.every((cell) => /^[a-z_][a-z0-9_ ]*$/i.test(cell)) &&
  keyPlaces.some((place) => cells.some((cell) => columns[place]?.names.includes(fieldName(cell))))

/** Maps the header by name. Throws BAD_RESPONSE where a name stands twice or a key column is missing. */
const readHeader = (cells: readonly string[], sink: RowSink): Header => {
  const { plan, report } = sink
  if (cells.length > maxColumns) throw bad(sink, `has ${cells.length} columns, at most ${maxColumns} are read`)
  const found = cells.map(fieldName)
  const twice = found.find((name, index) => name !== '' && found.indexOf(name) !== index)
  if (twice !== undefined) throw bad(sink, `names '${excerpt(twice)}' twice, so its cells are ambiguous`)
  const places = plan.columns.map(({ names }) => names.map((name) => found.indexOf(name)).find((place) => place >= 0) ?? -1)
  for (const [index, { column, names }] of plan.columns.entries()) {
    if (places[index] === -1 && column.isKey) {
      const expected = `expected ${names.map((name) => `'${name}'`).join(' or ')} for key column '${column.name}'`
      throw bad(sink, `lacks part of the key: found ${shown(cells)}; ${expected}`)
    }
  }
  for (const [index, name] of found.entries()) {
    if (!places.includes(index) && !plan.knownElsewhere.has(name)) addUnknown(report, excerpt(cells[index]?.trim() ?? name))
  }
  const others = plan.others.map((name) => found.indexOf(name)).filter((place) => place >= 0)
  return { ...foreignHeader(cells, plan), places, others }
}

const shown = (cells: readonly string[]): string => excerpt(cells.slice(0, 30).join(', '), 300)

const bad = (sink: RowSink, what: string): EtlError =>
  new EtlError('BAD_RESPONSE', `The CSV header of part ${sink.part} ${what}. ${ifRenamed('column', sink)}`)
