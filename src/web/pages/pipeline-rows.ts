// One row a pipeline: complete up to which month, fresh since when, due when, restated, what the nights brought and cost, what comes next.
import { html } from 'hono/html'
import type { Definition } from '../../core/types.ts'
import { barsOf, nightBars } from '../charts.ts'
import type { WebContext } from '../context.ts'
import { age, count, coverageAddress, moment } from '../format.ts'
import { type Html, table } from '../layout.ts'
import { legend, monthStrip } from '../month-strip.ts'
import { type PipelineNight, restatedOf } from '../reads/pipeline-nights.ts'
import type { Forecast } from '../reads/read-forecast.ts'
import { completeSpan, type DueMonth, lastMonths, type MonthLine, nextDue, type WantedLine } from '../reads/read-months.ts'
import type { QuotaDay } from '../reads/read-quota.ts'
import type { PipelineCounts, Windows } from '../reads/read-windows.ts'

const monthsShown = 24

/** What the rows are made from, of all pipelines. */
interface PipelineFacts {
  readonly windows: Windows
  readonly counts: readonly PipelineCounts[]
  readonly wanted: readonly WantedLine[]
  readonly nights: readonly PipelineNight[]
  readonly quota: readonly QuotaDay[]
  readonly forecasts: readonly Forecast[]
  /** Nights of the charts, `YYYY-MM-DD`, oldest first. */
  readonly days: readonly string[]
}

/** Every pipeline that is defined or in the ledger, by name. */
export const pipelineRows = (context: WebContext, facts: PipelineFacts): Html => {
  const names = [
    ...new Set([...context.definitions.map(({ pipeline }) => pipeline), ...facts.counts.map(({ pipeline }) => pipeline)]),
  ].sort()
  const ticks = new Map(context.nextTicks(1).map(({ pipeline, at }) => [pipeline, at[0]]))
  const rows = names.map((pipeline) => pipelineRow(context, facts, pipeline, ticks.get(pipeline)))
  return html`<div class="pipelines">${table('Pipelines', ['Pipeline', `Complete, and the last ${monthsShown} months`, 'Fresh', 'Due', 'Restated', `Rows, ${facts.days.length} nights`, `Credits, ${facts.days.length} nights`, 'Credits this month', 'Next run'], rows, 'No pipeline is defined here.')}
<details><summary>What the letters mean</summary>${legend}</details></div>`
}

/** Long names break behind an underscore. */
const breakable = (name: string): Html =>
  html`${name.split('_').map((part, place) => html`${place === 0 ? '' : html`_<wbr>`}${part}`)}`

const pipelineRow = (
  { definitions, clock }: WebContext,
  { windows, counts, wanted, nights, quota, forecasts, days }: PipelineFacts,
  pipeline: string,
  tickMs: number | undefined,
): Html[] => {
  const nowMs = clock.now()
  const definition = definitions.find((one) => one.pipeline === pipeline)
  const own = nights.filter((night) => night.pipeline === pipeline)
  const restated = restatedOf(own)
  const months = lastMonths(
    {
      ...{ definition, wanted: wanted.find((one) => one.pipeline === pipeline), states: windows.states },
      ...{ restated: restated.months, nowMs },
    },
    monthsShown,
  )
  const span = completeSpan(months)
  const ownQuota = quota.filter((day) => day.pipeline === pipeline)
  return [
    html`<a href="${coverageAddress(pipeline)}"><strong>${breakable(pipeline)}</strong></a><br><span class="soft">${count(counts.find((one) => one.pipeline === pipeline)?.rows ?? 0)} rows</span>`,
    html`${completeWords(span, months)} ${monthStrip(pipeline, months)}`,
    freshness(windows, pipeline, nowMs),
    dueWords(nextDue(definition, span?.to ?? null, nowMs)),
    restated.at === null
      ? html`<span class="soft">not lately</span>`
      : html`${moment(restated.at)}<br>${listed(restated.newest)}`,
    nightBars('rows', barsOf(days, own.map(({ day, inserted, updated, ended }) => ({ day, value: inserted + updated + ended }))), '--series-1'), // biome-ignore format: one look
    nightBars('credits', barsOf(days, ownQuota.map(({ day, used, reserved }) => ({ day, value: used + reserved }))), '--series-2'), // biome-ignore format: one look
    forecastWords(
      definition,
      forecasts.filter((one) => one.pipeline === pipeline),
    ),
    tickMs === undefined ? html`<span class="soft">no schedule</span>` : html`${moment(new Date(tickMs).toISOString())}`,
  ]
}

/** `2026-10`, and since when without a gap. */
const completeWords = (span: ReturnType<typeof completeSpan>, months: readonly MonthLine[]): Html => {
  if (span === null) return html`<strong class="upto">no month yet</strong>`
  const since = span.from === months[0]?.month ? `${span.from} or earlier` : span.from
  return html`<strong class="upto">${span.to}</strong> <span class="soft">${span.from === span.to ? 'that month alone' : `since ${since} without a gap`}</span>`
}

/** The newest moment at which the service was asked for anything of it. */
const freshness = ({ loads }: Windows, pipeline: string, nowMs: number): Html => {
  const at = loads
    .filter((row) => row.pipeline === pipeline)
    .flatMap(({ last_checked_at, last_loaded_at }) => last_checked_at ?? last_loaded_at ?? [])
    .sort()
    .at(-1)
  return at === undefined ? html`<span class="soft">never loaded</span>` : html`${age(at, nowMs)} ago<br>${moment(at)}`
}

const dueWords = (due: DueMonth | null): Html => {
  if (due === null) return html`<span class="soft">no definition here</span>`
  const text = `${due.month} on ${due.on}`
  return due.overdue ? html`<span class="badge failed">overdue</span> ${text}` : html`${text}`
}

const forecastWords = (definition: Definition | undefined, own: readonly Forecast[]): Html => {
  const spent = own.reduce((sum, one) => sum + one.spent, 0)
  const known = own.flatMap(({ forecast }) => forecast ?? [])
  const budget = definition?.limits.quotaPerMonth ?? null
  const end = known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0)
  return html`${count(spent)} so far<br>${end === null ? html`<span class="soft">no forecast</span>` : html`about ${count(end)} at its end`}${budget === null ? '' : html`<br><span class="soft">of ${count(budget)}</span>`}`
}

const mostListed = 3

const listed = (months: readonly string[]): string =>
  months.length <= mostListed
    ? months.join(', ')
    : `${months.slice(-mostListed).join(', ')} and ${months.length - mostListed} more`
