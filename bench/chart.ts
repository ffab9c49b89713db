// The growth of cost as a picture for the docs: seconds over rows and over units, both axes logarithmic. No library: two lines and ticks.
export interface Curve {
  readonly title: string
  readonly points: readonly (readonly [work: number, seconds: number])[]
  readonly exponent: number
}

const width = 340
const height = 240
/** Right: half of a label; left: the axis, and half of the label of the first point. */
const margin = { left: 66, right: 24, top: 30, bottom: 36 }

const short = (value: number): string =>
  value >= 1_000_000 ? `${value / 1_000_000} M` : value >= 1_000 ? `${value / 1_000} k` : String(value)

const ticksBetween = (low: number, high: number): number[] => {
  const first = Math.floor(Math.log10(low))
  return Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, index) => 10 ** (first + index))
}

const scale = (ticks: readonly number[], from: number, to: number): ((value: number) => number) => {
  const [low, high] = [Math.log10(ticks[0] ?? 1), Math.log10(ticks.at(-1) ?? 10)]
  return (value) => from + ((Math.log10(value) - low) / (high - low)) * (to - from)
}

const panel = ({ title, points, exponent }: Curve, left: number): string => {
  const xs = ticksBetween(Math.min(...points.map(([work]) => work)), Math.max(...points.map(([work]) => work)))
  const ys = ticksBetween(Math.min(...points.map(([, cost]) => cost)), Math.max(...points.map(([, cost]) => cost)))
  const x = scale(xs, left + margin.left, left + width - margin.right)
  const y = scale(ys, height - margin.bottom, margin.top)
  const lines = ys.map(
    (tick) =>
      `<line x1="${x(xs[0] ?? 1)}" x2="${x(xs.at(-1) ?? 1)}" y1="${y(tick)}" y2="${y(tick)}" stroke="#ccc"/>` +
      `<text x="${left + margin.left - 20}" y="${y(tick) + 4}" text-anchor="end">${tick} s</text>`,
  )
  const below = xs.map(
    (tick) => `<text x="${x(tick)}" y="${height - margin.bottom + 18}" text-anchor="middle">${short(tick)}</text>`,
  )
  const path = points.map(([work, cost]) => `${x(work).toFixed(1)},${y(cost).toFixed(1)}`).join(' ')
  const dots = points.map(
    ([work, cost]) =>
      `<circle cx="${x(work).toFixed(1)}" cy="${y(cost).toFixed(1)}" r="4" fill="#1f6feb"/>` +
      `<text x="${x(work).toFixed(1)}" y="${(y(cost) - 9).toFixed(1)}" text-anchor="middle">${cost.toFixed(1)} s</text>`,
  )
  return [
    `<text x="${left + margin.left}" y="16" font-weight="bold">${title} (exponent ${exponent.toFixed(2)})</text>`,
    ...lines,
    ...below,
    `<polyline points="${path}" fill="none" stroke="#1f6feb" stroke-width="2"/>`,
    ...dots,
  ].join('\n')
}

export const growthChart = (
  curves: readonly Curve[],
): string => `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width * curves.length} ${height}" font-family="sans-serif" font-size="12" fill="#24292f" role="img" aria-label="Cost as work grows">
<rect width="100%" height="100%" fill="#fff"/>
${curves.map((curve, index) => panel(curve, width * index)).join('\n')}
</svg>
`
