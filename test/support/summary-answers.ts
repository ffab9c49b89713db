// What the summary's tiles ought to show for the country us, worked out from the service's own records as docs/superset.md describes them: no SQL, none of the program's code.
import type { Facts } from './analyst-facts.ts'

type Figure = number | null
/** Of one slice in one month; `whole` is what a ratio divides by, else 1. */
interface Cell {
  readonly month: string
  readonly domain: string
  readonly slice: string
  readonly part: Figure
  readonly whole: Figure
}
interface Pair {
  readonly now: Cell
  readonly then: Cell
}

const minus = (month: string, months: number): string => {
  const at = Number(month.slice(0, 4)) * 12 + Number(month.slice(5, 7)) - 1 - months
  return `${Math.floor(at / 12)}-${String((at % 12) + 1).padStart(2, '0')}-01`
}
const total = (values: readonly Figure[]): number => values.reduce<number>((all, one) => all + (one ?? 0), 0)
const figureOf = (cells: readonly Cell[], isRatio: boolean): number =>
  total(cells.map(({ part }) => part)) / (isRatio ? total(cells.map(({ whole }) => whole)) : 1)
const known = (cells: readonly Cell[]): Cell[] => cells.filter(({ part, whole }) => part !== null && whole !== null)
const newestOf = (cells: readonly Cell[]): string => cells.map(({ month }) => month).reduce((a, b) => (a > b ? a : b))
/** Slices that two months both have, each with its figure. */
const pairsOf = (cells: readonly Cell[], month: string, months: number): Pair[] =>
  known(cells).flatMap((now) => {
    const then = known(cells).find((one) => one.slice === now.slice && one.month === minus(month, months))
    return now.month === month && then !== undefined ? [{ now, then }] : []
  })
const growthOf = (pairs: readonly Pair[], isRatio: boolean): number | null =>
  pairs.length === 0 ? null : figureOf(pairs.map(({ now }) => now), isRatio) / figureOf(pairs.map(({ then }) => then), isRatio) // biome-ignore format: one look

/** The newest month as it is, earlier ones as they would be with its slices; up to the first month without a neighbour. */
const line = (cells: readonly Cell[], isRatio = false): [string, number][] => {
  let month = newestOf(known(cells))
  let value = figureOf(known(cells).filter((one) => one.month === month), isRatio) // biome-ignore format: one look
  const points: [string, number][] = [[month, value]]
  for (;;) {
    const growth = growthOf(pairsOf(cells, month, 1), isRatio)
    if (growth === null) return points
    month = minus(month, 1)
    value /= growth
    points.push([month, value])
  }
}

/** Each with its figure of the newest month, how it changed over what the month before has, too, and last year's; and over how many domains. */
const moved = (
  cells: readonly Cell[],
  nameOf: (cell: Cell) => string,
): (readonly [string, Figure, Figure, Figure, Figure, string])[] => {
  const newest = newestOf(cells)
  const near = cells.filter(({ month }) => [newest, minus(newest, 1), minus(newest, 12)].includes(month))
  return [...new Set(near.map(nameOf))].map((name) => {
    const own = near.filter((one) => nameOf(one) === name)
    const now = known(own).filter(({ month }) => month === newest)
    const pairs = pairsOf(own, newest, 1)
    const [growth, year] = [growthOf(pairs, false), growthOf(pairsOf(own, newest, 12), false)]
    return [
      name,
      now.length === 0 ? null : total(now.map(({ part }) => part)),
      pairs.length === 0 ? null : total(pairs.map(({ now: one, then }) => (one.part ?? 0) - (then.part ?? 0))),
      growth === null ? null : growth - 1,
      year === null ? null : year - 1,
      overHowMany(own, newest),
    ] as const
  })
}

const overHowMany = (cells: readonly Cell[], newest: string): string => {
  const domains = (some: readonly Cell[]): number => new Set(some.map(({ domain }) => domain)).size
  const slices = (month: string): Set<string> => new Set(cells.filter((one) => one.month === month).map(({ slice }) => slice))
  const [now, before] = [slices(newest), slices(minus(newest, 1))]
  const [gone, come] = [before.difference(now).size, now.difference(before).size]
  return `${domains(pairsOf(cells, newest, 1).map(({ now: one }) => one))} of ${domains(cells)}${gone + come > 0 ? `; only before: ${gone}, only now: ${come}` : ''}`
}

/** By chart. @param now everything as the service has it in the end */
export const summaryAnswers = (now: Facts): Readonly<Record<string, readonly (readonly unknown[])[]>> => {
  const clicksOf = (isWanted: (keyword: string) => boolean): Cell[] =>
    [...Map.groupBy(now.keywords.filter(({ country }) => country === 'us'), ({ month, domain }) => `${month} ${domain}`)].map(([key, rows]) => {
      const [month = '', domain = ''] = key.split(' ')
      return { month, domain, slice: domain, part: total(rows.flatMap(({ keyword, clicks }) => (isWanted(keyword) ? [clicks] : []))), whole: 1 }
    }) // biome-ignore format: one look
  const clicks = clicksOf(() => true)
  const others = clicksOf((keyword) => !keyword.replaceAll(' ', '').includes('example'))
  const inUs = now.traffic.filter(({ country }) => country === 'us')
  const visits = inUs.map(({ date, domain, visits: part }): Cell => ({ month: date, domain, slice: domain, part, whole: 1 }))
  const pages = inUs.map(({ date, domain, views, visits: whole }): Cell => ({ month: date, domain, slice: domain, part: views, whole })) // biome-ignore format: one look
  const shop = (of: 'revenue' | 'units'): Cell[] =>
    now.shop.map((row) => ({
      month: row.date,
      domain: row.domain,
      slice: `${row.domain}/${row.category}`,
      part: row[of],
      whole: 1,
    }))
  const revenue = shop('revenue')
  return {
    Clicks: line(clicks),
    'Other clicks': line(others),
    Visits: line(visits),
    'Pages a visit': line(pages, true),
    Revenue: line(revenue),
    'Units sold': line(shop('units')),
    'Clicks won and lost': moved(clicks, ({ domain }) => domain),
    'Visits won and lost': moved(visits, ({ domain }) => domain),
    'Revenue won and lost': moved(revenue, ({ slice }) => slice.split('/')[1] ?? ''),
  }
}
