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
  const { metrics } = shapeOf(report.query)
  const extra = report.content.get('extra-row')
  const left = extra === undefined || rows === 0 ? 0 : 1
  if (counted === 'rows') return rows - left
  if (counted === 'cells') return (rows - left) * metrics.length
  return rows === 0 ? 0 : filledCells(report, rows, left === 0 ? null : (extra?.row ?? 1))
}

const filledCells = ({ query, world }: Counted, rows: number, without: number | null): number => {
  const keys = shapeOf(query).keys.length
  let [filled, number] = [0, 0]
  for (const row of allRows(query, world, rows)) {
    number += 1
    if (number !== without) filled += row.slice(keys).filter((value) => value !== null).length
  }
  return filled
}

const allRows = (query: ReportQuery, world: ReportWorld, rows: number): Iterable<ReportRow> =>
  world.reportRows !== null && query.kind === 'report' && query.tables.length === 1
    ? bulkRows(query, world, rows)
    : reportRows(query, world)
