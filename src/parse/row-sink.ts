// Where readers put what they read: accepted rows into COPY text, the others into the report.
import type { Payload } from '../core/types.ts'
import { createCopyWriter, writeBytes } from './copy-text.ts'
import { maxKeyBytes } from './parse-limits.ts'
import { type CellOf, filledCells, keyOf, keyProblem, measurePlaces, type ParsePlan, RowError } from './parse-plan.ts'
import { addReject, addStray, type ParseReport } from './parse-report.ts'
import { type Cells, writeCell } from './row-cells.ts'
import { unknownPlaces } from './unit-mark.ts'

/** Where a record is in the answer, and its text. */
interface RecordPlace {
  /** Line it begins on, or its number in a JSON list. */
  readonly line: number
  /** The record as text; called only where it is needed. */
  readonly raw: () => string
}

/** Called with the place of each accepted record, and its part; null: not wanted. */
export type OnAccepted = ((record: RecordPlace, part: number) => void) | null

export type RowSink = ReturnType<typeof createRowSink>

/** Where rows go, whatever format they come in. */
export const createRowSink = (plan: ParsePlan, report: ParseReport, onAccepted: OnAccepted) => ({
  /** The part at hand; one sink serves all parts of an answer, one after the other. */
  part: 0,
  /** The file of the part, where the answer is several files. */
  file: null as NonNullable<Payload['file']> | null,
  /** Over all parts of the answer. */
  tables: {
    /** Tables that began so far, and the fields of the last one. */
    count: 0,
    names: [] as readonly string[],
    /** Of the answer, in which the last one began. */
    part: 0,
    /** Whether the one that the definition names was among them. */
    found: false,
  },
  plan,
  report,
  onAccepted,
  writer: createCopyWriter(),
  /** Values of the row at hand, in the order of the COPY; see `writeCell`. */
  values: [] as (string | null)[],
  /** What ended the last row, as text and as bytes. */
  suffix: null as string | null,
  suffixBytes: Buffer.alloc(0),
  /** Bits by planned column: 1, a record had its field; 2, a record lacked it; 4, a header lacked it. */
  seen: new Uint8Array(plan.columns.length),
})

/** Fewer records may all lack an optional field by chance. */
const enoughRecords = 20

/** Reports which of the definition's fields the parts so far had. */
export const reportFields = ({ plan, report, seen }: RowSink): void => {
  const named = (is: (found: number) => boolean): string[] =>
    plan.columns.flatMap(({ column }, place) => (is(seen[place] ?? 0) ? [column.name] : []))
  // A field that this version of the service never has is no drift.
  const news = (names: readonly string[]): readonly string[] =>
    names.filter((name) => !plan.columns.some(({ column, isLacked }) => isLacked && column.name === name))
  report.missingColumns = named((found) => found > 0 && found % 2 === 0)
  report.partlyMissing = named((found) => (found & 3) === 3)
  report.newlyMissing = news(
    report.read < enoughRecords ? named((found) => found >= 4 && found % 2 === 0) : report.missingColumns,
  )
}

/** Appends the cells, each with a tab behind it. Returns null, or why they are no row: then nothing is appended. */
const tryRow = ({ plan, writer, values }: RowSink, cells: Cells): RowError | null => {
  const begin = writer.at
  try {
    let keyBytes = 0
    for (let place = 0; place < plan.columns.length; place += 1) {
      const planned = plan.columns[place]
      if (planned === undefined) continue
      const at = writer.at
      values[place] = writeCell(planned, cells, place, writer)
      if (planned.column.isKey) keyBytes += writer.at - at
    }
    const problem = keyBytes > maxKeyBytes ? keyProblem(plan, cells.textOf) : null
    if (problem !== null) writer.at = begin
    return problem
  } catch (error) {
    writer.at = begin
    if (error instanceof RowError) return error
    throw error
  }
}

/** Whether the cells would be a row; nothing is written. */
export const isRow = (sink: RowSink, cells: Cells): boolean => {
  const begin = sink.writer.at
  const problem = tryRow(sink, cells)
  sink.writer.at = begin
  return problem === null
}

/** Writes the row, passes it over, or rejects it with the reason; returns whether it was rejected. */
export const takeRow = (sink: RowSink, cells: Cells, record: RecordPlace): boolean => {
  const { plan, report, writer, values } = sink
  const begin = writer.at
  const problem = tryRow(sink, cells)
  if (problem !== null) {
    const filled = filledCells(plan, cells.textOf) + cells.others()
    leaveOut(sink, filled, filled)
    if (problem.stray !== null) {
      addStray(report, problem.stray)
      if (!problem.stray.isExpected) plan.mark?.addOther(keyOf(plan, cells.textOf))
      return false
    }
    reject(sink, problem, record, keyOf(plan, cells.textOf))
    return true
  }
  const suffix = plan.mark === undefined ? '' : plan.mark.suffixOf(values)
  if (plan.mark !== undefined && plan.others.length > 0) plan.mark.filled += cells.others()
  report.read += 1
  if (suffix === null) {
    writer.at = begin
    report.elsewhere += 1
    return false
  }
  report.rows += 1
  endRow(sink, suffix)
  sink.onAccepted?.(record, sink.part)
  return false
}

/** Writes the suffix in the place of the last cell's tab. */
const endRow = (sink: RowSink, suffix: string): void => {
  if (suffix !== sink.suffix) {
    sink.suffix = suffix
    sink.suffixBytes = Buffer.from(`${suffix}\n`)
  }
  sink.writer.at -= 1
  writeBytes(sink.writer, sink.suffixBytes)
  sink.writer.rows += 1
}

/** Rejects a record that is no row. @param cellOf null: its cells cannot be told apart, so it may be of any unit */
export const rejectRow = (sink: RowSink, problem: RowError, record: RecordPlace, cellOf: CellOf | null = null): void => {
  leaveOut(sink, 0, measurePlaces(sink.plan).length + sink.plan.others.length)
  reject(sink, problem, record, cellOf === null ? null : keyOf(sink.plan, cellOf))
}

const leaveOut = ({ report: { cellsLeftOut } }: RowSink, least: number, most: number): void => {
  cellsLeftOut.least += least
  cellsLeftOut.most += most
}

const reject = (
  { part, report, plan }: RowSink,
  { column, message, isUnasked }: RowError,
  record: RecordPlace,
  cells: readonly (string | null)[] | null,
): void => {
  const whose = plan.mark?.placesOfKey(cells) ?? unknownPlaces
  const key = cells?.includes(null) === true ? null : cells
  addReject(report, { part, line: record.line, column, reason: message, raw: record.raw(), key, ...whose, isUnasked })
  if (plan.mark !== undefined && whose.unit !== null) plan.mark.rejects[whose.unit] = (plan.mark.rejects[whose.unit] ?? 0) + 1
}
