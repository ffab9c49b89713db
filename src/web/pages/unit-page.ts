// One unit: its state and how to fix it, and everything that led to its rows: answers, jobs, reports, loads, rejected rows, requests.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import { bytes, count, coverageAddress, moment, sliceLabel } from '../format.ts'
import { badge, command, type Html, nextStepOf, page, table } from '../layout.ts'
import { failedTests } from '../reads/read-data-tests.ts'
import { quarantined } from '../reads/read-quarantine.ts'
import {
  type AnswerLine,
  type JobLine,
  jobReports,
  jobRequests,
  type LoadLine,
  type RequestLine,
  unitAnswers,
  type UnitDetail,
  unitDetail,
  unitJobs,
  unitLoads,
  unitRows,
} from '../reads/unit-detail.ts'
import { failedTestTable, quarantineTable, reportTable } from './trouble-pages.ts'

const rejectedShown = 50

/** A unit from its jobs to its rows; null: there is no such unit. */
export const unitPage = async (context: WebContext, unitId: number): Promise<Html | null> => {
  const { kysely } = context
  const unit = await unitDetail(kysely, unitId)
  if (unit === null) return null
  const answers = await unitAnswers(kysely, unit)
  const jobs = await unitJobs(kysely, unit.job_id, answers)
  const jobIds = [...new Set([...jobs, ...answers].map(({ job_id }) => job_id))]
  const [reports, loads, requests, rejected, failed, rows] = await Promise.all([
    jobReports(kysely, jobs),
    unitLoads(kysely, unit.window_from, answers),
    jobRequests(kysely, jobIds),
    quarantined(kysely, rejectedShown, unitId),
    failedTests(kysely, rejectedShown, unitId),
    rowsOf(context, unit),
  ])
  const body = html`${facts({ ...unit, rows }, answers, jobs)}
${answerTable(unit, answers)}
${jobTable(jobs)}
${reportTable('Reports', reports, 'No report was bought for this unit.')}
${loadTable(loads)}
${quarantineTable('Rows in quarantine', rejected)}
${failedTestTable('Tests it fails', failed)}
${requestTable(requests)}`
  return page({ title: `Unit #${unit.unit_id}`, place: '/units', warehouse: context.warehouse, body })
}

/** As loaded, or counted in the table where the answer was for many units. */
const rowsOf = async ({ kysely, definitions }: WebContext, unit: UnitDetail): Promise<number | null> => {
  const definition = definitions.find(({ pipeline, version }) => pipeline === unit.pipeline && version === unit.version)
  if (unit.rows !== null || unit.answer_id === null || definition === undefined) return unit.rows
  return unitRows(kysely, definition, unit)
}

const facts = (unit: UnitDetail, answers: readonly AnswerLine[], jobs: readonly JobLine[]): Html => {
  const answer = answers.find(({ answer_id }) => answer_id === unit.answer_id)
  const job = jobs.find(({ job_id }) => job_id === unit.job_id)
  const month = unit.window_from.slice(0, 7)
  return html`
${unit.error_message === null || unit.state === 'loaded' ? '' : html`<p class="problem" role="alert"><strong>${unit.error_code ?? ''}</strong> ${unit.error_message}</p>`}
<dl>
<dt>Unit</dt><dd><code>${unit.unit_key}</code></dd>
<dt>State</dt><dd>${badge(unit.state)}</dd>
<dt>How to fix</dt><dd>${nextStepOf(unit)}</dd>
<dt>Pipeline</dt><dd><a href="${coverageAddress(unit.pipeline)}">${unit.pipeline}</a></dd>
<dt>Window</dt><dd>${unit.window_from} up to ${unit.window_to}</dd>
<dt>Slice</dt><dd>${sliceLabel(unit.slice)}${unit.wanted ? '' : ' (no longer in the lists: its rows stay, nothing more is asked for)'}</dd>
<dt>Rows</dt><dd>${count(unit.rows)}</dd>
<dt>Loaded</dt><dd>${moment(unit.loaded_at)}</dd>
<dt>Asked for</dt><dd>${moment(answer?.asked_at ?? null)}${answer?.stood_at == null ? '' : `, still the same at ${moment(answer.stood_at)}`}</dd>
<dt>Service says</dt><dd>${answer?.source_last_updated == null ? '–' : `last updated ${answer.source_last_updated}`}${answer?.source_count == null ? '' : `, ${count(answer.source_count)} rows`}</dd>
<dt>Attempts</dt><dd>${unit.attempts}</dd>
<dt>Not before</dt><dd>${moment(unit.not_before)}</dd>
<dt>At work</dt><dd>${job?.holder ?? 'nobody'}</dd>
<dt>Landing file</dt><dd><code>${answer?.landing ?? '–'}</code> ${bytes(answer?.bytes ?? null)}</dd>
<dt>Parse again</dt><dd>${command(`millrace replay ${unit.pipeline} --from ${month} --to ${month}`)}</dd>
</dl>`
}

const answerTable = (unit: UnitDetail, answers: readonly AnswerLine[]): Html =>
  table(
    'Answers',
    ['Answer', 'Asked for', 'For', 'Verdict', 'Size', 'Landing'],
    answers.map((answer) => [
      `#${answer.answer_id}${answer.answer_id === unit.answer_id ? ' (loaded)' : answer.answer_id === unit.held_answer_id ? ' (held)' : ''}`,
      moment(answer.asked_at),
      answer.slices === 1 ? 'this slice' : `${count(answer.slices)} slices`,
      answer.verdict_message ?? answer.verdict ?? 'not judged yet',
      bytes(answer.bytes),
      html`<code>${answer.landing}</code>`,
    ]),
    'No answer yet.',
  )

const jobTable = (jobs: readonly JobLine[]): Html =>
  table(
    'Jobs',
    ['Job', 'State', 'Kind', 'Why', 'Units', 'Run', 'Asked again for'],
    jobs.map((job) => [
      `#${job.job_id}`,
      badge(job.state),
      job.kind,
      job.reason,
      count(job.cells),
      runLink(job.run_id),
      job.former_job_id === null ? '–' : `#${job.former_job_id}`,
    ]),
    'No record of its jobs is kept.',
  )

const runLink = (runId: number | null): Html | string => (runId === null ? '–' : html`<a href="/runs/${runId}">#${runId}</a>`)

const loadTable = (loads: readonly LoadLine[]): Html =>
  table(
    'Loads',
    [
      'When',
      'Run',
      'Outcome',
      'Units',
      'Read',
      'Inserted',
      'Updated',
      'Ended',
      'Unchanged',
      'Quarantined',
      'Duplicates',
      'Drift',
      'Answer',
    ],
    loads.map((load) => [
      moment(load.loaded_at),
      runLink(load.run_id),
      badge(load.outcome),
      ...[
        load.units,
        load.rows_read,
        load.rows_inserted,
        load.rows_updated,
        load.rows_ended,
        load.rows_unchanged,
        load.rows_quarantined,
        load.rows_duplicates,
      ].map((value) => count(value)),
      load.drift === null ? '' : html`<code>${JSON.stringify(load.drift)}</code>`,
      `#${load.answer_id}`,
    ]),
    'Not loaded yet.',
  )

const requestTable = (requests: readonly RequestLine[]): Html =>
  table(
    'Requests',
    ['Started', 'Request', 'Job', 'Part', 'Attempt', 'Status', 'Size', 'Took'],
    requests.map((request) => [
      moment(request.started_at),
      `${request.method} ${request.endpoint}`,
      request.job_id === null ? '–' : `#${request.job_id}`,
      request.part ?? '–',
      request.attempt,
      request.status ?? request.error_code ?? 'no answer',
      bytes(request.bytes),
      `${Math.round(request.milliseconds)} ms`,
    ]),
    'No request yet.',
  )
