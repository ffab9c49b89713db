// The pages of problems: reports that are bought and not yet loaded, rejected rows with the raw record, tests and the units that fail them.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import { count, timeTag, span } from '../format.ts'
import { badge, command, type Html, page, table, unitLink, fields } from '../layout.ts'
import { boxKey } from '../reads/shared-columns.ts'
import {
  countQuarantined,
  type FailedTestLine,
  failedTests,
  quarantined,
  type QuarantineLine,
  testLines,
} from '../reads/read-rejects.ts'
import { openReports, type ReportLine } from '../reads/read-reports.ts'

const reportsShown = 200

/** Credits of a report; `about` where they are estimated. */
export const creditWords = ({ used_quota, estimated_quota }: ReportLine): string =>
  used_quota === null ? `about ${count(estimated_quota)}` : count(used_quota)

export const reportsPage = async (context: WebContext): Promise<Html> => {
  const body = table('Open reports', await openReports(context.kysely, reportsShown), 'No report is open.', {
    State: ({ state }) => badge(state),
    'Report id': ({ report_id }) => report_id ?? '(not known)',
    'Service says': ({ status_word }) => status_word ?? '–',
    'Bought for': boxKey,
    Units: ({ cells }) => count(cells),
    Account: ({ account }) => account,
    Age: ({ age_seconds }) => span(age_seconds),
    Polls: ({ polls }) => polls,
    'Next poll': ({ next_poll_at }) => timeTag(next_poll_at),
    Quota: creditWords,
    Error: ({ error_message }) => error_message ?? '',
  })
  return page({ title: 'Reports', place: '/reports', warehouse: context.warehouse, body })
}

const shown = 500

/** The unit, or the job where the unit is unknown. */
const whose = ({ unit_id, unit_key, job_id, pipeline }: QuarantineLine): Html | string =>
  unit_id === null ? `not known (${pipeline}, job #${job_id})` : unitLink(unit_id, unit_key ?? `#${unit_id}`)

export const quarantineTable = (caption: string, rows: readonly QuarantineLine[]): Html =>
  table(caption, rows, 'No row is in quarantine.', {
    Row: ({ quarantine_id }) => `#${quarantine_id}`,
    Unit: whose,
    Line: ({ part, line }) => `part ${part}, line ${line}`,
    Column: ({ column_name }) => column_name ?? '–',
    Reason: ({ reason }) => reason,
    'Raw record': ({ raw }) => html`<code>${raw}</code>`,
    Since: ({ created_at }) => timeTag(created_at),
  })

/** Open records, newest first. */
export const quarantinePage = async (context: WebContext): Promise<Html> => {
  const [counts, rows] = await Promise.all([countQuarantined(context.kysely), quarantined(context.kysely, shown)])
  const body = html`${table('By pipeline', counts, 'No row is in quarantine.', {
    Pipeline: ({ pipeline }) => pipeline,
    Rows: (row) => count(row.rows),
    'Once the definition is fixed': ({ pipeline }) => command(`millrace quarantine retry ${pipeline}`),
  })}
${rows.length === 0 ? '' : quarantineTable(rows.length === shown ? `The newest ${count(shown)} rows` : 'Rows', rows)}`
  return page({ title: 'Quarantine', place: '/quarantine', warehouse: context.warehouse, body })
}

export const failedTestTable = (caption: string, rows: readonly FailedTestLine[]): Html =>
  table(caption, rows, 'No unit fails a test.', {
    Unit: ({ unit_id, unit_key }) => unitLink(unit_id, unit_key),
    Test: ({ test }) => test,
    Outcome: ({ outcome }) => badge(outcome),
    'Expected and found': ({ message }) => message,
    Tested: ({ tested_at }) => timeTag(tested_at),
  })

export const testsPage = async (context: WebContext): Promise<Html> => {
  const [tests, failed] = await Promise.all([testLines(context.kysely), failedTests(context.kysely, shown)])
  const none = context.definitions.some(({ tests }) => tests.length > 0)
    ? 'No run has applied the tests of the definitions yet.'
    : 'No definition has tests. `tests:` in a definition says what its rows must be.'
  const body = html`${table('Tests of the definitions', tests, none, {
    ...fields('pipeline', 'test'),
    'Expects that': ({ expects }) => expects,
    Otherwise: ({ on_failure }) => on_failure,
    'Units held': ({ held }) => count(held),
    ...fields('warned', 'released'),
    'Last failed': ({ tested_at }) => timeTag(tested_at),
  })}
${failedTestTable(failed.length === shown ? `The newest ${count(shown)} failures` : 'Units that fail a test', failed)}`
  return page({ title: 'Tests', place: '/tests', warehouse: context.warehouse, body })
}
