// The ten-second page: what needs a person, how complete and fresh each pipeline is, what it cost, what works now.
import { html } from 'hono/html'
import type { UnitState } from '../../core/types.ts'
import type { WebContext } from '../context.ts'
import { count, lastDays, moment, sum } from '../format.ts'
import { badge, command, type Html, nextStepOf, page, table, unitLink } from '../layout.ts'
import { pipelineNights } from '../reads/pipeline-nights.ts'
import { type Standing, standingWords, type WaitingWord, waitingWords } from '../reads/read-approvals.ts'
import { forecasts } from '../reads/read-forecast.ts'
import { wantedLines } from '../reads/read-months.ts'
import { type AccountState, type AccountTrouble, accountStates } from '../reads/read-pace.ts'
import { countQuarantined } from '../reads/read-quarantine.ts'
import { quotaDays } from '../reads/read-quota.ts'
import { countOpenReports } from '../reads/read-reports.ts'
import { lastEvents, lastRuns, type RunLine } from '../reads/read-runs.ts'
import { type PipelineCounts, pipelineCounts, readWindows } from '../reads/read-windows.ts'
import { troubledLines, type UnitLine } from '../reads/unit-lines.ts'
import { pipelineRows } from './pipeline-rows.ts'
import { approvalTables } from './plan-page.ts'
import { runningRun } from './runs-page.ts'

const shownTroubles = 20
const nightsShown = 30
/** The newest, among which those at work are. */
const runsRead = 20

/** What a person sees first: is everything loaded, and if not, what to do. */
export const overviewPage = async (context: WebContext): Promise<Html> => {
  const { kysely, clock } = context
  const nowMs = clock.now()
  const days = lastDays(nowMs, nightsShown)
  const [since = ''] = days
  const [windows, wanted, foretold, held, failed, waiting, approved, accounts, runs, reports, quarantine, events, nights, quota] =
    await Promise.all([
      readWindows(kysely, { remembered: true }),
      wantedLines(kysely),
      forecasts(kysely, nowMs),
      troubledLines(kysely, { state: 'held' }, shownTroubles),
      troubledLines(kysely, { state: 'failed' }, shownTroubles),
      waitingWords(kysely),
      standingWords(kysely),
      accountStates(kysely),
      lastRuns(kysely, runsRead),
      countOpenReports(kysely),
      countQuarantined(kysely),
      lastEvents(kysely, 10),
      pipelineNights(kysely, since),
      quotaDays(kysely, since),
    ])
  const counts = pipelineCounts(windows)
  const body = html`<div class="overview"><div class="needs">
${needsPerson({ held, failed, waiting, approved, accounts }, runs, counts)}
</div><div class="rows">
${pipelineRows(context, { windows, counts, wanted, nights, quota, forecasts: foretold, days })}
</div><div class="now">
${now(
  runs,
  counts,
  reports.open,
  sum(quarantine, ({ rows }) => rows),
  nowMs,
)}
${table(
  'Last events',
  ['When', 'Kind', 'What'],
  events.map((event) => [moment(event.at), event.kind, event.message]),
  'No event yet.',
)}</div></div>`
  return page({ title: 'Overview', place: '/', warehouse: context.warehouse, body })
}

const unitsOf = (counts: readonly PipelineCounts[], state: UnitState): number => sum(counts, ({ units }) => units[state] ?? 0)

interface Needs {
  readonly held: readonly UnitLine[]
  readonly failed: readonly UnitLine[]
  readonly waiting: readonly WaitingWord[]
  readonly approved: readonly Standing[]
  readonly accounts: readonly AccountState[]
}

/** Is all well; and if not, what a person can do about it. */
const needsPerson = (
  { held, failed, waiting, approved, accounts }: Needs,
  runs: readonly RunLine[],
  counts: readonly PipelineCounts[],
): Html => html`
${verdict(runs, counts, waiting)}
${accounts.flatMap(({ trouble }) => (trouble === null ? [] : [troubleNote(trouble)]))}
${approvalTables(waiting, approved)}
${table(
  'What to do',
  ['State', 'Unit', 'Why', 'How to fix'],
  [...held, ...failed].map((unit) => [
    badge(unit.state),
    unitLink(unit.unit_id, unit.unit_key),
    unit.error_message ?? unit.error_code ?? '',
    nextStepOf(unit),
  ]),
  waiting.length === 0 ? 'Nothing needs a person.' : 'Nothing else needs a person.',
)}`

/** Runs at work, and how many units are in which state. */
const now = (
  runs: readonly RunLine[],
  counts: readonly PipelineCounts[],
  reportsOpen: number,
  quarantined: number,
  nowMs: number,
): Html => {
  const working = runs.filter((run) => run.state === 'running')
  return html`<section><h2>Now</h2>
${working.length === 0 ? html`<p class="empty">No run is at work.</p>` : working.map((run) => runningRun(run, nowMs))}
<ul class="cards">
<li><strong>${count(unitsOf(counts, 'loaded'))}</strong> <a href="/units?state=loaded">units loaded</a></li>
<li><strong>${count(unitsOf(counts, 'held'))}</strong> <a href="/units?state=held">held</a></li>
<li><strong>${count(unitsOf(counts, 'failed'))}</strong> <a href="/units?state=failed">failed</a></li>
<li><strong>${count(unitsOf(counts, 'waiting'))}</strong> <a href="/units?state=waiting">waiting</a></li>
<li><strong>${count(reportsOpen)}</strong> <a href="/reports">reports open</a></li>
<li><strong>${count(quarantined)}</strong> <a href="/quarantine">rows in quarantine</a></li>
</ul></section>`
}

const troubleNote = ({ account, code, message, since }: AccountTrouble): Html =>
  html`<p class="verdict warn">${account}: ${message} [${code}] since ${moment(since)}. Requests wait, and one at a time tries again.</p>`

const verdict = (runs: readonly RunLine[], counts: readonly PipelineCounts[], waiting: readonly WaitingWord[]): Html => {
  if (counts.length === 0)
    return html`<p class="verdict">Nothing was planned yet. Begin with ${command('npx millrace run')} or ${command('npx millrace demo')}.</p>`
  const unapproved = sum(waiting, ({ units }) => units)
  const failed = unitsOf(counts, 'failed')
  // What waits for approval is held, too.
  const held = Math.max(0, unitsOf(counts, 'held') - unapproved)
  const said = [
    ...(failed > 0 ? [`${count(failed)} failed`] : []),
    ...(held > 0 ? [`${count(held)} held`] : []),
    ...(unapproved > 0 ? [`${count(unapproved)} waiting for approval`] : []),
  ].join(', ')
  const last = runs.find((run) => run.state !== 'running')
  const when =
    last === undefined
      ? ''
      : html` Last run: <a href="/runs/${last.run_id}">${last.command} #${last.run_id}</a>, ${last.state}, ${moment(last.finished_at ?? last.started_at)}.`
  if (failed > 0 || held > 0) return html`<p class="verdict bad">${said}: see what to do below.${when}</p>`
  if (unapproved > 0) return html`<p class="verdict warn">${said}.${when}</p>`
  if (last !== undefined && last.state !== 'done')
    return html`<p class="verdict warn">The last run did not end by itself.${when}</p>`
  return html`<p class="verdict good">All is well.${when}</p>`
}
