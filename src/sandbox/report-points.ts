// What a report's data points are: the interface does not say, so each reading can be asked for.
import type { DataPoints, ReportQuery, ReportWorld } from './report-query.ts'
import { bulkRows } from './report-bulk.ts'
import { type ReportRow, reportRows, shapeOf } from './report-rows.ts'
import type { ContentFaults } from './report-text.ts'

interface Counted {
  readonly query: ReportQuery
  readonly world: ReportWorld
  readonly content: ContentFaults
}

/** @param rows data rows of the report */
export const countPoints = (report: Counted, rows: number, counted: DataPoints): number => {
  if (rows === 0) return 0
  const { metrics } = shapeOf(report.query)
  const entries = rows + (timesOf(report, 'twice') === null ? 0 : 1) - (timesOf(report, 'never') === null ? 0 : 1)
  if (counted === 'rows') return entries
  return counted === 'cells' ? entries * metrics.length : filledCells(report, rows)
}

/** The row that the count has twice although it is one, or never although it is there; null: none. */
const timesOf = ({ content }: Counted, times: 'twice' | 'never'): number | null => {
  const fault = times === 'never' ? content.get('extra-row') : content.get('duplicate-rows')
  return fault === undefined || (times === 'twice' && fault.counted !== true) ? null : (fault.row ?? 1)
}

const filledCells = (report: Counted, rows: number): number => {
  const { query, world } = report
  const keys = shapeOf(query).keys.length
  const [twice, never] = [timesOf(report, 'twice'), timesOf(report, 'never')]
  let [filled, number] = [0, 0]
  for (const row of allRows(query, world, rows)) {
    number += 1
    if (number !== never) filled += (number === twice ? 2 : 1) * row.slice(keys).filter((value) => value !== null).length
  }
  return filled
}

const allRows = (query: ReportQuery, world: ReportWorld, rows: number): Iterable<ReportRow> =>
  world.reportRows !== null && query.kind === 'report' && query.tables.length === 1
    ? bulkRows(query, world, rows)
    : reportRows(query, world)
