// Reports that are bought and not yet loaded, with their age and id.
import type { WebContext } from '../context.ts'
import { age, count, moment } from '../format.ts'
import { badge, type Html, page, table, unitLink } from '../layout.ts'
import { openReports, type ReportLine } from '../../reads/reports.ts'

const shown = 1_000

export const reportTable = (caption: string, reports: readonly ReportLine[], nowMs: number, empty: string): Html =>
  table(
    caption,
    ['State', 'Report id', 'Service says', 'Unit', 'Account', 'Age', 'Polls', 'Next poll', 'Quota', 'Error'],
    reports.map((report) => [
      badge(report.state),
      report.report_id ?? '(not known)',
      report.status_word ?? '–',
      unitLink(report.unit_id, report.unit_key),
      report.account,
      age(report.created_at, nowMs),
      report.polls,
      moment(report.next_poll_at),
      report.used_quota === null ? `about ${count(report.estimated_quota)}` : count(report.used_quota),
      report.error_message ?? '',
    ]),
    empty,
  )

export const reportsPage = async (context: WebContext): Promise<Html> => {
  const reports = await openReports(context.kysely, shown)
  const body = reportTable('Open reports', reports, context.clock.now(), 'No report is open.')
  return page({ title: 'Reports', place: '/reports', warehouse: context.warehouse, body })
}
