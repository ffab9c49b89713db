// Months of a seeded service with faults planted in some of them: what the tests of a definition catch, and what they raise for nothing.
import type { Definition } from '../../src/core/types.ts'
import { addWindows } from '../../src/core/window.ts'
import { combine, hashText, unit } from '../../src/sandbox/hash.ts'
import { boxOf } from './definitions.ts'
import { type LoadKit, loadBody, trafficCsv, workOn } from './loading.ts'

export interface Planting {
  readonly seed: number
  readonly domains: number
  readonly countries: readonly string[]
  readonly months: number
  /** One unit-month in so many has a fault. */
  readonly every: number
}

type Fault = 'jump up' | 'jump down' | 'zeroed'

/** By month, domain and country. */
interface Cell {
  readonly key: string
  readonly fault: Fault | null
  /** null: the service has no row. */
  readonly line: string | null
}

export interface Caught {
  readonly unitMonths: number
  readonly planted: number
  readonly caught: number
  readonly byFault: Readonly<Record<Fault, { readonly planted: number; readonly caught: number }>>
  readonly healthy: number
  /** Healthy unit-months that a test fails. */
  readonly falseAlarms: readonly string[]
  /** Faults that no test fails. */
  readonly missed: readonly string[]
}

const firstMonth = '2024-01-01'

/** A bell curve around 0 with a spread of 1, from two numbers between 0 and 1. */
const bell = (first: number, second: number): number => Math.sqrt(-2 * Math.log(1 - first)) * Math.cos(2 * Math.PI * second)

/** What a site has in a month when nothing is wrong: its size, country, growth, season, a campaign now and then, and more noise the smaller it is. */
const naturalVisits = (seed: number, domain: string, country: string, at: number): number => {
  const site = hashText(domain, seed)
  const place = hashText(`${domain}|${country}`, seed)
  const cell = combine(place, at)
  const size = 10 ** (4.2 + 3 * unit(site)) * (0.05 + 0.6 * unit(place))
  const growth = (1 + 0.06 * (unit(combine(site, 1)) - 0.4)) ** at
  const isShop = combine(site, 2) % 3 === 0
  const month = at % 12
  const season = 1 + 0.15 * Math.sin((month / 12 + unit(combine(site, 3))) * 2 * Math.PI) + (isShop && month >= 10 ? 0.6 : 0)
  const campaign = combine(cell, 4) % 40 === 0 ? 1.3 + 0.7 * unit(combine(cell, 5)) : 1
  const noise = Math.exp((0.06 + 4 / Math.sqrt(size)) * bell(unit(combine(cell, 6)), unit(combine(cell, 7))))
  return size * growth * season * campaign * noise
}

const faultOf = (hash: number, every: number): Fault | null =>
  combine(hash, 20) % every === 0 ? ((['jump up', 'jump down', 'zeroed'] as const)[combine(hash, 21) % 3] ?? null) : null

/** A jump is by a factor of 4 to 50. */
const withFault = (visits: number, fault: Fault | null, hash: number): number => {
  const factor = 4 * 12.5 ** unit(combine(hash, 22))
  if (fault === null) return visits
  return fault === 'zeroed' ? 0 : fault === 'jump up' ? visits * factor : visits / factor
}

const cellOf = ({ seed, every }: Planting, domain: string, country: string, at: number): Cell => {
  const month = addWindows(firstMonth, 'month', at)
  const hash = combine(hashText(`${domain}|${country}`, seed), at)
  const fault = at === 0 ? null : faultOf(hash, every)
  const key = `${month.slice(0, 7)} ${domain} ${country}`
  // One row in sixty is not there, and one site in 25 is not seen on mobile.
  if (fault === null && combine(hash, 23) % 60 === 0) return { key, fault, line: null }
  const visits = withFault(naturalVisits(seed, domain, country, at), fault, hash)
  const desktop = visits * (0.25 + 0.5 * unit(hashText(domain, seed + 1)))
  const mobile = combine(hash, 24) % 25 === 0 ? '' : (visits - desktop).toFixed(2)
  return { key, fault, line: `${month},${domain},${country},${visits.toFixed(2)},${mobile},${desktop.toFixed(2)},,,` }
}

/** The definition's own tests, each of which holds. */
export const holding = (definition: Definition): Definition => ({
  ...definition,
  tests: definition.tests.map((test) => ({ ...test, onFailure: 'hold' })),
})

/** Loads month after month as nights do, and compares what the tests fail with what was planted. */
export const plantAndLoad = async (kit: LoadKit, planting: Planting): Promise<Caught> => {
  const domains = Array.from({ length: planting.domains }, (_, at) => `site${at}.example`)
  const cells: Cell[] = []
  for (let at = 0; at < planting.months; at += 1) {
    const own = domains.flatMap((domain) => planting.countries.map((country) => cellOf(planting, domain, country, at)))
    const month = addWindows(firstMonth, 'month', at).slice(0, 7)
    const work = await workOn(kit, boxOf(kit.definition, month, { domain: domains, country: [...planting.countries] }))
    await loadBody(kit, work, { body: trafficCsv(...own.flatMap(({ line }) => line ?? [])) })
    cells.push(...own)
  }
  const { rows } = await kit.db.database.pool.query<{ key: string }>(`
    select distinct to_char(f.window_from, 'YYYY-MM') || ' ' || (etl.slice_of(p.dimensions, s."values") ->> 'domain') || ' '
      || (etl.slice_of(p.dimensions, s."values") ->> 'country') as key
    from etl.failed_tests f join etl.slices s on s.slice_id = f.slice_id join etl.pipelines p on p.pipeline_id = f.pipeline_id`)
  return compare(cells, new Set(rows.map(({ key }) => key)))
}

const compare = (cells: readonly Cell[], failed: ReadonlySet<string>): Caught => {
  const planted = cells.filter(({ fault }) => fault !== null)
  const of = (fault: Fault) => {
    const own = planted.filter((cell) => cell.fault === fault)
    return { planted: own.length, caught: own.filter(({ key }) => failed.has(key)).length }
  }
  const healthy = cells.filter(({ fault, line }) => fault === null && line !== null)
  return {
    unitMonths: cells.length,
    planted: planted.length,
    caught: planted.filter(({ key }) => failed.has(key)).length,
    byFault: { 'jump up': of('jump up'), 'jump down': of('jump down'), zeroed: of('zeroed') },
    healthy: healthy.length,
    falseAlarms: healthy.flatMap(({ key }) => (failed.has(key) ? [key] : [])),
    missed: planted.flatMap(({ key, fault }) => (failed.has(key) ? [] : [`${key}: ${fault}`])),
  }
}
