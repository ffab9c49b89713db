// Runs as a timeline and a table, and one run with its jobs and their units.
import { html } from 'hono/html'
import { timeline } from '../charts.ts'
import type { WebContext } from '../context.ts'
import { count, timeTag, span } from '../format.ts'
import { actionButton, badge, type Html, nextStepOf, page, table, unitLink, fields } from '../layout.ts'
import { boxKey } from '../reads/shared-columns.ts'
import { repairCredits } from '../reads/repair-credits.ts'
import { lastRuns, oneRun, type RunJobLine, type RunLine, runJobs, runUnits, shownState } from '../reads/read-runs.ts'

const shown = 50
const jobsShown = 200
const unitsShown = 1_000

/** @param beforeRunId older than this one; null: the newest */
export const runsPage = async (context: WebContext, beforeRunId: number | null): Promise<Html> => {
  const runs = await lastRuns(context.kysely, shown, beforeRunId)
  const now = new Date(context.clock.now()).toISOString()
  const spans = runs.slice(0, 25).map((run) => ({
    lane: run.command,
    from: run.started_at,
    to: run.finished_at ?? now,
    state: shownState(run),
    title: `#${run.run_id} ${run.command}: ${shownState(run)}, ${run.loaded} loaded, ${run.held} held, ${run.failed} failed`,
    href: `/runs/${run.run_id}`,
  }))
  const oldest = runs.at(-1)?.run_id
  const body = html`${timeline('The last runs', spans)}
${table('Runs', runs, 'No run yet.', {
  Run: ({ run_id }) => html`<a href="/runs/${run_id}">#${run_id}</a>`,
  Command: ({ command }) => command,
  For: (run) => argumentWords(run.arguments),
  State: (run) => badge(shownState(run)),
  Started: ({ started_at }) => timeTag(started_at),
  Took: (run) => took(run, context.clock.now()),
  ...fields('planned', 'loaded', 'unchanged', 'waiting', 'held', 'failed'),
})}
${runs.length === shown && oldest !== undefined ? html`<p><a href="/runs?before=${oldest}">Earlier runs</a></p>` : ''}`
  return page({ title: 'Runs', place: '/runs', warehouse: context.warehouse, body })
}

const took = (run: RunLine, nowMs: number): string =>
  span(((run.finished_at === null ? nowMs : Date.parse(run.finished_at)) - Date.parse(run.started_at)) / 1000)

/** A run in progress: how far, how fast, and the time left at that rate. */
export const runningRun = (run: RunLine, nowMs: number): Html => {
  const finished = run.loaded + run.unchanged + run.held + run.failed
  const seconds = (nowMs - Date.parse(run.started_at)) / 1000
  const left = finished === 0 ? null : (seconds / finished) * (run.planned - finished)
  return html`<section aria-label="Run ${run.run_id} in progress"><p><a href="/runs/${run.run_id}">${run.command} #${run.run_id}</a> in progress:
${count(finished)} of ${count(run.planned)} units, ${finished === 0 ? 'none finished yet' : `${(finished / Math.max(1, seconds / 60)).toFixed(1)} a minute`}${left === null ? '' : `, about ${span(left)} left`}.
${actionButton('Cancel', `/runs/${run.run_id}/cancel`, 0)}</p>
<progress max="${Math.max(1, run.planned)}" value="${finished}" aria-label="Units finished in run ${run.run_id}">${finished}</progress></section>`
}

/** null: there is no such run. */
export const runPage = async (context: WebContext, runId: number): Promise<Html | null> => {
  const run = await oneRun(context.kysely, runId)
  if (run === null) return null
  const jobs = await runJobs(context.kysely, runId, unitsShown)
  const units = await runUnits(context.kysely, runId, jobs, unitsShown)
  const credits = await repairCredits(context, units)
  const body = html`${run.state === 'running' ? runningRun(run, context.clock.now()) : ''}
<dl>
<dt>Command</dt><dd>${run.command}</dd>
<dt>Arguments</dt><dd>${argumentWords(run.arguments)}</dd>
<dt>State</dt><dd>${badge(shownState(run))}</dd>
<dt>Process</dt><dd>${run.process ?? '–'}</dd>
<dt>Started</dt><dd>${timeTag(run.started_at)}</dd>
<dt>Took</dt><dd>${took(run, context.clock.now())}</dd>
<dt>Units</dt><dd>${count(run.planned)} planned: ${count(run.loaded)} loaded, ${count(run.unchanged)} unchanged, ${count(run.waiting)} waiting, ${count(run.held)} held, ${count(run.failed)} failed</dd>
</dl>
${jobTable(jobs)}
${table(
  units.length === unitsShown ? `Units (the first ${count(unitsShown)} of ${count(run.planned)})` : 'Units',
  units,
  run.planned === 0 ? 'This run had nothing to do.' : 'The records of its jobs were deleted.',
  {
    'State now': ({ state }) => badge(state),
    Unit: ({ unit_id, unit_key }) => unitLink(unit_id, unit_key),
    Rows: ({ rows }) => count(rows),
    Error: ({ error_code }) => error_code ?? '',
    'How to fix': (unit) => nextStepOf(unit, credits),
  },
)}`
  return page({ title: `Run #${run.run_id}`, place: '/runs', warehouse: context.warehouse, body })
}

/** The jobs of a run, with their outcome for the run. */
const jobTable = (jobs: readonly RunJobLine[]): Html =>
  table(jobs.length > jobsShown ? `Jobs (the first ${count(jobsShown)})` : 'Jobs', jobs.slice(0, jobsShown), 'No job.', {
    Outcome: ({ outcome, state }) => badge(outcome ?? state),
    Job: ({ job_id }) => `#${job_id}`,
    Requests: boxKey,
    Units: ({ units }) => count(units),
    'Units held': ({ held_units }) => count(held_units),
    Report: ({ report_state }) => report_state ?? '–',
    Error: ({ outcome, error_code }) => (outcome === 'loaded' || outcome === 'unchanged' ? '' : (error_code ?? '')),
  })

type Arguments = Readonly<Record<string, unknown>>

const words: Readonly<Record<string, (value: unknown, all: Arguments) => string | null>> = {
  pipelines: (value) => (Array.isArray(value) && value.length > 0 ? value.join(', ') : 'all pipelines'),
  pipeline: (value) => String(value),
  from: (value, { to }) => (value === to ? String(value) : `${String(value)} to ${String(to)}`),
  to: () => null,
  only: (value) => `only ${String(value)}`,
  force: (value) => (value === true ? 'also loaded units' : null),
  resumes: (value) => `resumes run #${String(value)}`,
  months: (value) => `${String(value)} months`,
  units: (value) => (Array.isArray(value) ? `units ${value.map((id) => `#${String(id)}`).join(', ')}` : null),
  answer: (value) => `answer #${String(value)}`,
  approved: (value) => (value === true ? 'approved purchases' : null),
  due_at: (value) => `due ${String(value).slice(0, 16).replace('T', ' ')} UTC`,
}

/** `sales, 2026-01 to 2026-03, also loaded units`; an argument without words is shown by its name. */
const argumentWords = (given: unknown): string => {
  const all: Arguments = typeof given === 'object' && given !== null ? Object.fromEntries(Object.entries(given)) : {}
  const order = Object.keys(words)
  // jsonb in the ledger does not keep the order of keys.
  const entries = Object.entries(all).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b))
  const parts = entries.flatMap(([name, value]) => {
    if (value === null) return []
    const word = words[name]
    return word === undefined ? [`${name}: ${JSON.stringify(value)}`] : (word(value, all) ?? [])
  })
  return parts.length === 0 ? 'none' : parts.join(', ')
}
