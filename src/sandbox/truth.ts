// What the service has, read beside its endpoints: nothing is charged, counted or spoiled by a fault. For tests that need an oracle.
import { worldOf } from './batch-endpoints.ts'
import type { KeywordQuery } from './keyword-data.ts'
import { rowsOf, viewOf } from './keyword-endpoint.ts'
import type { ReportQuery, ReportWorld, TableQuery } from './report-query.ts'
import { reportRows, shapeOf } from './report-rows.ts'
import type { Service } from './service.ts'

/** A report's row by column, spelled as in its file; null where there is no value. */
export type SoldRow = Readonly<Record<string, string | null>>

export interface Truth {
  /** Rows a report of this one table would hold if it were bought now. */
  report(table: TableQuery): readonly SoldRow[]
  /** Rows of a report that was bought, with the values it was made of; null: no such report. Faults of its content are left out. */
  sold(reportId: string): readonly SoldRow[] | null
  /** All records of a keyword query now, in the order of the answer. */
  keywords(query: KeywordQuery): readonly Readonly<Record<string, unknown>>[]
}

export const truthOf = (service: Service): Truth => ({
  report: (table) =>
    rows({ kind: table.vtable === null ? 'shopper' : 'report', format: 'csv', tables: [table] }, worldOf(service)),
  sold: (reportId) => {
    const report = service.reports.get(reportId)
    if (report === null) return null
    return report.content.has('empty-report') ? [] : rows(report.query, report.world)
  },
  keywords: (query) => {
    if (rowsOf(service, query.domain) === 0) return []
    const view = viewOf(service, query)
    return Array.from({ length: view.count }, (_, index): Record<string, unknown> => JSON.parse(view.record(index)))
  },
})

const rows = (query: ReportQuery, world: ReportWorld): SoldRow[] => {
  const { keys, metrics } = shapeOf(query)
  const names = [...keys, ...metrics]
  return [...reportRows(query, world)].map((row) => Object.fromEntries(names.map((name, index) => [name, row[index] ?? null])))
}
