// Runs as a timeline and a table, and one run with its units.
import { html } from 'hono/html'
import { timeline } from '../chart.ts'
import type { WebContext } from '../context.ts'
import { count, moment, span } from '../format.ts'
import { badge, type Html, page, table, unitLink } from '../layout.ts'
import { mendOf } from '../mend.ts'
import { lastRuns, oneRun, type RunLine } from '../../reads/runs.ts'
import { countUnits, unitLines } from '../../reads/units.ts'

const shown = 50
const unitsShown = 1_000

export const runsPage = async (context: WebContext, beforeRunId: number | null): Promise<Html> => {
  const runs = await lastRuns(context.kysely, shown, beforeRunId)
  const now = new Date(context.clock.now()).toISOString()
  const spans = runs.slice(0, 25).map((run) => ({
    lane: run.command,
    from: run.started_at,
    to: run.finished_at ?? now,
    series: run.state,
    title: `#${run.run_id} ${run.command}: ${run.state}, ${run.loaded} loaded, ${run.held} held, ${run.failed} failed`,
    href: `/runs/${run.run_id}`,
  }))
  const oldest = runs.at(-1)?.run_id
  const body = html`${timeline('The last runs', spans)}
${table(
  'Runs',
  ['Run', 'Command', 'State', 'Started', 'Took', 'Planned', 'Loaded', 'Unchanged', 'Waiting', 'Held', 'Failed'],
  runs.map((run) => [
    html`<a href="/runs/${run.run_id}">#${run.run_id}</a>`,
    run.command,
    badge(run.state),
    moment(run.started_at),
    took(run, context.clock.now()),
    ...[run.planned, run.loaded, run.unchanged, run.waiting, run.held, run.failed].map((value) => count(value)),
  ]),
  'No run yet.',
)}
${runs.length === shown && oldest !== undefined ? html`<p><a href="/runs?before=${oldest}">Earlier runs</a></p>` : ''}`
  return page({ title: 'Runs', place: '/runs', warehouse: context.warehouse, body })
}

const took = (run: RunLine, nowMs: number): string =>
  span(((run.finished_at === null ? nowMs : Date.parse(run.finished_at)) - Date.parse(run.started_at)) / 1000)

const finishedOf = (run: RunLine): number => run.loaded + run.unchanged + run.held + run.failed

/** A run at work: how far it is, how fast, and how long it still takes at that pace. */
export const runningRun = (run: RunLine, nowMs: number): Html => {
  const finished = finishedOf(run)
  const seconds = (nowMs - Date.parse(run.started_at)) / 1000
  const left = finished === 0 ? null : (seconds / finished) * (run.planned - finished)
  return html`<section aria-label="Run ${run.run_id} at work"><p><a href="/runs/${run.run_id}">${run.command} #${run.run_id}</a> at work:
${count(finished)} of ${count(run.planned)} units, ${finished === 0 ? 'none finished yet' : `${(finished / Math.max(1, seconds / 60)).toFixed(1)} a minute`}${left === null ? '' : `, about ${span(left)} left`}.
<a class="button" href="/runs/${run.run_id}/cancel">Cancel…</a></p>
<progress max="${Math.max(1, run.planned)}" value="${finished}" aria-label="Units finished in run ${run.run_id}">${finished}</progress></section>`
}

export const runPage = async (context: WebContext, runId: number): Promise<Html | null> => {
  const run = await oneRun(context.kysely, runId)
  if (run === null) return null
  const [units, all] = await Promise.all([
    unitLines(context.kysely, { runId }, unitsShown),
    countUnits(context.kysely, { runId }),
  ])
  const body = html`${run.state === 'running' ? runningRun(run, context.clock.now()) : ''}
<dl>
<dt>Command</dt><dd>${run.command}</dd>
<dt>Arguments</dt><dd><code>${JSON.stringify(run.arguments)}</code></dd>
<dt>State</dt><dd>${badge(run.state)}</dd>
<dt>On</dt><dd>${run.host}</dd>
<dt>Started</dt><dd>${moment(run.started_at)}</dd>
<dt>Took</dt><dd>${took(run, context.clock.now())}</dd>
<dt>Units</dt><dd>${count(run.planned)} planned: ${count(run.loaded)} loaded, ${count(run.unchanged)} unchanged, ${count(run.waiting)} waiting, ${count(run.held)} held, ${count(run.failed)} failed</dd>
</dl>
${table(
  all > unitsShown ? `Units (the first ${count(unitsShown)} of ${count(all)})` : 'Units',
  ['State now', 'Unit', 'Rows', 'Error', 'What mends it'],
  units.map((unit) => [
    badge(unit.state),
    unitLink(unit.unit_id, unit.unit_key),
    count(unit.rows),
    unit.error_code ?? '',
    mendOf(unit),
  ]),
  'This run had nothing to do.',
)}`
  return page({ title: `Run #${run.run_id}`, place: '/runs', warehouse: context.warehouse, body })
}
