// The ten-second page: was last night good, what is missing, what did it cost, what to do.
import { html } from 'hono/html'
import { dayBars } from '../chart.ts'
import type { WebContext } from '../context.ts'
import { age, count, dayBefore, moment } from '../format.ts'
import { badge, command, type Html, page, table, unitLink } from '../layout.ts'
import { mendOf } from '../mend.ts'
import { countQuarantined } from '../../reads/quarantine.ts'
import { countOpenReports } from '../../reads/reports.ts'
import { lastEvents, lastRuns, nights, type RunLine } from '../../reads/runs.ts'
import { type StateCount, stateCounts, unitLines } from '../../reads/units.ts'
import { runningRun } from './runs.ts'

const shownTroubles = 20
const nightsShown = 30

export const overviewPage = async (context: WebContext): Promise<Html> => {
  const { kysely, clock } = context
  const since = dayBefore(clock.now(), nightsShown)
  const [states, runs, reports, quarantine, held, failed, days, events] = await Promise.all([
    stateCounts(kysely),
    lastRuns(kysely, 5),
    countOpenReports(kysely),
    countQuarantined(kysely),
    unitLines(kysely, { state: 'held' }, shownTroubles),
    unitLines(kysely, { state: 'failed' }, shownTroubles),
    nights(kysely, since),
    lastEvents(kysely, 10),
  ])
  const sum = (state: string): number => states.filter((row) => row.state === state).reduce((all, row) => all + row.units, 0)
  const troubled = [...held, ...failed]
  const series = days.flatMap(({ day, inserted, updated, ended }) => [
    { day, series: 'inserted', value: inserted },
    { day, series: 'updated', value: updated },
    { day, series: 'ended', value: ended },
  ])
  const body = html`
${verdict(runs, sum('held'), sum('failed'), states)}
${runs.filter((run) => run.state === 'running').map((run) => runningRun(run, clock.now()))}
<ul class="cards">
<li><strong>${count(sum('loaded'))}</strong> <a href="/units?state=loaded">units loaded</a></li>
<li><strong>${count(sum('held'))}</strong> <a href="/units?state=held">held</a></li>
<li><strong>${count(sum('failed'))}</strong> <a href="/units?state=failed">failed</a></li>
<li><strong>${count(sum('waiting'))}</strong> <a href="/units?state=waiting">waiting</a></li>
<li><strong>${count(reports.open)}</strong> <a href="/reports">reports open</a></li>
<li><strong>${count(quarantine.reduce((all, row) => all + row.rows, 0))}</strong> <a href="/quarantine">rows in quarantine</a></li>
</ul>
${table(
  'What to do',
  ['State', 'Unit', 'Why', 'What mends it'],
  troubled.map((unit) => [
    badge(unit.state),
    unitLink(unit.unit_id, unit.unit_key),
    unit.error_message ?? unit.error_code ?? '',
    mendOf(unit),
  ]),
  'Nothing needs a person.',
)}
${freshness(context, states)}
${dayBars({ title: 'Rows by the night that wrote them', unit: 'rows', values: series, days: [since, dayBefore(clock.now(), 0)] })}
${table(
  'Last events',
  ['When', 'Kind', 'What'],
  events.map((event) => [moment(event.at), event.kind, event.message]),
  'No event yet.',
)}`
  return page({ title: 'Overview', place: '/', warehouse: context.warehouse, body })
}

const verdict = (runs: readonly RunLine[], held: number, failed: number, states: readonly StateCount[]): Html => {
  if (states.length === 0)
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

const freshness = ({ clock, definitions }: WebContext, states: readonly StateCount[]): Html => {
  const pipelines = [
    ...new Set([...definitions.map(({ pipeline }) => pipeline), ...states.map(({ pipeline }) => pipeline)]),
  ].sort()
  return table(
    'Pipelines',
    ['Pipeline', 'Units loaded', 'Rows', 'Last load', 'Age'],
    pipelines.map((pipeline) => {
      const own = states.filter((row) => row.pipeline === pipeline)
      const loadedAt =
        own
          .map((row) => row.loaded_at)
          .filter((at) => at !== null)
          .sort()
          .at(-1) ?? null
      return [
        html`<a href="/coverage/${pipeline}">${pipeline}</a>`,
        count(own.find((row) => row.state === 'loaded')?.units ?? 0),
        count(own.reduce((all, row) => all + row.rows, 0)),
        moment(loadedAt),
        loadedAt === null ? 'never' : age(loadedAt, clock.now()),
      ]
    }),
  )
}
