// What is not as it should be, page by page: reports that are bought and not yet loaded, rejected rows with the raw record, tests and the units that fail them.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import { count, moment, span } from '../format.ts'
import { badge, command, type Html, page, table, unitLink } from '../layout.ts'
import { boxKey } from '../reads/boxes.ts'
import { type FailedTestLine, failedTests, testLines } from '../reads/read-data-tests.ts'
import { countQuarantined, quarantined, type QuarantineLine } from '../reads/read-quarantine.ts'
import { openReports, type ReportLine } from '../reads/read-reports.ts'

const reportsShown = 200

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
  const reports = await openReports(context.kysely, reportsShown)
  const body = reportTable('Open reports', reports, 'No report is open.')
  return page({ title: 'Reports', place: '/reports', warehouse: context.warehouse, body })
}

/** Rows and failures of one page. */
const shown = 500

/** The unit, or the job where nobody can tell whose record it is. */
const whose = ({ unit_id, unit_key, job_id, pipeline }: QuarantineLine): Html | string =>
  unit_id === null ? `not known (${pipeline}, job #${job_id})` : unitLink(unit_id, unit_key ?? `#${unit_id}`)

/** Rejected records with their reasons. */
export const quarantineTable = (caption: string, rows: readonly QuarantineLine[]): Html =>
  table(
    caption,
    ['Row', 'Unit', 'Line', 'Column', 'Reason', 'Raw record', 'Since'],
    rows.map((row) => [
      `#${row.quarantine_id}`,
      whose(row),
      `part ${row.part}, line ${row.line}`,
      row.column_name ?? '–',
      row.reason,
      html`<code>${row.raw}</code>`,
      moment(row.created_at),
    ]),
    'No row is in quarantine.',
  )

/** Open records, newest first. */
export const quarantinePage = async (context: WebContext): Promise<Html> => {
  const [counts, rows] = await Promise.all([countQuarantined(context.kysely), quarantined(context.kysely, shown)])
  const body = html`${table(
    'By pipeline',
    ['Pipeline', 'Rows', 'Once the definition is fixed'],
    counts.map((row) => [row.pipeline, count(row.rows), command(`millrace quarantine retry ${row.pipeline}`)]),
    'No row is in quarantine.',
  )}
${rows.length === 0 ? '' : quarantineTable(rows.length === shown ? `The newest ${count(shown)} rows` : 'Rows', rows)}`
  return page({ title: 'Quarantine', place: '/quarantine', warehouse: context.warehouse, body })
}

/** Units with the tests they fail. */
export const failedTestTable = (caption: string, rows: readonly FailedTestLine[]): Html =>
  table(
    caption,
    ['Unit', 'Test', 'What became of it', 'Expected and found', 'Tested'],
    rows.map((row) => [unitLink(row.unit_id, row.unit_key), row.test, badge(row.outcome), row.message, moment(row.tested_at)]),
    'No unit fails a test.',
  )

/** Every test of every pipeline. */
export const testsPage = async (context: WebContext): Promise<Html> => {
  const [tests, failed] = await Promise.all([testLines(context.kysely), failedTests(context.kysely, shown)])
  const body = html`${table(
    'Tests of the definitions',
    ['Pipeline', 'Test', 'Expects that', 'Otherwise', 'Units held', 'Warned', 'Released', 'Last failed'],
    tests.map((row) => [
      row.pipeline,
      row.test,
      row.expects,
      row.on_failure,
      count(row.held),
      count(row.warned),
      count(row.released),
      moment(row.tested_at),
    ]),
    'No definition has tests. `tests:` in a definition says what its rows must be.',
  )}
${failedTestTable(failed.length === shown ? `The newest ${count(shown)} failures` : 'Units that fail a test', failed)}`
  return page({ title: 'Tests', place: '/tests', warehouse: context.warehouse, body })
}
