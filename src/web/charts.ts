// Charts as SVG: a bar a night as small as a word, and runs on a timeline. Colours come from the style sheet, so that light and dark both fit.
import { html } from 'hono/html'
import { count, moment } from './format.ts'
import type { Html } from './layout.ts'

const [barWidth, height] = [4, 28]

/** One bar. */
interface NightBar {
  /** `YYYY-MM-DD` */
  readonly day: string
  readonly value: number
}

/** Nights in the order given. @param unit what is counted, `rows` @param colour a custom property of the style sheet */
export const nightBars = (unit: string, bars: readonly NightBar[], colour: string): Html => {
  const most = Math.max(0, ...bars.map(({ value }) => value))
  const total = bars.reduce((sum, { value }) => sum + value, 0)
  const top = bars.find(({ value }) => value === most)
  if (most === 0 || top === undefined) return html`<span class="soft">no ${unit}</span>`
  const label = `${unit} by night: ${count(total)} in ${bars.length} nights, most ${count(most)} on ${top.day}, last ${count(bars.at(-1)?.value ?? 0)}`
  return html`<svg class="spark" role="img" aria-label="${label}" viewBox="0 0 ${bars.length * barWidth} ${height}" preserveAspectRatio="none">
${bars.map(({ day, value }, place) => {
  // A night with something in it is seen, however small beside the largest one.
  const tall = value === 0 ? 0.5 : Math.max(2, (value / most) * height)
  return html`<rect x="${place * barWidth}" y="${(height - tall).toFixed(1)}" width="${barWidth - 1}" height="${tall.toFixed(1)}" fill="var(${value === 0 ? '--line' : colour})"><title>${day}: ${count(value)} ${unit}</title></rect>`
})}</svg> <span class="figure">${short(total)}</span>`
}

const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })

/** `1.2M` */
const short = (value: number): string => compact.format(value)

/** One bar a night, also for nights without a value. */
export const barsOf = (days: readonly string[], values: readonly NightBar[]): NightBar[] => {
  const sums = new Map<string, number>()
  for (const { day, value } of values) sums.set(day, (sums.get(day) ?? 0) + value)
  return days.map((day) => ({ day, value: sums.get(day) ?? 0 }))
}

/** A bar from one ISO time to another, which leads to `href`. */
export interface Span {
  readonly lane: string
  readonly from: string
  readonly to: string
  /** A state of a run. */
  readonly state: string
  readonly title: string
  readonly href: string
}

const fills: Readonly<Record<string, string>> = { done: '--series-1', running: '--series-2', failed: '--series-4' }
const fillOf = (state: string): string => `var(${fills[state] ?? '--series-3'})`

const [spansWidth, laneHeight, namesWidth] = [760, 26, 110]
/** A run of seconds is seen beside one of hours. */
const leastWidth = 3

/** Spans of time in lanes, each a link. */
export const timeline = (title: string, spans: readonly Span[]): Html => {
  if (spans.length === 0) return html`<figure><figcaption>${title}</figcaption><p class="empty">Nothing yet.</p></figure>`
  const lanes = [...new Set(spans.map(({ lane }) => lane))]
  const [from = '', to = ''] = [spans.map((span) => span.from).sort()[0], spans.map((span) => span.to).sort().at(-1)] // biome-ignore format: one look
  const whole = Math.max(1, Date.parse(to) - Date.parse(from))
  const room = spansWidth - namesWidth - leastWidth
  const place = (at: string): number => namesWidth + ((Date.parse(at) - Date.parse(from)) / whole) * room
  return html`<figure>
<figcaption>${title}, ${moment(from)} to ${moment(to)}${[...new Set(spans.map(({ state }) => state))].map((state) => html` <span class="key"><svg aria-hidden="true" width="10" height="10"><rect width="10" height="10" fill="${fillOf(state)}"></rect></svg> ${state}</span>`)}</figcaption>
<svg role="group" aria-label="${title}" viewBox="0 0 ${spansWidth} ${lanes.length * laneHeight}">
${lanes.map((lane, row) => html`<text x="0" y="${row * laneHeight + 17}" fill="currentColor">${lane}</text>`)}
${spans.map((span) => html`<a href="${span.href}"><rect x="${place(span.from).toFixed(1)}" y="${lanes.indexOf(span.lane) * laneHeight + 2}" width="${(place(span.to) - place(span.from) + leastWidth).toFixed(1)}" height="${laneHeight - 4}" fill="${fillOf(span.state)}"><title>${span.title}</title></rect></a>`)}
</svg></figure>`
}
