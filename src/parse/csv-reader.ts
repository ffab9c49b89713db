// A CSV body, chunk by chunk: finds lines and records, and gives each to the fast lane or the full one, in order.
import { isUtf8 } from 'node:buffer'
import { EtlError } from '../core/errors.ts'
import { createFastLane, type FastLane } from './csv-fast.ts'
import { createFullLane, type Frame, type FullLane, readCells } from './csv-full.ts'
import { type Header, readHeader } from './csv-header.ts'
import { afterBreak, countBreaks, endOfLines, readRecord } from './csv-tokens.ts'
import { maxRecordBytes, maxRecordLines } from './parse-limits.ts'
import { createTail, type LineEnd, lineEndAt, type Tail } from './line-end.ts'
import type { RowSink } from './row-sink.ts'

/** One part of an answer, as its bytes come. */
export interface Reader {
  /** Takes the next bytes; keeps a copy of what is not yet a whole record. */
  write(chunk: Uint8Array): void
  /** Nothing comes after this. Throws TRUNCATED where something is missing. */
  end(): void
}

/** `full` sends every record through csv-parse; both accept, reject and produce the same. */
export type Lanes = 'fast' | 'full'

interface State {
  /** What is not yet a whole record; within `room`, unless nothing is left. */
  carry: Buffer
  /** Memory in which the carry and the next chunk are put together, used again for every chunk. */
  room: Buffer
  /** The carry is read again once it has this many bytes, so that a long record is not framed for every chunk. */
  lookAgainAt: number
  bomSeen: boolean
  /** Line on which the next record begins. */
  line: number
  header: Header | null
  /** How the header's line ends; null where nothing ended it. */
  lineEnd: LineEnd | null
  /** The last bytes of the body so far. */
  readonly tail: Tail
  full: FullLane | null
  fast: FastLane | null
  /** The service said that there are no rows: in place of the header, or in the first record under it (api-facts G 72). */
  saidEmpty: boolean
  /** A record was read. */
  hasRecord: boolean
}

/** Bytes given to the full lane at once when the fast lane is not sure: csv-parse costs as much for one record as for ten. */
const fullRunBytes = 8 * 1024
const noData = /^no data returned/i

/** Memory does not grow with the part; a record has a limit of its own. */
export const createCsvReader = (sink: RowSink, lanes: Lanes): Reader => {
  const state: State = {
    carry: Buffer.alloc(0),
    room: Buffer.alloc(0),
    lookAgainAt: 0,
    bomSeen: false,
    line: 1,
    header: null,
    lineEnd: null,
    tail: createTail(),
    full: null,
    fast: null,
    saidEmpty: false,
    hasRecord: false,
  }
  return {
    write: (chunk) => {
      const given = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      state.tail.add(given)
      const bytes = state.carry.length === 0 ? given : joined(state, given)
      if (bytes.length < state.lookAgainAt) return keepCarry(state, bytes)
      keepCarry(state, bytes.subarray(readLines(sink, state, lanes, bytes, false)))
      checkCarry(sink, state)
    },
    end: () => {
      const used = readLines(sink, state, lanes, state.carry, true)
      if (used < state.carry.length) throw openQuote(sink.part, state.line)
      if (state.header === null && !state.saidEmpty) throw noHeader(sink.part)
      if (state.header !== null && !isWhole(state, state.header)) sink.report.unended ??= { part: sink.part, line: state.line }
    },
  }
}

/** A header alone has no other line to end as; it is whole where it names every column. */
const isWhole = ({ lineEnd, tail }: State, { places }: Header): boolean =>
  lineEnd === null ? places.every((place) => place >= 0) : tail.endsAs(lineEnd)

const joined = (state: State, given: Buffer): Buffer => {
  const { length } = state.carry
  makeRoom(state, length + given.length)
  state.room.set(given, length)
  return state.room.subarray(0, length + given.length)
}

const keepCarry = (state: State, rest: Buffer): void => {
  makeRoom(state, rest.length)
  // The rest may lie in the room already, further behind.
  state.room.set(rest, 0)
  state.carry = state.room.subarray(0, rest.length)
}

const makeRoom = (state: State, bytes: number): void => {
  if (bytes <= state.room.length) return
  const larger = Buffer.allocUnsafeSlow(Math.max(bytes, state.room.length * 2))
  larger.set(state.carry, 0)
  state.room = larger
}

/** Reads what is whole; returns how many bytes that was. */
const readLines = (sink: RowSink, state: State, lanes: Lanes, bytes: Buffer, isLast: boolean): number => {
  let at = skipBom(state, bytes, isLast)
  if (at < 0) return 0
  const wholeLines = endOfLines(bytes, isLast)
  const isClean = lanes === 'fast' && isUtf8(bytes.subarray(at, wholeLines))
  for (;;) {
    if (at >= bytes.length) return at
    if (isClean && state.fast !== null && at < wholeLines) {
      const { sureTo, lines } = state.fast.take(bytes, at, wholeLines)
      state.line += lines
      state.hasRecord ||= sureTo > at
      at = sureTo
      if (at >= bytes.length) return at
    }
    const next = readRecords(sink, state, bytes, at, isLast)
    if (next === at) return at
    at = next
  }
}

/** Frames records from `at` on and gives them to the header or the full lane; returns where it stopped. */
const readRecords = (sink: RowSink, state: State, bytes: Buffer, from: number, isLast: boolean): number => {
  const frames: Frame[] = []
  let at = skipBlankLines(state, bytes, from, isLast)
  while (at < bytes.length && at - from < fullRunBytes) {
    const record = readRecord(bytes, at, isLast)
    if (typeof record === 'string') break
    const { end, next, breaks } = record
    if (breaks > maxRecordLines || end - at > maxRecordBytes) throw longRecord(sink.part, state.line)
    frames.push({ ...record, start: at, line: state.line })
    state.line += breaks + (next > end ? 1 : 0)
    at = next
    if (state.full === null) break
    at = skipBlankLines(state, bytes, at, isLast)
  }
  const [first] = frames
  if (first === undefined) return at
  if (state.full === null) openTable(sink, state, bytes, first)
  else state.full.take(bytes, withoutNone(sink, state, bytes, frames))
  return at
}

/** The records but the word that there are none. */
const withoutNone = (sink: RowSink, state: State, bytes: Buffer, frames: readonly Frame[]): readonly Frame[] => {
  const [first, second] = frames
  const isNone = !state.hasRecord && first !== undefined && !first.isMalformed && saysNone(readCells(bytes, [first])[0] ?? [])
  const after = state.saidEmpty ? first : isNone ? second : undefined
  if (after !== undefined) throw rowsAfterNone(sink.part, after.line)
  state.saidEmpty ||= isNone
  state.hasRecord = true
  return isNone ? [] : frames
}

const saysNone = ([first, ...others]: readonly string[]): boolean =>
  noData.test(first?.trim() ?? '') && others.every((cell) => cell.trim() === '')

const openTable = (sink: RowSink, state: State, bytes: Buffer, frame: Frame): void => {
  if (state.saidEmpty) throw rowsAfterNone(sink.part, frame.line)
  if (frame.isMalformed) throw badHeader(sink.part)
  const cells = readCells(bytes, [frame])[0] ?? []
  if (noData.test(cells[0]?.trim() ?? '')) {
    state.saidEmpty = true
    return
  }
  const header = readHeader(cells, sink.part, sink.plan, sink.report)
  for (const [place, at] of header.places.entries()) sink.seen[place] = (sink.seen[place] ?? 0) | (at === -1 ? 6 : 1)
  state.header = header
  state.lineEnd = lineEndAt(bytes, frame.end)
  state.full = createFullLane(sink, header)
  state.fast = createFastLane(sink, header)
}

/** Where the data begins; -1 where the bytes are too few to tell. */
const skipBom = (state: State, bytes: Buffer, isLast: boolean): number => {
  if (state.bomSeen) return 0
  if (bytes.length < 3 && !isLast) return -1
  state.bomSeen = true
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
}

const skipBlankLines = (state: State, bytes: Buffer, from: number, isLast: boolean): number => {
  let at = from
  for (;;) {
    const next = afterBreak(bytes, at)
    // A CR at the very end may be half of a CRLF.
    if (next === at || (next === bytes.length && !isLast && bytes[at] === 13 && next === at + 1)) return at
    state.line += 1
    at = next
  }
}

const checkCarry = (sink: RowSink, state: State): void => {
  const { carry } = state
  state.lookAgainAt = carry.length > 256 * 1024 ? Math.min(carry.length * 2, maxRecordBytes + 1) : 0
  if (carry.length > maxRecordBytes) throw longRecord(sink.part, state.line)
  if (carry.length > 16 * 1024 && countBreaks(carry) > maxRecordLines) throw longRecord(sink.part, state.line)
}

const longRecord = (part: number, line: number): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `Part ${part}, line ${line}: the record has more than ${maxRecordBytes} bytes or ${maxRecordLines} lines, so a quote is ` +
      'probably not closed. Nothing was loaded; check the landed file.',
  )

const openQuote = (part: number, line: number): EtlError =>
  new EtlError(
    'TRUNCATED',
    `Part ${part}, line ${line}: a quote is not closed when the body ends: it was cut off, or the quote is misplaced. ` +
      'Nothing was loaded.',
  )

const noHeader = (part: number): EtlError =>
  new EtlError(
    'TRUNCATED',
    `Part ${part} is empty: not even a header came, nor the word that there is no data. Nothing was loaded.`,
  )

const badHeader = (part: number): EtlError =>
  new EtlError('BAD_RESPONSE', `The CSV header of part ${part} has a misplaced quote. Nothing was loaded; check the landed file.`)

const rowsAfterNone = (part: number, line: number): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `Part ${part} says "No data returned" and yet has a record on line ${line}. Nothing was loaded; check the landed file.`,
  )
