// Reports that are bought and not yet loaded, with their age, their id and what they are bought for.
import type { WebContext } from '../context.ts'
import { count, moment, span } from '../format.ts'
import { badge, type Html, page, table } from '../layout.ts'
import { boxKey } from '../reads/boxes.ts'
import { openReports, type ReportLine } from '../reads/read-reports.ts'

const shown = 200

/** @param empty what stands there instead where there is none */
export const reportTable = (caption: string, reports: readonly ReportLine[], empty: string): Html =>
  table(
    caption,
    ['State', 'Report id', 'Service says', 'Bought for', 'Units', 'Account', 'Age', 'Polls', 'Next poll', 'Quota', 'Error'],
    reports.map((report) => [
      badge(report.state),
      report.report_id ?? '(not known)',
      report.status_word ?? '–',
      boxKey(report),
      count(report.cells),
      report.account,
      span(report.age_seconds),
      report.polls,
      moment(report.next_poll_at),
      report.used_quota === null ? `about ${count(report.estimated_quota)}` : count(report.used_quota),
      report.error_message ?? '',
    ]),
    empty,
  )

/** Purchases that are open, lost or unused. */
export const reportsPage = async (context: WebContext): Promise<Html> => {
  const reports = await openReports(context.kysely, shown)
  const body = reportTable('Open reports', reports, 'No report is open.')
  return page({ title: 'Reports', place: '/reports', warehouse: context.warehouse, body })
}
