// Charts as SVG made on the server by Observable Plot; colours come from the style sheet, so that light and dark both fit.
import * as Plot from '@observablehq/plot'
import { html, raw } from 'hono/html'
import { parseHTML } from 'linkedom'
import type { Html } from './layout.ts'

const { document } = parseHTML('<!doctype html><html><body></body></html>')

/** Series colours by name, as custom properties of the style sheet. */
const colours: Readonly<Record<string, string>> = {
  inserted: 'var(--series-1)',
  updated: 'var(--series-2)',
  ended: 'var(--series-3)',
  quarantined: 'var(--series-4)',
  used: 'var(--series-1)',
  reserved: 'var(--series-2)',
  budget: 'var(--series-3)',
  done: 'var(--series-1)',
  running: 'var(--series-2)',
  failed: 'var(--series-4)',
  cancelled: 'var(--series-3)',
  interrupted: 'var(--series-3)',
}

const fill = (name: string): string => colours[name] ?? 'var(--series-5)'

// Plot brings a style element of its own, which our content-security policy refuses; the same rules stand in our style sheet.
const render = (options: Plot.PlotOptions, role: 'img' | 'group'): string => {
  const svg = String(Plot.plot({ document, width: 760, ...options }).outerHTML).replace(/<style>.*?<\/style>/gs, '')
  const [root = ''] = /^<svg [^>]*>/.exec(svg) ?? []
  // The whole has a label; Plot's labels on groups inside it are ones that no screen reader may use.
  return `<svg role="${role}" ${root.slice(5)}${svg.slice(root.length).replaceAll(/(<g[^>]*) aria-label="[^"]*"/g, '$1')}`
}

/** Inside an attribute Plot's document writes these as they are. */
const labelOf = (text: string): string => text.replaceAll('<', '‹').replaceAll('>', '›')

const figure = (title: string, names: readonly string[], svg: string): Html => html`<figure>
<figcaption>${title}${names.map((name) => html` <span class="key"><svg aria-hidden="true" width="10" height="10"><rect width="10" height="10" fill="${fill(name)}"></rect></svg> ${name}</span>`)}</figcaption>
${raw(svg)}
</figure>`

/** One bar, or a part of it. `day` is `YYYY-MM-DD`. */
export interface DayValue {
  readonly day: string
  readonly series: string
  readonly value: number
}

const summed = (values: readonly DayValue[]): DayValue[] =>
  [...Map.groupBy(values, ({ day, series }) => `${day} ${series}`).values()]
    .map((group) => ({ ...group[0], value: group.reduce((sum, { value }) => sum + value, 0) }) as DayValue)
    .filter(({ value }) => value > 0)

/** Bars by day, stacked by series. */
export interface DayBars {
  readonly title: string
  /** What is counted, for the axis. */
  readonly unit: string
  readonly values: readonly DayValue[]
  /** First and last day of the axis, `YYYY-MM-DD`. */
  readonly days: readonly [string, string]
  /** A horizontal line, for example a budget. Default none. */
  readonly rule?: number | null
}

/** Stacked bars by day; values of one day and series are added up. */
export const dayBars = ({ title, unit, values, days, rule = null }: DayBars): Html => {
  const shown = summed(values)
  if (shown.length === 0) return html`<figure><figcaption>${title}</figcaption><p class="empty">Nothing yet.</p></figure>`
  const data = shown.map(({ day, series, value }) => ({ day: new Date(`${day}T00:00:00Z`), series, value }))
  const names = [...new Set(shown.map(({ series }) => series))]
  const svg = render(
    {
      height: 200,
      marginLeft: 60,
      ariaLabel: labelOf(`${title}, ${unit} a day`),
      x: {
        type: 'utc',
        label: null,
        domain: [new Date(`${days[0]}T00:00:00Z`), new Date(Date.parse(`${days[1]}T00:00:00Z`) + 86_400_000)],
      },
      y: { label: unit, grid: true, tickFormat: 's' },
      marks: [
        Plot.rectY(data, {
          x: 'day',
          interval: 'day',
          y: 'value',
          fill: ({ series }: { series: string }) => fill(series),
          title: ({ day, series, value }: { day: Date; series: string; value: number }) =>
            `${day.toISOString().slice(0, 10)}: ${value} ${series}`,
        }),
        Plot.ruleY([0]),
        ...(rule === null ? [] : [Plot.ruleY([rule], { stroke: fill('budget'), strokeDasharray: '4 3' })]),
      ],
      color: { type: 'identity' },
    },
    'img',
  )
  return figure(title, rule === null ? names : [...names, 'budget'], svg)
}

/** A bar from one ISO time to another, which leads to `href`. */
export interface Span {
  readonly lane: string
  readonly from: string
  readonly to: string
  readonly series: string
  /** `#12` */
  readonly name: string
  readonly title: string
  readonly href: string
}

/** Spans of time in lanes, each a link. */
export const timeline = (title: string, spans: readonly Span[]): Html => {
  if (spans.length === 0) return html`<figure><figcaption>${title}</figcaption><p class="empty">Nothing yet.</p></figure>`
  // A run of seconds is seen beside one of hours.
  const least = Math.max(
    1000,
    (Math.max(...spans.map(({ to }) => Date.parse(to))) - Math.min(...spans.map(({ from }) => Date.parse(from)))) / 200,
  )
  const data = spans.map((span) => ({
    ...span,
    x1: new Date(span.from),
    x2: new Date(Math.max(Date.parse(span.to), Date.parse(span.from) + least)),
  }))
  const lanes = new Set(spans.map(({ lane }) => lane)).size
  const svg = render(
    {
      height: 40 + lanes * 26,
      marginLeft: 180,
      ariaLabel: labelOf(title),
      x: { type: 'utc', label: null, grid: true, ticks: 6, tickFormat: (at: Date) => clockText(at, least * 200) },
      y: { label: null },
      color: { type: 'identity' },
      marks: [
        Plot.barX(data, {
          x1: 'x1',
          x2: 'x2',
          y: 'lane',
          fill: ({ series }: Span) => fill(series),
          title: 'title',
          href: 'href',
          // Above and below alone: the bar of a short run is a few pixels wide.
          insetTop: 2,
          insetBottom: 2,
        }),
      ],
    },
    'group',
  )
  return figure(title, [...new Set(spans.map(({ series }) => series))], svg)
}

/** As much of a moment as tells the ticks of an axis apart that spans so much. */
const clockText = (at: Date, spanMs: number): string => {
  const iso = at.toISOString()
  if (spanMs < 600_000) return iso.slice(11, 19)
  return spanMs < 86_400_000 ? iso.slice(11, 16) : `${iso.slice(5, 10)} ${iso.slice(11, 16)}`
}

/** Names of the axis of spans, in seconds. */
const spanNames: readonly (readonly [seconds: number, name: string])[] = [
  [1, '1 s'],
  [10, '10 s'],
  [60, '1 min'],
  [600, '10 min'],
  [3_600, '1 h'],
  [21_600, '6 h'],
  [86_400, '1 d'],
]

/** How long each took, on an axis that suits seconds and hours alike. In the order given. */
export const durations = (title: string, spans: readonly Span[]): Html => {
  if (spans.length === 0) return html``
  const data = spans.map((span) => ({ ...span, seconds: Math.max(1, (Date.parse(span.to) - Date.parse(span.from)) / 1000) }))
  const most = Math.max(...data.map(({ seconds }) => seconds))
  const end = spanNames.findIndex(([seconds]) => seconds >= most)
  const names = spanNames.slice(0, end === -1 ? spanNames.length : Math.max(2, end + 1))
  const svg = render(
    {
      height: 40 + spans.length * 16,
      marginLeft: 60,
      ariaLabel: labelOf(title),
      x: {
        label: null,
        grid: true,
        domain: [0, Math.log10(Math.max(most, names.at(-1)?.[0] ?? most))],
        ticks: names.map(([seconds]) => Math.log10(seconds)),
        tickFormat: (_: number, place: number) => names[place]?.[1] ?? '',
      },
      y: { label: null, domain: data.map(({ name }) => name) },
      color: { type: 'identity' },
      marks: [
        Plot.barX(data, {
          x1: () => 0,
          x2: ({ seconds }: { seconds: number }) => Math.max(0.02, Math.log10(seconds)),
          y: 'name',
          fill: ({ series }: Span) => fill(series),
          title: 'title',
          inset: 1,
        }),
      ],
    },
    'img',
  )
  return figure(title, [...new Set(spans.map(({ series }) => series))], svg)
}
