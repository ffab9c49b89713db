// Charts as SVG: bars by night at the size of a word; runs on a timeline and credits by day, drawn on the server by Observable Plot. Colours come from
// the style sheet, which has a light and a dark scheme.
import * as Plot from '@observablehq/plot'
import { html, raw } from 'hono/html'
import { parseHTML } from 'linkedom'
import { sum } from '../core/counted.ts'
import { count } from './format.ts'
import type { Html } from './layout.ts'
import type { QuotaDay } from './reads/read-quota.ts'

const [barWidth, height] = [4, 28]

/** One bar: of the day `YYYY-MM-DD`. */
type NightBar = Pick<QuotaDay, 'day'> & { readonly value: number }

/** Nights in the order given. @param unit what is counted, `rows` @param colour a custom property of the style sheet */
export const nightBars = (unit: string, bars: readonly NightBar[], colour: string): Html => {
  const most = Math.max(0, ...bars.map(({ value }) => value))
  const total = sum(bars, 'value')
  const top = bars.find(({ value }) => value === most)
  if (most === 0 || top === undefined) return html`<span class="soft">no ${unit}</span>`
  const label = `${unit} by night: ${count(total)} in ${bars.length} nights, most ${count(most)} on ${top.day}, last ${count(bars.at(-1)?.value ?? 0)}`
  return html`<svg class="spark" role="img" aria-label="${label}" viewBox="0 0 ${bars.length * barWidth} ${height}" preserveAspectRatio="none">
${bars.map(({ day, value }, place) => {
  // A night above 0 stays visible beside a much larger one.
  const tall = value === 0 ? 0.5 : Math.max(2, (value / most) * height)
  return html`<rect x="${place * barWidth}" y="${(height - tall).toFixed(1)}" width="${barWidth - 1}" height="${tall.toFixed(1)}" fill="var(${value === 0 ? '--line' : colour})"><title>${day}: ${count(value)} ${unit}</title></rect>`
})}</svg> <span class="figure">${short(total)}</span>`
}

const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })

/** `1.2M` */
const short = (value: number): string => compact.format(value)

/** One bar a night, also for nights without a value. */
export const barsOf = (days: readonly string[], values: readonly NightBar[]): NightBar[] =>
  days.map((day) => ({ day, value: sum(values, (one) => (one.day === day ? one.value : 0)) }))

const { document } = parseHTML('<!doctype html><html><body></body></html>')

const fills: Readonly<Record<string, string>> = {
  ...{ done: '--series-1', running: '--series-3', held: '--series-2', failed: '--series-4' },
  ...{ used: '--series-1', reserved: '--series-2', budget: '--series-4' },
}
const fillOf = (series: string): string => `var(${fills[series] ?? '--series-3'})`

interface Drawing {
  /** `group` where the chart contains links. */
  readonly role: 'img' | 'group'
  /** Time zone of the chart, until a script replaces it with the reader's. */
  readonly zone?: 'UTC'
  /** Names of the lanes, left of the chart, which stay visible while it scrolls. */
  readonly lanes?: readonly string[]
}

/** @param series the legend: what the colours mean */
const figure = (label: string, series: readonly string[], { role, zone, lanes = [] }: Drawing, options: Plot.PlotOptions) => {
  const svg = String(Plot.plot({ document, width: 760, color: { type: 'identity' }, ...options }).outerHTML)
    // Our content-security policy refuses Plot's style element; our style sheet has the same rules.
    .replace(/<style>.*?<\/style>/gs, '')
    // The chart as a whole has a label; ARIA does not allow Plot's labels on plain groups inside it.
    .replaceAll(/(<g[^>]*) aria-label="[^"]*"/g, '$1')
    // A script shows each time in the reader's zone.
    .replaceAll(/(<text[^>]*)>(\d{4}-[^<]*Z) ([^<]*)<\/text>/g, '$1 data-at="$2">$3</text>')
  return html`<figure>
<figcaption>${label}${zone === undefined ? '' : html`, <span data-zone>${zone}</span>`}${[...new Set(series)].map((name) => html` <span class="key"><svg aria-hidden="true" width="10" height="10"><rect width="10" height="10" fill="${fillOf(name)}"></rect></svg> ${name}</span>`)}</figcaption>
<div class="chart">${lanes.length === 0 ? '' : html`<ul class="lanes">${lanes.map((lane) => html`<li>${lane}</li>`)}</ul>`}<div class="scroll" tabindex="0">
<svg role="${role}" aria-label="${label}" ${raw(svg.slice('<svg '.length))}</div></div></figure>`
}

/** A bar from one ISO time to another, linked to `href`. */
export interface Span {
  readonly lane: string
  readonly from: string
  readonly to: string
  readonly state: string
  readonly title: string
  readonly href: string
}

/** Height of a lane in pixels, the same as in the style sheet. */
const laneHeight = 26

/** @param spans the newest first */
export const timeline = (title: string, spans: readonly Span[]): Html => {
  if (spans.length === 0) return html`<figure><figcaption>${title}</figcaption><p class="empty">Nothing yet.</p></figure>`
  const whole = Math.max(...spans.map(({ to }) => Date.parse(to))) - Math.min(...spans.map(({ from }) => Date.parse(from)))
  // A run of seconds is seen beside one of hours.
  const least = Math.max(1_000, whole / 200)
  const states = spans.map(({ state }) => state)
  const lanes = [...new Set(spans.map(({ lane }) => lane))].toSorted()
  return figure(
    title,
    states,
    { role: 'group', zone: 'UTC', lanes },
    {
      height: 30 + lanes.length * laneHeight,
      marginTop: 0,
      // Room for half of the first and half of the last tick's label.
      ...{ marginLeft: 34, marginRight: 34 },
      x: {
        type: 'utc',
        label: null,
        grid: true,
        ticks: 6,
        tickFormat: (at: Date) => `${at.toISOString()} ${clockText(at, whole)}`,
      },
      y: { axis: null, domain: lanes },
      marks: [
        // The newest are drawn last, on top.
        Plot.barX(spans.toReversed(), {
          x1: ({ from }: Span) => new Date(from),
          x2: ({ from, to }: Span) => new Date(Math.max(Date.parse(to), Date.parse(from) + least)),
          ...{ y: 'lane', fill: ({ state }: Span) => fillOf(state), title: 'title', href: 'href' },
          // Inset only above and below: the bar of a short run is a few pixels wide.
          ...{ insetTop: 2, insetBottom: 2 },
        }),
      ],
    },
  )
}

/** The part of a time that distinguishes the ticks of an axis of this length. */
const clockText = (at: Date, spanMs: number): string => {
  const iso = at.toISOString()
  if (spanMs < 600_000) return iso.slice(11, 19)
  return spanMs < 86_400_000 ? iso.slice(11, 16) : `${iso.slice(5, 10)} ${iso.slice(11, 16)}`
}

/** Credits of one pipeline. @param from first day of the axis, `YYYY-MM-DD` @param to the last one @param budget a day, as a line; null: none */
export const creditsByDay = (title: string, days: readonly QuotaDay[], from: string, to: string, budget: number | null): Html => {
  const bars = days.flatMap(({ day, account, used, reserved }) =>
    Object.entries({ used, reserved }).flatMap(([series, value]) => (value > 0 ? [{ day, account, series, value }] : [])),
  )
  return figure(
    title,
    [...bars.map(({ series }) => series), ...(budget === null ? [] : ['budget'])],
    { role: 'img' },
    {
      height: 200,
      marginLeft: 60,
      x: { type: 'utc', label: null, domain: [new Date(from), new Date(Date.parse(to) + 86_400_000)] },
      y: { label: 'credits', grid: true, tickFormat: short },
      marks: [
        Plot.rectY(bars, {
          ...{ x: ({ day }: (typeof bars)[number]) => new Date(day), interval: 'day', y: 'value' },
          fill: ({ series }: (typeof bars)[number]) => fillOf(series),
          title: ({ day, account, series, value }: (typeof bars)[number]) => `${day}: ${count(value)} ${series}, ${account}`,
        }),
        Plot.ruleY([0]),
        ...(budget === null ? [] : [Plot.ruleY([budget], { stroke: fillOf('budget'), strokeDasharray: '4 3' })]),
      ],
    },
  )
}
