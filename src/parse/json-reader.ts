// A JSON body, chunk by chunk: a list of records, records one after the other (NDJSON), or a page that holds a list.
import { excerpt } from '../core/cast-cell.ts'
import { EtlError } from '../core/errors.ts'
import type { Reader } from './csv-reader.ts'
import type { RecordLane } from './json-row.ts'
import { cut, eachElement, eachField, JsonError, skipBlanks } from './json-scan.ts'
import { maxPageBytes, maxRecordBytes } from './parse-limits.ts'
import { fieldName, type ParsePlan } from './parse-plan.ts'
import { rawText } from './raw-text.ts'
import type { RowSink } from './row-sink.ts'
import { ifRenamed, leaveList } from './tables-of-answer.ts'

/** What comes next: the body's first value, an element of a list or the separator behind it, a record of a sequence, nothing. */
type Stage = 'first' | 'element' | 'separator' | 'record' | 'done'

type State = ReturnType<typeof createState>

const createState = () => ({
  stage: 'first' as Stage,
  carry: Buffer.alloc(0) as Buffer,
  /** The carry is read again once it has this many bytes, so that a large page is not scanned for every chunk. */
  lookAgainAt: 0,
  /** Records of the list so far. */
  index: 0,
  /** Line of the body where the carry begins. */
  line: 1,
  /** Line ends separate the records of a sequence: then the last one has a line end, too, unless it was cut off. */
  hasLines: false,
  /** The last byte of the body so far; null: none came. */
  last: null as number | null,
})

const manyRejects = 10_000
const lf = 10
const openBrace = 123
const openBracket = 91
const closeBracket = 93
const comma = 44

/** Bytes being read, and the line of a place in them. */
interface Reading {
  readonly sink: RowSink
  readonly state: State
  readonly lane: RecordLane
  readonly bytes: Buffer
  readonly isLast: boolean
  readonly lineAt: (at: number) => number
}

/** @param lane of the same sink; it may serve one part after the other */
export const createJsonReader = (sink: RowSink, lane: RecordLane): Reader => {
  const state = createState()
  const read = (bytes: Buffer, isLast: boolean): void => {
    const used = guarded(sink, state, bytes, () =>
      readValues({ sink, state, lane, bytes, isLast, lineAt: lineCounter(state, bytes) }),
    )
    state.carry = Buffer.from(bytes.subarray(used))
    const most = state.stage === 'first' ? maxPageBytes : maxRecordBytes
    if (state.carry.length > most) throw tooLong(sink.part, state, most)
    state.lookAgainAt = state.carry.length < 64 * 1024 ? 0 : state.carry.length * 2
  }
  return {
    write: (chunk) => {
      const given = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      state.last = given.at(-1) ?? state.last
      const bytes = state.carry.length === 0 ? given : Buffer.concat([state.carry, given])
      // Checked before the end: with too many rejects the answer fails before this reason is named.
      if (sink.report.rejected.length > manyRejects) checkKey(sink)
      if (bytes.length >= state.lookAgainAt) read(bytes, false)
      else state.carry = bytes === given ? Buffer.from(given) : bytes
    },
    end: () => {
      read(state.carry, true)
      const isWhole = state.stage === 'done' || (state.stage === 'record' && state.carry.length === 0)
      if (!isWhole) throw truncated(sink.part, state)
      checkKey(sink)
      if (state.hasLines && state.last !== lf) sink.report.unended ??= { part: sink.part, line: state.line }
    },
  }
}

/** Throws BAD_RESPONSE where no record so far has a field of the key: all would be rejected one by one. */
const checkKey = (sink: RowSink): void => {
  const { part, plan, report, seen } = sink
  const place = plan.columns.findIndex(({ column }, at) => column.isKey && column.ifAbsent === null && seen[at] === 2)
  const lacking = plan.columns[place]
  if (lacking === undefined) return
  const expected = lacking.names.map((name) => `'${name}'`).join(' or ')
  throw new EtlError(
    'BAD_RESPONSE',
    `No record of part ${part} has ${expected} for key column '${lacking.column.name}'; fields that no column has: ${excerpt(report.unknownColumns.join(', ') || 'none', 300)}. ${ifRenamed('field', sink)}`,
  )
}

/** Reads whole values; returns how many bytes they have. Throws JsonError. */
const readValues = (reading: Reading): number => {
  const { state, bytes, lineAt } = reading
  let at = 0
  for (;;) {
    const begun = at
    at = skipBlanks(bytes, at)
    if (at >= bytes.length) break
    if (state.stage === 'record' && !state.hasLines) state.hasLines = bytes.subarray(begun, at).includes(lf)
    const next = step(reading, at)
    if (next === cut) break
    at = next
  }
  state.line = lineAt(at)
  return at
}

const step = (reading: Reading, at: number): number => {
  const { state, lane, bytes, lineAt } = reading
  const byte = bytes[at]
  if (state.stage === 'done') throw new JsonError(at, 'there is text after the end of the answer')
  if (state.stage === 'separator') {
    if (byte !== comma && byte !== closeBracket) throw new JsonError(at, 'a list lacks a comma')
    state.stage = byte === comma ? 'element' : 'done'
    return at + 1
  }
  if (state.stage === 'first' && byte === openBracket) {
    state.stage = 'element'
    return at + 1
  }
  if (state.stage === 'element') {
    if (byte === closeBracket && state.index === 0) {
      state.stage = 'done'
      return at + 1
    }
    return element(reading, at)
  }
  if (byte !== openBrace) throw new JsonError(at, 'no object or list begins here')
  return state.stage === 'first' ? firstObject(reading, at) : lane(bytes, at, lineAt(at), false)
}

const element = ({ state, lane, bytes }: Reading, at: number): number => {
  const end = lane(bytes, at, state.index + 1, false)
  if (end === cut) return cut
  state.index += 1
  state.stage = 'separator'
  return end
}

/** The first object is a page when it holds a list of records, the first of many records when it has their key, else neither. */
const firstObject = ({ sink, state, lane, bytes, isLast, lineAt }: Reading, at: number): number => {
  const page = findList(sink.file === null ? sink.plan : { ...sink.plan, section: null }, bytes, at)
  if (page === null) return cut
  const { end, listAt } = page
  if (listAt !== null) {
    for (const otherAt of page.others) leaveList(sink, bytes, otherAt)
    let index = 0
    eachElement(bytes, listAt, 1, (_, recordAt) => {
      index += 1
      return lane(bytes, recordAt, index, sink.file === null)
    })
    state.stage = 'done'
    return end
  }
  // What follows tells a page without a list from the first of many records.
  const follows = skipBlanks(bytes, end)
  if (follows >= bytes.length && !isLast) return cut
  if (follows >= bytes.length && !page.hasKey) throw noList(sink, page.names)
  state.stage = 'record'
  return lane(bytes, at, lineAt(at), false)
}

/** Returns the line of a place in the body; places must only grow. */
const lineCounter = (state: State, bytes: Buffer): ((at: number) => number) => {
  let line = state.line
  let seen = 0
  return (at) => {
    for (let feed = bytes.indexOf(10, seen); feed >= 0 && feed < at; feed = bytes.indexOf(10, feed + 1)) {
      line += 1
      seen = feed + 1
    }
    return line
  }
}

const guarded = (sink: RowSink, state: State, bytes: Buffer, read: () => number): number => {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const found = excerpt(rawText(bytes.subarray(error.at, error.at + 80)))
    const line = lineCounter(state, bytes)(error.at)
    const begin = rawText(bytes.subarray(0, 40)).trimStart()
    const what =
      /^<(!doctype|html|\?xml|head|body)/i.test(begin) && state.stage === 'first' ? 'is a web page, not JSON' : 'is not JSON'
    throw new EtlError(
      'BAD_RESPONSE',
      `Part ${sink.part} ${what}: line ${line}: ${error.message}, found "${found}". Nothing was loaded.`,
      { cause: error },
    )
  }
}

const tooLong = (part: number, state: State, most: number): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `Part ${part}, line ${state.line}: a ${state.stage === 'first' ? 'page' : 'record'} has more than ${most} bytes. ` +
      'Nothing was loaded; lower limits.page_size or check the landed file.',
  )

const truncated = (part: number, state: State): EtlError =>
  new EtlError(
    'TRUNCATED',
    `Part ${part} ${state.stage === 'first' && state.carry.length === 0 ? 'is empty' : `ends inside a value (after line ${state.line})`}: ` +
      'the body was cut off. Nothing was loaded.',
  )

const noList = ({ part, plan }: RowSink, names: readonly string[]): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `Part ${part} holds no list of records: its fields are ${excerpt(names.join(', ') || 'none', 200)}; ` +
      `expected ${plan.section === null ? `${plan.recordsIn === null ? '' : `\`${plan.recordsIn}\` or `}one list of objects` : `\`${plan.section}\`, which \`report.section\` names`}. Nothing was loaded.`,
  )

/** A list of a page. Its first element says what it holds. */
interface List {
  readonly name: string
  /** Where it begins. */
  readonly start: number
  readonly holds: 'objects' | 'nothing' | 'other'
}

/**
 * What the first object of an answer is. `listAt`: where its list of records begins (the one that the source names, else the only list of objects, else the only
 * list if it is empty); `others`: where lists of other tables begin (none where the definition names no table); `hasKey`: whether it has the record's key itself;
 * `end`: behind it. Null where the object at `at` is not whole.
 */
const findList = (plan: ParsePlan, bytes: Buffer, at: number) => {
  const columns = new Set(plan.columns.flatMap((column) => column.names))
  const lists: List[] = []
  const names: string[] = []
  const end = eachField(bytes, at, 0, (nameAt, nameEnd, valueAt) => {
    const name = String(JSON.parse(bytes.toString('utf8', nameAt, nameEnd)))
    names.push(name)
    // A list in a column's field is a cell.
    if (bytes[valueAt] === openBracket && !columns.has(fieldName(name)))
      lists.push({ name, start: valueAt, holds: firstOf(bytes, valueAt) })
  })
  if (end === cut) return null
  const found = new Set(names.map(fieldName))
  const hasKey =
    plan.keyPlaces.length > 0 && plan.keyPlaces.every((place) => plan.columns[place]?.names.some((name) => found.has(name)))
  const list = listOf(plan, lists)
  const others = plan.section === null ? [] : lists.filter((one) => one !== list && one.holds === 'objects')
  return { listAt: list?.start ?? null, others: others.map(({ start }) => start), hasKey, names, end }
}

const listOf = ({ section, recordsIn }: ParsePlan, lists: readonly List[]): List | undefined => {
  if (typeof section === 'number') return lists.filter(({ holds }) => holds !== 'other')[section - 1]
  return section === null ? (named(lists, recordsIn) ?? choose(lists)) : named(lists, section)
}

const firstOf = (bytes: Buffer, listAt: number): List['holds'] => {
  const first = bytes[skipBlanks(bytes, listAt + 1)]
  return first === openBrace ? 'objects' : first === closeBracket ? 'nothing' : 'other'
}

const named = (lists: readonly List[], wanted: string | null): List | undefined => {
  const [first, second] = lists.filter(({ name }) => name === wanted)
  if (second !== undefined) throw new JsonError(second.start, `'${second.name}' appears twice`)
  return first
}

const choose = (lists: readonly List[]): List | undefined => {
  const objects = lists.filter((list) => list.holds === 'objects')
  const [, second] = objects
  if (second !== undefined)
    throw new JsonError(
      second.start,
      `there is more than one list of records: ${objects.map((list) => list.name).join(', ')}; name the one to read: \`report: { section: ${second.name} }\``,
    )
  const [empty, another] = lists.filter((list) => list.holds === 'nothing')
  return objects[0] ?? (another === undefined ? empty : undefined)
}
