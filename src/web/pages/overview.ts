// The ten-second page: what needs a person, how complete and fresh each pipeline is, what it cost, what works now.
import { html } from 'hono/html'
import type { UnitState } from '../../core/types.ts'
import { type Standing, standingWords, type WaitingWord, waitingWords } from '../../reads/approvals.ts'
import { forecasts } from '../../reads/forecast.ts'
import { wantedLines } from '../../reads/months.ts'
import { type AccountState, type AccountTrouble, accountStates } from '../../reads/pace.ts'
import { pipelineNights } from '../../reads/pipeline-nights.ts'
import { countQuarantined } from '../../reads/quarantine.ts'
import { quotaDays } from '../../reads/quota.ts'
import { countOpenReports } from '../../reads/reports.ts'
import { lastEvents, lastRuns, type RunLine } from '../../reads/runs.ts'
import { troubledLines, type UnitLine } from '../../reads/unit-lines.ts'
import { type PipelineCounts, pipelineCounts, readWindows } from '../../reads/windows.ts'
import type { WebContext } from '../context.ts'
import { count, moment } from '../format.ts'
import { badge, command, type Html, page, table, unitLink } from '../layout.ts'
import { nextStepOf } from '../next-step.ts'
import { lastDays, pipelineRows } from './pipeline-rows.ts'
import { runningRun } from './runs.ts'

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
  const [windows, wanted, held, failed, waiting, approved, accounts, runs, reports, quarantine, events, nights, quota, foretold] =
    await Promise.all([
      readWindows(kysely),
      wantedLines(kysely),
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
      forecasts(kysely, nowMs),
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
  quarantine.reduce((all, row) => all + row.rows, 0),
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

const unitsOf = (counts: readonly PipelineCounts[], state: UnitState): number =>
  counts.reduce((all, { units }) => all + (units[state] ?? 0), 0)

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
${verdict(runs, unitsOf(counts, 'held'), unitsOf(counts, 'failed'), counts.length > 0)}
${accounts.flatMap(({ trouble }) => (trouble === null ? [] : [troubleNote(trouble)]))}
${words(waiting, approved)}
${table(
  'What to do',
  ['State', 'Unit', 'Why', 'How to fix'],
  [...held, ...failed].map((unit) => [
    badge(unit.state),
    unitLink(unit.unit_id, unit.unit_key),
    unit.error_message ?? unit.error_code ?? '',
    nextStepOf(unit),
  ]),
  'Nothing needs a person.',
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

/** What costs more than usual and waits for a word; and what has it and is not bought yet. */
const words = (waiting: readonly WaitingWord[], approved: readonly Standing[]): Html => html`
${
  waiting.length === 0
    ? ''
    : table(
        'Needs approval',
        ['Pipeline', 'Why', 'Units', 'Reports', 'Credits', 'A night may cost', 'To allow it'],
        waiting.map(({ pipeline, reasons, units, reports, credits, priced, allowed }) => [
          pipeline,
          Object.keys(reasons).join(', '),
          count(units),
          count(reports),
          priced ? `about ${count(credits)}` : 'not known',
          allowed === null ? '-' : count(allowed),
          command(`npx millrace approve ${pipeline}`),
        ]),
        '',
      )
}
${
  approved.length === 0
    ? ''
    : table(
        'Approved, not bought yet',
        ['Pipeline', 'Units', 'Reports', 'Credits', 'By', 'Done about'],
        approved.map(({ pipeline, units, reports, credits, approved_by, done_on }) => [
          pipeline,
          count(units),
          count(reports),
          `about ${count(credits)}`,
          approved_by ?? '-',
          done_on ?? 'next run',
        ]),
        '',
      )
}`

const troubleNote = ({ account, code, message, since }: AccountTrouble): Html =>
  html`<p class="verdict warn">${account}: ${message} [${code}] since ${moment(since)}. Requests wait, and one at a time tries again.</p>`

const verdict = (runs: readonly RunLine[], held: number, failed: number, anyPlanned: boolean): Html => {
  if (!anyPlanned)
    return html`<p class="verdict">Nothing was planned yet. Begin with ${command('npx millrace run')} or ${command('npx millrace demo')}.</p>`
  const last = runs.find((run) => run.state !== 'running')
  const when =
    last === undefined
      ? ''
      : html` Last run: <a href="/runs/${last.run_id}">${last.command} #${last.run_id}</a>, ${last.state}, ${moment(last.finished_at ?? last.started_at)}.`
  if (failed > 0 || held > 0)
    return html`<p class="verdict bad">${count(failed)} failed, ${count(held)} held: see what to do below.${when}</p>`
  if (last !== undefined && last.state !== 'done')
    return html`<p class="verdict warn">The last run did not end by itself.${when}</p>`
  return html`<p class="verdict good">All is well.${when}</p>`
}
