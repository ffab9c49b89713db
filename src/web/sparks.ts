// Charts as small as a word: a bar a night, with the figures in words beside them.
import { html } from 'hono/html'
import { count } from './format.ts'
import type { Html } from './layout.ts'

const [barWidth, height] = [4, 28]

/** One bar. */
export interface NightBar {
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
