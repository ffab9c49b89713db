// Where readers put what they read: accepted rows into COPY text, the others into the report.
import { type CopyWriter, copyNull, createCopyWriter, escapeCell, writeRow } from './copy-text.ts'
import { type CellOf, filledCells, keyOf, measurePlaces, type ParsePlan, type RowError, tryRow } from './parse-plan.ts'
import { addReject, type ParseReport } from './parse-report.ts'

/** Where a record stands and what it looked like. */
export interface RecordPlace {
  /** Line it begins on, or its number in a JSON list. */
  readonly line: number
  /** The record as text; asked for only where it is needed. */
  readonly raw: () => string
}

/** Where rows go, whatever format they come in. */
export interface RowSink {
  /** The part at hand; one sink serves all parts of an answer, one after the other. */
  part: number
  readonly plan: ParsePlan
  readonly report: ParseReport
  readonly writer: CopyWriter
  /** Scratch for one row, in the order of the COPY. */
  readonly values: (string | null)[]
  /** The same as COPY text. */
  readonly cells: string[]
  /** By planned column: the sum of 1, a record had its field; 2, one lacked it; 4, a header lacked it. */
  readonly seen: Uint8Array
  /** Called with each accepted row; null where nobody asks. */
  readonly onAccepted: ((record: RecordPlace) => void) | null
}

/** @param onAccepted called with the place of each accepted record; null: nobody asks */
export const createRowSink = (plan: ParsePlan, report: ParseReport, onAccepted: RowSink['onAccepted'] = null): RowSink => ({
  part: 0,
  plan,
  report,
  writer: createCopyWriter(),
  values: [],
  cells: [],
  seen: new Uint8Array(plan.columns.length),
  onAccepted,
})

/** Of fewer records all may lack by chance what each may lack. */
const enoughRecords = 20

/** What the parts so far had of the definition's fields. */
export const reportFields = ({ plan, report, seen }: RowSink): void => {
  const named = (is: (found: number) => boolean): string[] =>
    plan.columns.flatMap(({ column }, place) => (is(seen[place] ?? 0) ? [column.name] : []))
  report.missingColumns = named((found) => found > 0 && found % 2 === 0)
  report.partlyMissing = named((found) => (found & 3) === 3)
  report.newlyMissing = report.read < enoughRecords ? named((found) => found >= 4 && found % 2 === 0) : report.missingColumns
}

/** Writes the row, passes it over, or rejects it with the reason; returns whether it was rejected. */
export const takeRow = (sink: RowSink, cellOf: CellOf, record: RecordPlace): boolean => {
  const problem = tryRow(sink.plan, cellOf, sink.values)
  if (problem !== null) {
    const filled = filledCells(sink.plan, cellOf)
    leaveOut(sink, filled, filled)
    if (problem.isElsewhere) {
      sink.report.passedOver += 1
      return false
    }
    reject(sink, problem, record, keyOf(sink.plan, cellOf))
    return true
  }
  const { plan, report, writer, values, cells } = sink
  const suffix = plan.mark === undefined ? '' : plan.mark.suffixOf(values)
  report.read += 1
  if (suffix === null) {
    report.elsewhere += 1
    return false
  }
  report.rows += 1
  for (let place = 0; place < values.length; place += 1) {
    const value = values[place] ?? null
    cells[place] = value === null ? copyNull : plan.columns[place]?.isEscaped === false ? value : escapeCell(value)
  }
  writeRow(writer, cells, suffix)
  sink.onAccepted?.(record)
  return false
}

/** For a record that is no row. @param cellOf null: its cells cannot be told apart, so that it may be anybody's */
export const rejectRow = (sink: RowSink, problem: RowError, record: RecordPlace, cellOf: CellOf | null = null): void => {
  leaveOut(sink, 0, measurePlaces(sink.plan).length)
  reject(sink, problem, record, cellOf === null ? null : keyOf(sink.plan, cellOf))
}

const leaveOut = ({ report: { cellsLeftOut } }: RowSink, least: number, most: number): void => {
  cellsLeftOut.least += least
  cellsLeftOut.most += most
}

const reject = (
  { part, report, plan }: RowSink,
  { column, message }: RowError,
  record: RecordPlace,
  key: readonly (string | null)[] | null,
): void => {
  const unit = plan.mark?.unitOf(key) ?? null
  addReject(report, { part, line: record.line, column, reason: message, raw: record.raw(), key, unit })
  if (plan.mark !== undefined && unit !== null) plan.mark.rejects[unit] = (plan.mark.rejects[unit] ?? 0) + 1
}
