// The ten-second page: what needs a person, how complete and fresh each pipeline is, what it cost, and the runs in progress.
import { html } from 'hono/html'
import { counted, sum } from '../../core/counted.ts'
import type { Definition, UnitState } from '../../core/types.ts'
import type { Db } from '../../db/tables.ts'
import { type Lists, type Numbers, query, type Texts } from '../../db/typed-row.ts'
import { cappedUnits } from '../../ledger/loads.ts'
import { barsOf, nightBars } from '../charts.ts'
import { awaitAll, type WebContext } from '../context.ts'
import { age, count, coverageAddress, lastDays, timeTag } from '../format.ts'
import { badge, command, type Html, nextStepOf, page, table, unitLink } from '../layout.ts'
import { legend, monthStrip } from '../month-strip.ts'
import { unusedApprovals, neededApprovals } from '../reads/read-approvals.ts'
import { describeForecast, type Forecast, forecasts } from '../../ledger/month-end.ts'
import { completeSpan, type DueMonth, lastMonths, type MonthLine, nextDue, wantedLines } from '../reads/read-months.ts'
import { accountStates, type AccountTrouble } from '../reads/read-pace.ts'
import { countQuarantined } from '../reads/read-rejects.ts'
import { quotaDays } from '../reads/read-quota.ts'
import { countOpenReports } from '../reads/read-reports.ts'
import { lastEvents, lastRuns, shownState } from '../reads/read-runs.ts'
import { newestOf, pipelineCounts, type PipelineCounts, readWindows } from '../reads/read-windows.ts'
import { troubledLines } from '../reads/unit-lines.ts'
import { repairCredits } from '../reads/repair-credits.ts'
import { approvalTables } from './plan-page.ts'
import { runningRun } from './runs-page.ts'

const shownTroubles = 20
const nightsShown = 30
const monthsShown = 24
/** Newest runs that are read; runs in progress are among them. */
const runsRead = 20

/** The first page: is everything loaded, and if not, what to do. */
export const overviewPage = async (context: WebContext): Promise<Html> => {
  const read = await readOverview(context)
  const names = new Set([...context.definitions, ...read.counts].map(({ pipeline }) => pipeline))
  const rows = [...names].sort().map((pipeline) => factsOf(context, read, pipeline))
  const body = html`<div class="overview"><div class="needs">
${needsPerson(read, rows, await repairCredits(context, [...read.held, ...read.failed]))}
</div><div class="rows">
${pipelineRows(context, read, rows)}
</div><div class="now">
${now(read, context.clock.now())}
${table('Last events', read.events, 'No event yet.', {
  When: ({ at }) => timeTag(at),
  Kind: ({ kind }) => kind,
  What: ({ message }) => message,
})}</div></div>`
  return page({ title: 'Overview', place: '/', warehouse: context.warehouse, body })
}

/** The data of the page for all pipelines. `days`: nights of the charts, `YYYY-MM-DD`, oldest first. */
type Overview = Awaited<ReturnType<typeof readOverview>>

const readOverview = async ({ kysely, clock, priceOf }: WebContext) => {
  const days = lastDays(clock.now(), nightsShown)
  const [since = ''] = days
  const read = await awaitAll({
    windows: readWindows(kysely, { remembered: true }),
    wanted: wantedLines(kysely),
    forecasts: forecasts(kysely, clock.now(), priceOf),
    held: troubledLines(kysely, { state: 'held' }, shownTroubles),
    failed: troubledLines(kysely, { state: 'failed' }, shownTroubles),
    waiting: neededApprovals(kysely),
    approved: unusedApprovals(kysely),
    accounts: accountStates(kysely),
    runs: lastRuns(kysely, runsRead),
    reports: countOpenReports(kysely),
    quarantine: countQuarantined(kysely),
    events: lastEvents(kysely, 10),
    nights: pipelineNights(kysely, since),
    quota: quotaDays(kysely, since),
    capped: cappedUnits(kysely),
  })
  return { ...read, days, counts: pipelineCounts(read.windows) }
}

const unitsOf = (counts: readonly PipelineCounts[], state: UnitState): number => sum(counts, ({ units }) => units[state] ?? 0)

/** The verdict, and what a person can do. */
const needsPerson = (read: Overview, rows: readonly PipelineFacts[], credits: ReadonlyMap<number, number | null>): Html => {
  const { held, failed, waiting, approved, accounts } = read
  const overdue = rows.filter(({ due, waitsForApproval }) => due?.overdue === true && !waitsForApproval(due.month))
  return html`
${verdict(read, overdue)}
${accounts.flatMap(({ trouble }) => (trouble === null ? [] : [troubleNote(trouble)]))}
${approvalTables(waiting, approved)}
${table('What to do', [...held, ...failed], waiting.length === 0 ? 'No unit needs action.' : 'No other unit needs action.', {
  State: ({ state }) => badge(state),
  Unit: ({ unit_id, unit_key }) => unitLink(unit_id, unit_key),
  Why: ({ error_message, error_code }) => error_message ?? error_code ?? '',
  'How to fix': (unit) => nextStepOf(unit, credits),
})}`
}

/** Runs in progress, and units by state. */
const now = ({ runs, counts, reports, quarantine }: Overview, nowMs: number): Html => {
  const working = runs.filter((run) => run.state === 'running')
  return html`<section><h2>Now</h2>
${working.length === 0 ? html`<p class="empty">No run in progress.</p>` : working.map((run) => runningRun(run, nowMs))}
<ul class="cards">
${(['loaded', 'held', 'failed', 'waiting'] as const).map((state) => html`<li><strong>${count(unitsOf(counts, state))}</strong> <a href="/units?state=${state}">${state === 'loaded' ? 'units loaded' : state}</a></li>`)}
<li><strong>${count(reports.open)}</strong> <a href="/reports">reports open</a></li>
<li><strong>${count(sum(quarantine, 'rows'))}</strong> <a href="/quarantine">rows in quarantine</a></li>
</ul></section>`
}

const troubleNote = ({ account, code, message, since }: AccountTrouble): Html =>
  html`<p class="verdict warn">${account}: ${message} [${code}] since ${timeTag(since)}. Requests wait, except for one at a time that tries again.</p>`

/** @param overdue whose next month is late, for another reason than approval */
const verdict = ({ runs, counts, waiting }: Overview, overdue: readonly PipelineFacts[]): Html => {
  if (counts.length === 0)
    return html`<p class="verdict">Nothing was planned yet. Begin with ${command('npx millrace run')} or ${command('npx millrace demo')}.</p>`
  const unapproved = sum(waiting, 'units')
  const failed = unitsOf(counts, 'failed')
  // Units that need approval are held, too; they are counted apart.
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
      : html` Last run: <a href="/runs/${last.run_id}">${last.command} #${last.run_id}</a>, ${shownState(last)}, ${timeTag(last.finished_at ?? last.started_at)}.`
  if (failed > 0 || held > 0) return html`<p class="verdict bad">${said}: see what to do below.${when}</p>`
  if (unapproved > 0) return html`<p class="verdict warn">${said}.${when}</p>`
  if (last !== undefined && !['done', 'held'].includes(shownState(last)))
    return html`<p class="verdict warn">The last run was interrupted.${when}</p>`
  if (overdue.length > 0) {
    const late = overdue.map(({ pipeline, due }) => `${pipeline} ${due?.month}`).join(', ')
    return html`<p class="verdict warn">Overdue: ${late}. ${command('npx millrace run')} loads what the service has published.${when}</p>`
  }
  return html`<p class="verdict good">All is well.${when}</p>`
}

/** Every pipeline that is defined or in the ledger, by name: complete months, freshness, next due month, rows and credits by night. */
const pipelineRows = (context: WebContext, facts: Overview, rows: readonly PipelineFacts[]): Html => {
  const ticks = new Map(context.nextTicks(1).map(({ pipeline, at }) => [pipeline, at[0]]))
  const nights = `${facts.days.length} nights`
  return html`<div class="pipelines">${table('Pipelines', rows, 'No pipeline is defined here.', {
    Pipeline: ({ pipeline, rows, capped }) =>
      html`<a href="${coverageAddress(pipeline)}"><strong>${breakable(pipeline)}</strong></a><br><span class="soft">${count(rows)} rows</span>${capped === undefined ? '' : html`<br><span class="soft">${counted(Number(capped.units), 'unit')} capped</span>`}`,
    [`Complete, and the last ${monthsShown} months`]: ({ pipeline, span, months }) =>
      html`${completeWords(span, months)} ${monthStrip(pipeline, months)}`,
    Fresh: ({ freshAt, nowMs }) =>
      freshAt === null ? html`<span class="soft">never loaded</span>` : html`${age(freshAt, nowMs)} ago<br>${timeTag(freshAt)}`,
    Due: ({ due, waitsForApproval }) => dueWords(due, due !== null && waitsForApproval(due.month)),
    Restated: ({ restated: { at, newest } }) =>
      at === null ? html`<span class="soft">not recently</span>` : html`${timeTag(at)}<br>${listed(newest)}`,
    [`Rows, ${nights}`]: (one) => nightBars('rows', one.loads, '--series-1'),
    [`Credits, ${nights}`]: (one) => nightBars('credits', one.credits, '--series-2'),
    'Credits this month': ({ definition, forecasts: own }) => forecastWords(definition, own),
    'Next run': ({ pipeline }) => {
      const tick = ticks.get(pipeline)
      return tick === undefined ? html`<span class="soft">no schedule</span>` : timeTag(new Date(tick).toISOString())
    },
  })}
<details><summary>Legend</summary>${legend}</details></div>`
}

type PipelineFacts = ReturnType<typeof factsOf>

const factsOf = ({ definitions, clock }: WebContext, facts: Overview, pipeline: string) => {
  const isOwn = (one: { readonly pipeline: string }): boolean => one.pipeline === pipeline
  const nowMs = clock.now()
  const wanted = facts.wanted.find(isOwn)
  const definition = definitions.find((one) => isOwn(one) && one.version === wanted?.version) ?? definitions.find(isOwn)
  const nights = facts.nights.filter(isOwn)
  const restated = restatedOf(nights)
  const waitsForApproval = (month: string): boolean =>
    // With a full list the rest is not read: it may hold a unit that waits for something else.
    facts.held.length < shownTroubles &&
    !facts.held.some((unit) => isOwn(unit) && unit.unit_key.split('/')[2]?.startsWith(month)) &&
    facts.waiting.some((one) => isOwn(one) && (one.from ?? '').slice(0, 7) <= month && month <= (one.to ?? '').slice(0, 7))
  const states = [...facts.windows.states, ...facts.windows.absent]
  const input = { definition, wanted, waitsForApproval, states, restated: restated.months, nowMs }
  const months = lastMonths(input, monthsShown)
  const span = completeSpan(months)
  return {
    ...{ pipeline, definition, restated, months, span, waitsForApproval, nowMs },
    rows: facts.counts.find(isOwn)?.rows ?? 0,
    capped: facts.capped.find(isOwn),
    /** When the service was last asked for the pipeline's data. */
    freshAt: newestOf(
      facts.windows.loads.filter((load) => isOwn(load) && load.shown).map((load) => load.last_checked_at ?? load.last_loaded_at),
    ),
    due: nextDue(definition, span?.to ?? null, nowMs),
    loads: barsOf(facts.days, nights.map(({ day, inserted, updated, ended }) => ({ day, value: inserted + updated + ended }))), // biome-ignore format: one look
    credits: barsOf(facts.days, facts.quota.filter(isOwn).map(({ day, used, reserved }) => ({ day, value: used + reserved }))), // biome-ignore format: one look
    forecasts: facts.forecasts.filter(isOwn),
  }
}

/** A long name may break after an underscore. */
const breakable = (name: string): Html =>
  html`${name.split('_').map((part, place) => html`${place === 0 ? '' : html`_<wbr>`}${part}`)}`

/** The newest complete month (`2026-10`), and the first month without a gap before it. */
const completeWords = (span: ReturnType<typeof completeSpan>, months: readonly MonthLine[]): Html => {
  if (span === null) {
    const newest = months.findLast(({ loaded, wanted }) => loaded > 0 && loaded < wanted)
    if (newest === undefined) return html`<strong class="upto">no month yet</strong>`
    return html`<strong class="upto">${newest.month}</strong> <span class="soft">${count(newest.loaded)} of ${count(newest.wanted)} units</span>`
  }
  const since = span.from === months[0]?.month ? `${span.from} or earlier` : span.from
  return html`<strong class="upto">${span.to}</strong> <span class="soft">${span.from === span.to ? 'that month alone' : `since ${since} without a gap`}</span>`
}

const dueWords = (due: DueMonth | null, waitsForApproval: boolean): Html => {
  if (due === null) return html`<span class="soft">no definition here</span>`
  const text = `${due.month} on ${due.on}`
  if (due.overdue && waitsForApproval) return html`<span class="badge held">to approve</span> ${text}`
  return due.overdue ? html`<span class="badge failed">overdue</span> ${text}` : html`${text}`
}

const forecastWords = (definition: Definition | undefined, own: readonly Forecast[]): Html => {
  const budget = definition?.limits.quotaPerMonth ?? null
  const end = describeForecast(own, count)
  return html`${count(sum(own, 'spent'))} so far<br>${end === null ? html`<span class="soft">no forecast</span>` : html`about ${end} at month end`}${budget === null ? '' : html`<br><span class="soft">of ${count(budget)}</span>`}`
}

const mostListed = 3

const listed = (months: readonly string[]): string =>
  months.length <= mostListed
    ? months.join(', ')
    : `${months.slice(-mostListed).join(', ')} and ${months.length - mostListed} more`

/** One run and pipeline: `day` (UTC) on which the run ended; `restated`: months, `2026-01`, in which rows of an earlier load changed or ended. */
type PipelineNight = Texts<'pipeline' | 'finished_at' | 'day'> &
  Numbers<'inserted' | 'updated' | 'ended'> &
  Lists<Texts<'restated'>>

/** Oldest first, without runs in progress. @param fromDay first day, `YYYY-MM-DD` */
export const pipelineNights = (db: Db, fromDay: string): Promise<PipelineNight[]> =>
  query<PipelineNight>(db)`
    select p.key as pipeline, r.finished_at, to_char(r.finished_at at time zone 'UTC', 'YYYY-MM-DD') as day,
      coalesce((p.value ->> 'inserted')::float8, 0) as inserted, coalesce((p.value ->> 'updated')::float8, 0) as updated,
      coalesce((p.value ->> 'ended')::float8, 0) as ended, coalesce(p.value -> 'restated', '[]') as restated
    from etl.runs r cross join lateral jsonb_each(r.summary -> 'pipelines') p
    where r.finished_at >= ${fromDay}::date order by r.finished_at, r.run_id`

/** The newest restatement of a pipeline, and every month restated in the given nights. */
const restatedOf = (nights: readonly PipelineNight[]) => {
  const changed = nights.filter(({ restated }) => restated.length > 0)
  const last = changed.at(-1)
  return {
    at: last?.finished_at ?? null,
    newest: last?.restated ?? [],
    months: new Set(changed.flatMap(({ restated }) => restated)),
  }
}
