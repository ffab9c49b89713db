// Keyword records as JSON text, computed from the rank alone, so that any page can be made without the others. Clicks fall with the rank, so every page is
// sorted.
import { combine, hashText, unit } from './hash.ts'
import { awkwardKeywords, keywordSuffixes, qualities, serpFeatures, productNouns } from './words.ts'

export const trafficSources = ['Organic', 'Paid', 'All'] as const
export const webSources = ['Desktop', 'MobileWeb', 'Total'] as const
export const brandedTypes = ['Branded', 'NonBranded', 'All'] as const

export interface KeywordQuery {
  readonly domain: string
  /** Lower case, or `world`. */
  readonly country: string
  /** `YYYY-MM`, both inclusive. */
  readonly from: string
  readonly to: string
  readonly trafficSource: (typeof trafficSources)[number]
  readonly webSource: (typeof webSources)[number]
  readonly brandedType: BrandedType
}

export interface KeywordWorld {
  readonly seed: number
  /** Keywords of the domain before any restatement. */
  readonly rows: number
  /** How often the period was restated. */
  readonly generation: number
  /** Factor of clicks after a change of method. Default 1. */
  readonly factor?: number
  /** Whether volume and CPC have their final values. */
  readonly settled: boolean
  readonly hostile: boolean
}

export type KeywordView = ReturnType<typeof keywordView>

const trafficScale = { All: 1, Organic: 0.8, Paid: 0.2 } as const
const webScale = { Total: 1, Desktop: 0.42, MobileWeb: 0.58 } as const
/** One keyword in four has paid clicks. */
const paidShare = 4
const flatness = 0.85
/** Percent of rows that change when a period is restated. */
const restatedPercent = 30

const countryScale = (country: string): number => (country === 'world' ? 1 : 0.02 + 0.3 * unit(hashText(country)) ** 2)

/** The keywords of one query; the same arguments give the same bytes. */
export const keywordView = (query: KeywordQuery, world: KeywordWorld) => {
  const context = contextOf(query, world)
  const rows = world.rows === 0 ? 0 : Math.max(1, world.rows + rowDrift(context.periodHash, world.generation))
  const ranks = ranksOf(rows, query.brandedType)
  const inClass = ranks?.length ?? rows
  return {
    count: query.trafficSource === 'Paid' ? Math.ceil(inClass / paidShare) : inClass,
    /** One record as JSON text; `index` from 0 in the order of the answer. */
    record: (index: number): string => recordAt(context, ranks?.[index] ?? index),
  }
}

type Context = ReturnType<typeof contextOf>

const contextOf = (query: KeywordQuery, world: KeywordWorld) => {
  const period = query.from === query.to ? query.from : `${query.from}..${query.to}`
  const domainHash = hashText(query.domain, world.seed)
  const periodHash = hashText(`${query.domain}|${query.country}|${period}`, world.seed)
  return {
    ...{ query, world, domainHash, periodHash },
    countryHash: hashText(query.country, world.seed),
    monthHash: hashText(period, world.seed),
    /** Clicks of the first keyword, unscaled. */
    top: 10 ** (4.2 + 1.3 * unit(domainHash)) * countryScale(query.country) * (0.85 + 0.3 * unit(periodHash)),
    scale: trafficScale[query.trafficSource] * webScale[query.webSource] * (world.factor ?? 1),
  }
}

/** The change of the number of rows by restatements: a few rows at the end vanish or appear each time, always at least one. */
const rowDrift = (periodHash: number, generation: number): number => {
  if (generation === 0) return 0
  const step = 1 + (combine(periodHash, generation) % 3)
  return combine(periodHash, -generation) % 2 === 0 ? step : -step
}

const unscaledClicks = ({ top }: Context, rank: number): number => Math.max(1, Math.floor(top / (rank + 1) ** flatness))

const isChanged = ({ world, periodHash }: Context, rank: number): boolean =>
  world.generation > 0 && combine(combine(periodHash, world.generation), rank) % 100 < restatedPercent

/** A restated row grows into the gap to the row above, so that the order stays. */
const clicksAt = (context: Context, rank: number): number => {
  const clicks = unscaledClicks(context, rank)
  if (!isChanged(context, rank)) return Math.floor(clicks * context.scale)
  const above = rank === 0 ? Math.floor(clicks * 1.1) : unscaledClicks(context, rank - 1)
  const share = 0.1 + 0.8 * unit(combine(context.periodHash, rank + context.world.generation))
  return Math.floor((clicks + Math.floor((above - clicks) * share)) * context.scale)
}

/** All clicks of the month before any restatement, so that a few rows more or less do not change the share of every other row. */
const totalClicks = ({ top, world, scale }: Context): number =>
  Math.max(1, (top * scale * ((world.rows + 1) ** (1 - flatness) - 0.7)) / (1 - flatness))

const recordAt = (context: Context, rank: number): string => {
  const { domain } = context.query
  const placed = keywordAt(rank, domain, context.domainHash, context.periodHash, context.world.generation)
  const hash = combine(combine(context.periodHash, placed.pool), placed.page)
  const clicks = clicksAt(context, rank)
  const changed = isChanged(context, rank)
  const position = 1 + Math.floor(unit(hash) ** 2 * 40) + (changed ? 1 : 0)
  const parts = [
    `"keyword":${JSON.stringify(placed.text)}`,
    `"clicks":${hostileNumber(context, rank, 0, String(clicks))}`,
    `"traffic_share":${hostileNumber(context, rank, 1, plain(clicks / totalClicks(context), 10))}`,
    ...marketParts(context, placed, changed),
    `"zero_clicks_share":${plain((combine(hash, 5) % 9000) / 10_000 + (changed ? 0.01 : 0), 4)}`,
    `"position":${position}`,
    `"serp_features":${featureList(combine(hash, 6), context.world.hostile)}`,
    `"top_url":${JSON.stringify(landingPage(domain, placed))}`,
  ]
  return `{${parts.join(',')}}`
}

/** Fields of the keyword itself: the same for every domain in a country and month. */
const marketParts = ({ countryHash, monthHash, query, world }: Context, placed: Placed, changed: boolean): string[] => {
  const own = combine(combine(countryHash, placed.pool), placed.isBranded ? hashText(placed.text) : 0)
  const monthly = combine(own, monthHash)
  const drift = (world.settled ? 1 : 0.8 + 0.4 * unit(combine(monthly, 1))) * (changed ? 1.05 : 1)
  const size = (2e6 * countryScale(query.country)) / (placed.pool + 2) ** 0.8
  const volume = 10 * Math.ceil((size * (0.3 + 2 * unit(own)) * (0.9 + 0.2 * unit(monthly)) * drift) / 10)
  const cpc = Math.round((20 + (combine(own, 2) % 480)) * drift)
  const parts: string[] = []
  if (combine(own, 7) % 90 !== 0) parts.push(`"difficulty":${combine(own, 7) % 14 === 0 ? 'null' : combine(own, 8) % 101}`)
  parts.push(`"competition":${competition(own, world.hostile)}`, ...intents(own, placed.isBranded), `"volume":${volume}`)
  parts.push(`"cpc":${plain(cpc / 100, 2)}`)
  // Leaves fields out now and then; the interface declares a default of 0 for them.
  if (combine(own, 9) % 40 !== 0) parts.push(`"cpc_low_bid":${plain(Math.floor(cpc * 0.6) / 100, 2)}`)
  if (combine(own, 10) % 40 !== 0) parts.push(`"cpc_high_bid":${plain(Math.ceil(cpc * 1.7) / 100, 2)}`)
  return parts
}

const competition = (own: number, hostile: boolean): string => {
  const value = combine(own, 11)
  if (value % 10 < 3) return 'null'
  return hostile && value % 4 === 0 ? plain((value % 1000) / 1000, 3) : String(value % 101)
}

const intents = (own: number, branded: boolean): string[] => {
  const names = ['Informational', 'Transactional', 'Commercial', 'Informational', 'Local'] as const
  const primary = branded ? 'Navigational' : (names[combine(own, 12) % names.length] ?? 'Informational')
  const second = combine(own, 13) % 10
  const secondary = second < 5 ? 'null' : second < 8 && !branded ? '"Navigational"' : '"Informational"'
  return [`"primary_intent":"${primary}"`, `"secondary_intent":${secondary === `"${primary}"` ? 'null' : secondary}`]
}

const featureList = (hash: number, hostile: boolean): string => {
  const list = JSON.stringify(serpFeatures.filter((_, index) => (hash >>> index) % 3 === 0))
  return hostile && hash % 5 === 0 ? JSON.stringify(list) : list
}

const landingPage = (domain: string, { text, isBranded, pool, page }: Placed): string => {
  if (isBranded && page === 1) return domain
  const words = text.replace(/[^a-z0-9]+/gi, '-').replace(/^-|-$/g, '') || 'page'
  return `${pool % 5 === 0 ? `www.${domain}` : domain}/${words}-${pool}${page === 2 ? '/offers?from=search&x=1' : ''}`
}

/** A decimal without an exponent and without trailing zeros. */
const plain = (value: number, digits: number): string => {
  const text = value.toFixed(digits)
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

const hostileNumber = ({ world, periodHash }: Context, rank: number, field: number, text: string): string => {
  if (!world.hostile) return text
  if (field === 0) return rank === 0 ? '9007199254740993' : rank === 1 ? '9007199254740992.5' : text
  const kind = combine(periodHash, rank) % 12
  if (kind === 0) return '0.1234567890123456789012345678901234567891'
  return kind === 1 ? '1.25e-7' : kind === 2 ? '1.0000000000000000000000000000000000000001' : text
}

type BrandedType = 'All' | 'Branded' | 'NonBranded'

/** The first four ranks and each tenth are searches for the brand. */
const firstBranded = 4
const brandedEvery = 10
/** Within blocks of so many ranks the order changes from month to month, so keywords of the last, cut block come and go. */
const shuffleBlock = 16
/** One keyword in a block of so many is replaced by each restatement. */
const restatedBlock = 200
/** Each 50th keyword ranks with two landing pages. */
const twoPagesEvery = 50
/** The pool's size as a multiple of a domain's keywords: domains share a third of their keywords. */
const poolFactor = 3
const awkwardFrom = 3
const awkwardEvery = 5

const isBranded = (rank: number): boolean => rank < firstBranded || rank % brandedEvery === 0

/** Ranks below `rows` of one class (branded or not), in order; null: all ranks. */
const ranksOf = (rows: number, branded: BrandedType): readonly number[] | null =>
  branded === 'All'
    ? null
    : Array.from({ length: rows }, (_, rank) => rank).filter((rank) => isBranded(rank) === (branded === 'Branded'))

const indexInClass = (rank: number): number => {
  if (rank < firstBranded) return rank
  if (isBranded(rank)) return firstBranded + rank / brandedEvery - 1
  return rank - firstBranded - Math.floor(rank / brandedEvery)
}

/**
 * `pool`: position in the pool of keywords all domains draw from (branded ones have a pool of their own); `page`: 1, or 2 for the second landing page of the
 * keyword one rank above.
 */
type Placed = ReturnType<typeof keywordAt>

/** @param domainHash of the domain @param periodHash of domain, country and period @param generation number of restatements of the period */
const keywordAt = (rank: number, domain: string, domainHash: number, periodHash: number, generation: number) => {
  const second = rank % twoPagesEvery === twoPagesEvery - 1
  const branded = isBranded(rank)
  const replaced = generation > 0 && isReplaced(rank, periodHash, generation)
  const identity = shuffled(indexInClass(second ? rank - 1 : rank), branded, periodHash)
  const page = second && !replaced ? 2 : 1
  if (branded) return { text: brandText(identity, domain), isBranded: true, pool: identity, page }
  const pool = identity * poolFactor + (combine(domainHash, identity) % poolFactor)
  if (replaced) return { text: `${poolText(pool)} v${generation}.${rank}`, isBranded: false, pool, page }
  const special = awkward(identity)
  if (special !== undefined) return { text: special, isBranded: false, pool: identity * poolFactor, page }
  return { text: poolText(pool), isBranded: false, pool, page }
}

/** Whether the restatement `generation` replaces the keyword at this rank. Deterministic. */
const isReplaced = (rank: number, periodHash: number, generation: number): boolean => {
  if (isBranded(rank)) return false
  const block = Math.floor(rank / restatedBlock)
  return rank % restatedBlock === 5 + (combine(combine(periodHash, generation), block) % (restatedBlock - 10))
}

const shuffled = (index: number, branded: boolean, periodHash: number): number => {
  if (branded) return index
  const mask = combine(periodHash, Math.floor(index / shuffleBlock)) % shuffleBlock
  return index ^ mask
}

const awkward = (identity: number): string | undefined => {
  const place = (identity - awkwardFrom) / awkwardEvery
  return Number.isInteger(place) ? awkwardKeywords[place] : undefined
}

/** A different text for each number: 65,536 phrases, then the same phrases with a number appended. */
const poolText = (pool: number): string => {
  const phrase = Math.imul((pool & 0xffff) + 1, 40503) & 0xffff
  const round = Math.floor(pool / 0x10000)
  const thing = productNouns[(phrase >> 5) & 63] ?? 'shoes'
  const ending = keywordSuffixes[phrase >> 11] ?? ''
  const text = `${qualities[phrase & 31] ?? 'best'} ${thing}${ending === '' ? '' : ` ${ending}`}`
  return round === 0 ? text : `${text} ${round}`
}

const brandText = (identity: number, domain: string): string => {
  const name = domain.split('.')[0] ?? domain
  const first = [domain, name, `${name} login`, `www.${domain}`][identity]
  return first ?? `${name} ${poolText((identity - firstBranded) * 7)}`
}
