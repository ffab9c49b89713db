// The ten-second page: was last night good, what is missing, what did it cost, what to do.
import { html } from 'hono/html'
import { dayBars } from '../chart.ts'
import type { UnitState } from '../../core/types.ts'
import type { WebContext } from '../context.ts'
import { age, count, dayBefore, moment } from '../format.ts'
import { badge, command, type Html, page, table, unitLink } from '../layout.ts'
import { nextStepOf } from '../next-step.ts'
import { type Standing, standingWords, type WaitingWord, waitingWords } from '../../reads/approvals.ts'
import { type AccountTrouble, accountStates } from '../../reads/pace.ts'
import { countQuarantined } from '../../reads/quarantine.ts'
import { countOpenReports } from '../../reads/reports.ts'
import { lastEvents, lastRuns, nights, type RunLine } from '../../reads/runs.ts'
import { troubledLines } from '../../reads/unit-lines.ts'
import { type PipelineCounts, pipelineCounts, readWindows } from '../../reads/windows.ts'
import { runningRun } from './runs.ts'

const shownTroubles = 20
const nightsShown = 30

/** What a person sees first: is everything loaded, and if not, what to do. */
export const overviewPage = async (context: WebContext): Promise<Html> => {
  const { kysely, clock } = context
  const since = dayBefore(clock.now(), nightsShown)
  const [windows, runs, reports, quarantine, held, failed, days, events, waiting, approved, accounts] = await Promise.all([
    readWindows(kysely),
    lastRuns(kysely, 5),
    countOpenReports(kysely),
    countQuarantined(kysely),
    troubledLines(kysely, { state: 'held' }, shownTroubles),
    troubledLines(kysely, { state: 'failed' }, shownTroubles),
    nights(kysely, since),
    lastEvents(kysely, 10),
    waitingWords(kysely),
    standingWords(kysely),
    accountStates(kysely),
  ])
  const pipelines = pipelineCounts(windows)
  const sum = (state: UnitState): number => pipelines.reduce((all, { units }) => all + (units[state] ?? 0), 0)
  const troubled = [...held, ...failed]
  const series = days.flatMap(({ day, inserted, updated, ended }) => [
    { day, series: 'inserted', value: inserted },
    { day, series: 'updated', value: updated },
    { day, series: 'ended', value: ended },
  ])
  const body = html`
${verdict(runs, sum('held'), sum('failed'), pipelines.length > 0)}
${accounts.flatMap(({ trouble }) => (trouble === null ? [] : [troubleNote(trouble)]))}
${runs.filter((run) => run.state === 'running').map((run) => runningRun(run, clock.now()))}
<ul class="cards">
<li><strong>${count(sum('loaded'))}</strong> <a href="/units?state=loaded">units loaded</a></li>
<li><strong>${count(sum('held'))}</strong> <a href="/units?state=held">held</a></li>
<li><strong>${count(sum('failed'))}</strong> <a href="/units?state=failed">failed</a></li>
<li><strong>${count(sum('waiting'))}</strong> <a href="/units?state=waiting">waiting</a></li>
<li><strong>${count(reports.open)}</strong> <a href="/reports">reports open</a></li>
<li><strong>${count(quarantine.reduce((all, row) => all + row.rows, 0))}</strong> <a href="/quarantine">rows in quarantine</a></li>
</ul>
${words(waiting, approved)}
${table(
  'What to do',
  ['State', 'Unit', 'Why', 'How to fix'],
  troubled.map((unit) => [
    badge(unit.state),
    unitLink(unit.unit_id, unit.unit_key),
    unit.error_message ?? unit.error_code ?? '',
    nextStepOf(unit),
  ]),
  'Nothing needs a person.',
)}
${freshness(context, pipelines)}
${dayBars({ title: 'Rows by the day on which the run that wrote them ended', unit: 'rows', values: series, days: [since, dayBefore(clock.now(), 0)] })}
${table(
  'Last events',
  ['When', 'Kind', 'What'],
  events.map((event) => [moment(event.at), event.kind, event.message]),
  'No event yet.',
)}`
  return page({ title: 'Overview', place: '/', warehouse: context.warehouse, body })
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

const freshness = ({ clock, definitions }: WebContext, counts: readonly PipelineCounts[]): Html => {
  const pipelines = [
    ...new Set([...definitions.map(({ pipeline }) => pipeline), ...counts.map(({ pipeline }) => pipeline)]),
  ].sort()
  return table(
    'Pipelines',
    ['Pipeline', 'Units loaded', 'Rows', 'Last load', 'Age'],
    pipelines.map((pipeline) => {
      const own = counts.find((one) => one.pipeline === pipeline)
      const loadedAt = own?.last_loaded_at ?? null
      return [
        html`<a href="/coverage/${pipeline}">${pipeline}</a>`,
        count(own?.units.loaded ?? 0),
        count(own?.rows ?? 0),
        moment(loadedAt),
        loadedAt === null ? 'never' : age(loadedAt, clock.now()),
      ]
    }),
  )
}
