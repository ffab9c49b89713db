// One unit: its state and how to fix it, the origin of its rows, and its history step by step; then its rejected rows and failed tests.
import { showWindow } from '../../core/window.ts'
import { html } from 'hono/html'
import { counted } from '../../core/counted.ts'
import { unitStates } from '../../core/types.ts'
import { awaitAll, type WebContext } from '../context.ts'
import { bytes, count, coverageAddress, timeTag } from '../format.ts'
import { actionButton, badge, command, type Html, nextStepOf, page, table, unitLink } from '../layout.ts'
import { failedTests, quarantined } from '../reads/read-rejects.ts'
import { repairCredits } from '../reads/repair-credits.ts'
import { readWindows } from '../reads/read-windows.ts'
import {
  jobReports,
  jobRequests,
  unitAnswers,
  unitDetail,
  type UnitDetail,
  unitJobs,
  unitLoads,
  unitRows,
} from '../reads/unit-detail.ts'
import { countUnits, type UnitFilter, unitLines } from '../reads/unit-lines.ts'
import { creditWords, failedTestTable, quarantineTable } from './trouble-pages.ts'

const rejectedShown = 50

/** A unit from its jobs to its rows; null: there is no such unit. */
export const unitPage = async (context: WebContext, unitId: number): Promise<Html | null> => {
  const unit = await unitDetail(context.kysely, unitId)
  if (unit === null) return null
  const read = await readUnit(context, unit)
  const body = html`${facts(context, read)}
${storyTable(read)}
${quarantineTable('Rows in quarantine', read.rejected)}
${failedTestTable('Tests it fails', read.failed)}`
  return page({ title: `Unit #${unit.unit_id}`, place: '/units', warehouse: context.warehouse, body })
}

type Read = Awaited<ReturnType<typeof readUnit>>
type Line<Of extends 'jobs' | 'reports' | 'answers' | 'loads' | 'requests'> = Read[Of][number]

const readUnit = async (context: WebContext, unit: UnitDetail) => {
  const { kysely } = context
  const answers = await unitAnswers(kysely, unit)
  const jobs = await unitJobs(kysely, [...new Set([unit, ...answers].flatMap(({ job_id }) => job_id ?? []))])
  const jobIds = jobs.map(({ job_id }) => job_id)
  const answerIds = answers.map(({ answer_id }) => answer_id)
  // An answer may be older than the jobs that are shown.
  const asking = [...new Set([...jobIds, ...answers.map(({ job_id }) => job_id)])]
  const read = await awaitAll({
    reports: jobReports(kysely, jobIds),
    loads: unitLoads(kysely, unit.window_from, answerIds),
    requests: jobRequests(kysely, asking),
    rejected: quarantined(kysely, rejectedShown, unit.unit_id),
    failed: failedTests(kysely, rejectedShown, unit.unit_id),
    rows: rowsOf(context, unit),
    credits: repairCredits(context, [unit]),
  })
  return { ...read, unit, answers, jobs }
}

/** The unit's rows as recorded; counted in the table where the answer was for many units. */
const rowsOf = async ({ kysely, definitions }: WebContext, unit: UnitDetail): Promise<number | null> => {
  const definition = definitions.find(({ pipeline, version }) => pipeline === unit.pipeline && version === unit.version)
  if (unit.rows !== null || unit.answer_id === null || definition === undefined) return unit.rows
  return unitRows(kysely, definition, unit)
}

const facts = ({ actions }: WebContext, { unit, rows, answers, jobs, credits }: Read): Html => {
  const answer = answers.find(({ answer_id }) => answer_id === unit.answer_id)
  const job = jobs.find(({ job_id }) => job_id === (unit.job_id ?? answer?.job_id))
  const month = unit.window_from.slice(0, 7)
  return html`
${unit.error_message === null || unit.state === 'loaded' ? '' : html`<p class="problem" role="alert"><strong>${unit.error_code ?? ''}</strong> ${unit.error_message}</p>`}
<dl>
<dt>Unit</dt><dd><code>${unit.unit_key}</code></dd>
<dt>State</dt><dd>${badge(unit.state)}</dd>
<dt>How to fix</dt><dd>${nextStepOf(unit, credits)}</dd>
<dt>Pipeline</dt><dd><a href="${coverageAddress(unit.pipeline)}">${unit.pipeline}</a></dd>
<dt>Window</dt><dd>${showWindow({ from: unit.window_from, to: unit.window_to })}</dd>
<dt>Slice</dt><dd>${Object.values(unit.slice ?? {}).join(' · ') || 'all'}${unit.wanted ? '' : ' (no longer in the lists: its rows stay, nothing more is requested)'}</dd>
<dt>Rows</dt><dd>${count(rows)}${unit.capped ? ', capped at the limit: there may be more' : ''}</dd>
<dt>Loaded</dt><dd>${timeTag(unit.loaded_at)}</dd>
<dt>Requested</dt><dd>${timeTag(answer?.asked_at ?? null)}${answer?.stood_at == null ? '' : `, unchanged at ${timeTag(answer.stood_at)}`}</dd>
<dt>Service says</dt><dd>${answer?.source_last_updated == null ? '–' : `last updated ${answer.source_last_updated}`}${answer?.source_count == null ? '' : `, ${count(answer.source_count)} rows`}</dd>
<dt>Attempts</dt><dd>${unit.attempts}</dd>
<dt>Not before</dt><dd>${timeTag(unit.not_before)}</dd>
<dt>Worked on by</dt><dd>${job?.holder ?? '–'}</dd>
<dt>Lineage</dt><dd><code>pipelines/${unit.pipeline}.yaml</code> → ${job === undefined ? 'no job' : `job #${job.job_id}`} → ${answer === undefined ? 'no answer' : `answer #${answer.answer_id}`} → <code>data.${unit.pipeline}_v${unit.version}</code> → <code>bi.${unit.pipeline}</code></dd>
<dt>Landing file</dt><dd><code>${answer?.landing ?? '–'}</code> ${bytes(answer?.bytes ?? null)}</dd>
<dt>Parse again</dt><dd>${command(`millrace replay ${unit.pipeline} --from ${month} --to ${month}`)}${actions.replay === null || (unit.answer_id ?? unit.held_answer_id) === null ? '' : html` ${actionButton('Replay', `/units/${unit.unit_id}/replay`, 0)}`}</dd>
</dl>`
}

/** The history from the plan to the rows and every refresh, oldest first. */
const storyTable = (read: Read): Html =>
  table('What happened', chaptersOf(read), 'Nothing yet.', {
    When: ({ at }) => timeTag(at),
    What: ({ what }) => badge(what),
    Details: ({ text }) => text,
    Credits: ({ credits }) => credits,
    Run: ({ runId }) => (runId === null ? '' : html`<a href="/runs/${runId}">#${runId}</a>`),
  })

const chaptersOf = ({ unit, answers, jobs, reports, loads, requests }: Read) =>
  [
    ...jobs.map((job) => ({ at: job.created_at, what: 'planned', text: plannedWords(job), runId: job.run_id, credits: '' })),
    ...reports.map((report) => ({ at: report.asked_at, what: 'bought', text: boughtWords(report), runId: null, credits: creditWords(report) })), // biome-ignore format: one look
    ...requests.map((request) => ({ at: request.started_at, what: stepOf(request), text: requestWords(request), runId: null, credits: request.credits === null ? '' : count(request.credits) })), // biome-ignore format: one look
    ...answers.map((answer) => ({ at: landedAt(answer, requests), what: 'landed', text: landedWords(answer, unit), runId: null, credits: '' })), // biome-ignore format: one look
    ...loads.map((load) => ({
      at: load.loaded_at,
      what: loadStep(load),
      text: loadWords(load),
      runId: load.run_id,
      credits: '',
    })),
  ].sort((one, other) => Date.parse(one.at) - Date.parse(other.at))

const plannedWords = ({ job_id, kind, reason, cells, former_job_id, state }: Line<'jobs'>): string =>
  `job #${job_id} (${kind}, ${state}): ${reason}, ${counted(cells, 'unit')}${former_job_id === null ? '' : `, instead of job #${former_job_id}`}`

const boughtWords = (report: Line<'reports'>): Html =>
  html`report <code>${report.report_id ?? 'id not known'}</code> (${report.state}) for ${counted(report.cells, 'unit')}, account ${report.account}${report.next_poll_at === null ? '' : html`, next poll ${timeTag(report.next_poll_at)}`}${report.error_message === null ? '' : `: ${report.error_message}`}`

const stepOf = ({ method, endpoint }: Line<'requests'>): string =>
  endpoint.includes('status') ? 'polled' : endpoint.startsWith('http') ? 'downloaded' : method === 'POST' ? 'sent' : 'asked'

const requestWords = ({ method, endpoint, part, attempt, ...request }: Line<'requests'>): Html =>
  html`<code>${method} ${endpoint}</code>${part === null ? '' : `, ${part}`}${attempt > 1 ? `, attempt ${attempt}` : ''}: ${request.status ?? request.error_code ?? 'no answer'}, ${bytes(request.bytes)}, ${Math.round(request.milliseconds)} ms`

/** The time of the job's last request; where old requests are deleted, the time when the answer was requested. */
const landedAt = ({ job_id, asked_at }: Line<'answers'>, requests: readonly Line<'requests'>[]): string => {
  const last = requests.filter((request) => request.job_id === job_id).map((request) => request.started_at)
  return [...last, asked_at].reduce((one, other) => (Date.parse(other) > Date.parse(one) ? other : one))
}

const landedWords = (answer: Line<'answers'>, { answer_id, held_answer_id }: UnitDetail): Html => {
  const use = answer.answer_id === answer_id ? ', loaded' : answer.answer_id === held_answer_id ? ', held' : ''
  const whose = answer.slices === 1 ? 'this slice' : `${count(answer.slices)} slices`
  const said = answer.verdict_message ?? answer.verdict ?? 'not judged yet'
  return html`answer #${answer.answer_id}${use}, ${bytes(answer.bytes)} for ${whose}: ${said}; <code>${answer.landing}</code>`
}

const loadStep = ({ outcome, rows_updated, rows_ended }: Line<'loads'>): string =>
  outcome === 'loaded' && rows_updated + rows_ended > 0 ? 'revised' : outcome

const loadWords = (load: Line<'loads'>): Html => {
  const parts = [[load.rows_inserted, 'inserted'], [load.rows_updated, 'updated'], [load.rows_ended, 'ended'], [load.rows_unchanged, 'unchanged'], [load.rows_quarantined, 'quarantined'], [load.rows_duplicates, 'duplicates']] as const // biome-ignore format: one look
  const said = parts.flatMap(([rows, word]) => (rows === 0 ? [] : [`${count(rows)} ${word}`]))
  return html`answer #${load.answer_id}, ${counted(load.units, 'unit')}: ${count(load.rows_read)} rows parsed${said.length === 0 ? '' : `; ${said.join(', ')}`}${load.drift === null ? '' : html`; drift <code>${JSON.stringify(load.drift)}</code>`}`
}

/** @param limit rows of one page @param offset those before it */
export const unitsPage = async (context: WebContext, filter: UnitFilter, limit: number, offset: number): Promise<Html> => {
  const pipelines = filter.pipeline === undefined ? [] : [filter.pipeline]
  const { states } = await readWindows(context.kysely, { pipelines, remembered: true })
  const all = await countUnits(context.kysely, states, filter)
  const units = await unitLines(context.kysely, states, filter, { limit, offset })
  const address = (from: number): string => {
    const query = new URLSearchParams({ limit: String(limit), offset: String(from) })
    for (const name of ['pipeline', 'state', 'month', 'value'] as const)
      if (filter[name] !== undefined) query.set(name, filter[name])
    return `/units?${query}`
  }
  const body = html`${filterForm(context, filter)}
<p>${counted(all, 'unit')}${all > units.length ? html`, ${count(offset + 1)} to ${count(offset + units.length)} shown` : ''}.
${offset > 0 ? html`<a href="${address(Math.max(0, offset - limit))}">Earlier</a>` : ''}
${offset + units.length < all ? html`<a href="${address(offset + limit)}">More</a>` : ''}</p>
${table('Units', units, 'No matching units.', {
  State: ({ state }) => badge(state),
  Unit: ({ unit_id, unit_key }) => unitLink(unit_id, unit_key),
  Rows: ({ rows }) => count(rows),
  Tries: ({ attempts }) => attempts,
  Loaded: ({ loaded_at }) => timeTag(loaded_at),
  Error: ({ error_code }) => error_code ?? '',
})}
${units.some(({ state, rows }) => state === 'loaded' && rows === null) ? html`<p class="soft">Where Rows is –, one report brought several units; the unit's own page counts its rows.</p>` : ''}`
  return page({ title: 'Units', place: '/units', warehouse: context.warehouse, body })
}

const filterForm = ({ definitions }: WebContext, filter: UnitFilter): Html => {
  const pipelines = [...new Set(definitions.map(({ pipeline }) => pipeline))]
  const options = (names: readonly string[], chosen: string | undefined): Html =>
    html`<option value="">all</option>${names.map((name) => html`<option${name === chosen ? html` selected` : ''}>${name}</option>`)}`
  return html`<form method="get" action="/units"><p>
<span class="field"><label for="pipeline">Pipeline</label> <select id="pipeline" name="pipeline">${options(pipelines, filter.pipeline)}</select></span>
<span class="field"><label for="state">State</label> <select id="state" name="state">${options(unitStates, filter.state)}</select></span>
<span class="field"><label for="month">Month</label> <input id="month" name="month" placeholder="2026-01" pattern="\\d{4}-\\d{2}" value="${filter.month ?? ''}" size="8"></span>
<span class="field"><label for="value">Value</label> <input id="value" name="value" placeholder="a.com" value="${filter.value ?? ''}" size="14"></span>
<button type="submit">Show</button></p></form>`
}
