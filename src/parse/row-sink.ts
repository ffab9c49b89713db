// Where readers put what they read: accepted rows into COPY text, the others into the report.
import { type CopyWriter, createCopyWriter, writeRow } from './copy-text.ts'
import { type CellOf, filledCells, keyOf, measurePlaces, type ParsePlan, type RowError, tryRow } from './plan.ts'
import { addReject, type ParseReport } from './report.ts'

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
  onAccepted,
})

/** Counts a batch of rows that a fast lane wrote itself. */
export const countRows = (sink: RowSink, rows: number): void => {
  sink.writer.rows += rows
  sink.report.read += rows
  sink.report.rows += rows
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
  const from = sink.writer.at
  writeRow(sink.writer, sink.values)
  sink.plan.mark?.end(sink.writer, from)
  sink.report.read += 1
  sink.report.rows += 1
  sink.onAccepted?.(record)
  return false
}

/** For a record whose cells cannot be told apart. */
export const rejectRow = (sink: RowSink, problem: RowError, record: RecordPlace): void => {
  leaveOut(sink, 0, measurePlaces(sink.plan).length)
  reject(sink, problem, record, null)
}

const leaveOut = ({ report: { cellsLeftOut } }: RowSink, least: number, most: number): void => {
  cellsLeftOut.least += least
  cellsLeftOut.most += most
}

const reject = (
  { part, report }: RowSink,
  { column, message }: RowError,
  record: RecordPlace,
  key: readonly (string | null)[] | null,
): void => addReject(report, { part, line: record.line, column, reason: message, raw: record.raw(), key })
