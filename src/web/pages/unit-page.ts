// One unit: its state and how to fix it, and everything that led to its rows: answers, jobs, reports, loads, rejected rows, requests.
import { html } from 'hono/html'
import { unitStates } from '../../core/types.ts'
import type { WebContext } from '../context.ts'
import { bytes, count, coverageAddress, moment, sliceLabel } from '../format.ts'
import { badge, command, type Html, nextStepOf, page, table, unitLink } from '../layout.ts'
import { failedTests } from '../reads/read-data-tests.ts'
import { quarantined } from '../reads/read-quarantine.ts'
import { windowStates } from '../reads/read-windows.ts'
import {
  type AnswerLine,
  type JobLine,
  jobReports,
  jobRequests,
  type LoadLine,
  type RequestLine,
  unitAnswers,
  unitDetail,
  type UnitDetail,
  unitJobs,
  unitLoads,
  unitRows,
} from '../reads/unit-detail.ts'
import { countUnits, type UnitFilter, unitLines } from '../reads/unit-lines.ts'
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
  table('Answers', answers, 'No answer yet.', {
    Answer: ({ answer_id }) =>
      `#${answer_id}${answer_id === unit.answer_id ? ' (loaded)' : answer_id === unit.held_answer_id ? ' (held)' : ''}`,
    'Asked for': ({ asked_at }) => moment(asked_at),
    For: ({ slices }) => (slices === 1 ? 'this slice' : `${count(slices)} slices`),
    Verdict: ({ verdict, verdict_message }) => verdict_message ?? verdict ?? 'not judged yet',
    Size: (answer) => bytes(answer.bytes),
    Landing: ({ landing }) => html`<code>${landing}</code>`,
  })

const jobTable = (jobs: readonly JobLine[]): Html =>
  table('Jobs', jobs, 'No record of its jobs is kept.', {
    Job: ({ job_id }) => `#${job_id}`,
    State: ({ state }) => badge(state),
    Kind: ({ kind }) => kind,
    Why: ({ reason }) => reason,
    Units: ({ cells }) => count(cells),
    Run: ({ run_id }) => runLink(run_id),
    'Asked again for': ({ former_job_id }) => (former_job_id === null ? '–' : `#${former_job_id}`),
  })

const runLink = (runId: number | null): Html | string => (runId === null ? '–' : html`<a href="/runs/${runId}">#${runId}</a>`)

const loadTable = (loads: readonly LoadLine[]): Html =>
  table('Loads', loads, 'Not loaded yet.', {
    When: ({ loaded_at }) => moment(loaded_at),
    Run: ({ run_id }) => runLink(run_id),
    Outcome: ({ outcome }) => badge(outcome),
    Units: ({ units }) => count(units),
    Read: (load) => count(load.rows_read),
    Inserted: (load) => count(load.rows_inserted),
    Updated: (load) => count(load.rows_updated),
    Ended: (load) => count(load.rows_ended),
    Unchanged: (load) => count(load.rows_unchanged),
    Quarantined: (load) => count(load.rows_quarantined),
    Duplicates: (load) => count(load.rows_duplicates),
    Drift: ({ drift }) => (drift === null ? '' : html`<code>${JSON.stringify(drift)}</code>`),
    Answer: ({ answer_id }) => `#${answer_id}`,
  })

const requestTable = (requests: readonly RequestLine[]): Html =>
  table('Requests', requests, 'No request yet.', {
    Started: ({ started_at }) => moment(started_at),
    Request: ({ method, endpoint }) => `${method} ${endpoint}`,
    Job: ({ job_id }) => (job_id === null ? '–' : `#${job_id}`),
    Part: ({ part }) => part ?? '–',
    Attempt: ({ attempt }) => attempt,
    Status: ({ status, error_code }) => status ?? error_code ?? 'no answer',
    Size: (request) => bytes(request.bytes),
    Took: ({ milliseconds }) => `${Math.round(milliseconds)} ms`,
  })

/** @param limit rows of one page @param offset those before it */
export const unitsPage = async (context: WebContext, filter: UnitFilter, limit: number, offset: number): Promise<Html> => {
  const states = await windowStates(context.kysely, {
    pipelines: filter.pipeline === undefined ? [] : [filter.pipeline],
    remembered: true,
  })
  const all = countUnits(states, filter)
  const units = await unitLines(context.kysely, states, filter, { limit, offset })
  const address = (from: number): string => {
    const query = new URLSearchParams({ limit: String(limit), offset: String(from) })
    for (const name of ['pipeline', 'state', 'month'] as const) if (filter[name] !== undefined) query.set(name, filter[name])
    return `/units?${query}`
  }
  const body = html`${filterForm(context, filter)}
<p>${count(all)} units${all > units.length ? html`, ${count(offset + 1)} to ${count(offset + units.length)} shown` : ''}.
${offset > 0 ? html`<a href="${address(Math.max(0, offset - limit))}">Earlier</a>` : ''}
${offset + units.length < all ? html`<a href="${address(offset + limit)}">More</a>` : ''}</p>
${table('Units', units, 'No matching units.', {
  State: ({ state }) => badge(state),
  Unit: ({ unit_id, unit_key }) => unitLink(unit_id, unit_key),
  Rows: ({ rows }) => count(rows),
  Tries: ({ attempts }) => attempts,
  Loaded: ({ loaded_at }) => moment(loaded_at),
  Error: ({ error_code }) => error_code ?? '',
})}`
  return page({ title: 'Units', place: '/units', warehouse: context.warehouse, body })
}

const filterForm = ({ definitions }: WebContext, filter: UnitFilter): Html => {
  const pipelines = [...new Set(definitions.map(({ pipeline }) => pipeline))]
  const options = (names: readonly string[], chosen: string | undefined): Html =>
    html`<option value="">all</option>${names.map((name) => html`<option${name === chosen ? html` selected` : ''}>${name}</option>`)}`
  return html`<form method="get" action="/units"><p>
<label for="pipeline">Pipeline</label> <select id="pipeline" name="pipeline">${options(pipelines, filter.pipeline)}</select>
<label for="state">State</label> <select id="state" name="state">${options(unitStates, filter.state)}</select>
<label for="month">Month</label> <input id="month" name="month" placeholder="2026-01" pattern="\\d{4}-\\d{2}" value="${filter.month ?? ''}" size="8">
<button type="submit">Show</button></p></form>`
}
