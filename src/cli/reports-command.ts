// `millrace reports list|adopt|give-up`: purchases that are open, uncertain, lost, given up or unused, and what a person knows about one.
import { EtlError } from '../core/errors.ts'
import { isReportId } from '../core/report-shape.ts'
import { showSpan } from '../core/window.ts'
import { adoptReport, giveUpReport } from '../ledger/purchases.ts'
import { listPurchases } from '../web/reads/read-reports.ts'
import { wholeNumber } from './command-options.ts'
import { withDatabase } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { assertKnownPipelines } from './known-pipelines.ts'
import { formatNumber } from './output.ts'
import { timesOf } from './zone.ts'

const by = 'command line'

/** `list` changes nothing; `adopt` and `give-up` decide about a purchase. */
export const handle: Handler = async (invocation) => {
  const [action, ...rest] = invocation.args
  if (action === 'list') return list(invocation, rest)
  if (action === 'adopt') return adopt(invocation, rest)
  if (action === 'give-up') return giveUp(invocation, rest)
  throw new EtlError('USAGE', `'${action}' is not one of list, adopt, give-up.`)
}

const list = async (invocation: Invocation, pipelines: readonly string[]): Promise<number> => {
  const { output } = invocation
  const limit = wholeNumber(invocation.options['limit'], () => '--limit takes a whole number from 1.')
  return withDatabase(invocation, async ({ kysely }) => {
    await assertKnownPipelines(kysely, invocation, pipelines)
    const { rows, total } = await listPurchases(kysely, { pipelines, limit })
    for (const row of rows) output.event({ event: 'report', ...row })
    output.event({ event: 'summary', command: 'reports list', listed: rows.length, total })
    const times = timesOf(invocation)
    output.table(
      ['job', 'kind', 'pipeline', 'months', 'units', 'state', 'report', 'credits', 'submitted'],
      rows.map((row) => [
        String(row.job_id),
        row.kind,
        row.pipeline,
        showSpan({ from: row.window_from, to: row.window_to }),
        formatNumber(row.cells),
        row.status_word === null ? row.state : `${row.state} (${row.status_word})`,
        row.report_id ?? '(id not known)',
        row.quota === null ? '-' : formatNumber(row.quota),
        times.at(row.submitted_at),
      ]),
    )
    output.line(`${rows.length} of ${total} purchases.`)
    if (rows.length > 0) times.sayZone(output)
    const kinds = new Set(rows.map(({ kind }) => kind))
    if (kinds.has('uncertain'))
      output.line("Next: compare with the service's own list; `millrace reports adopt JOB ID` if it has one, else `give-up JOB`.")
    else if (kinds.has('lost'))
      output.line("Next: compare with the service's own list; `millrace reports adopt JOB ID` if it has one.")
    return 0
  })
}

const jobOf = (text: string | undefined, usage: string): number =>
  wholeNumber(text, () => `Write \`millrace reports ${usage}\`; \`millrace reports list\` names the jobs.`)

const adopt = async (invocation: Invocation, [job, reportId, ...rest]: readonly string[]): Promise<number> => {
  const jobId = jobOf(job, 'adopt JOB ID')
  if (reportId === undefined || rest.length > 0 || !isReportId(reportId))
    throw new EtlError('USAGE', 'Write `millrace reports adopt JOB ID`, with the id as the service shows it.')
  return withDatabase(invocation, async ({ kysely }) => {
    await adoptReport(kysely, { jobId, reportId, by })
    invocation.output.event({ event: 'summary', command: 'reports adopt', job_id: jobId, report_id: reportId })
    invocation.output.line(
      `Job ${jobId} has report ${reportId} now. The next run polls, downloads and loads it; nothing is bought.`,
    )
    return 0
  })
}

const giveUp = async (invocation: Invocation, [job, ...rest]: readonly string[]): Promise<number> => {
  const jobId = jobOf(rest.length > 0 ? undefined : job, 'give-up JOB [--sure]')
  const sure = invocation.options['sure'] === true
  return withDatabase(invocation, async ({ kysely }) => {
    await giveUpReport(kysely, { jobId, by, sure })
    invocation.output.event({ event: 'summary', command: 'reports give-up', job_id: jobId })
    invocation.output.line(`Job ${jobId} is given up. The next run that wants its units buys them again.`)
    return 0
  })
}
