// Which keyword stands at which rank. Everything follows from the rank alone, so that any page can be made without the others.
import { combine } from './hash.ts'
import { awkwardKeywords, endings, qualities, things } from './words.ts'

export type BrandedType = 'All' | 'Branded' | 'NonBranded'

/** The first four ranks and each tenth are searches for the brand. */
const firstBranded = 4
const brandedEvery = 10
/** Within blocks of so many ranks the order differs from month to month; what falls off the last block comes and goes. */
const shuffleBlock = 16
/** One keyword in a block of so many is replaced by each restatement. */
const restatedBlock = 200
/** Each 50th keyword ranks with two landing pages. */
const twoPagesEvery = 50
/** Domains share a third of their keywords. */
const poolFactor = 3
const awkwardFrom = 3
const awkwardEvery = 5

const isBranded = (rank: number): boolean => rank < firstBranded || rank % brandedEvery === 0

/** Ranks of the view that lie below `rows`. */
export const countRanks = (rows: number, branded: BrandedType): number => {
  if (branded === 'All') return rows
  const count = rows <= firstBranded ? rows : firstBranded + Math.floor((rows - 1) / brandedEvery)
  return branded === 'Branded' ? count : rows - count
}

/** The rank among all keywords of the `index`-th of the view. */
export const rankOf = (index: number, branded: BrandedType): number => {
  if (branded === 'All') return index
  if (branded === 'Branded') return index < firstBranded ? index : (index - firstBranded + 1) * brandedEvery
  const place = index + firstBranded - 1
  return place + 1 + Math.floor(place / (brandedEvery - 1))
}

const indexInClass = (rank: number): number => {
  if (rank < firstBranded) return rank
  if (isBranded(rank)) return firstBranded + rank / brandedEvery - 1
  return rank - firstBranded - Math.floor(rank / brandedEvery)
}

export interface Placed {
  readonly text: string
  readonly isBranded: boolean
  /** Position in the pool of keywords all domains draw from (branded ones have a pool of their own). */
  readonly pool: number
  /** 1, or 2 for the second landing page of the keyword one rank above. */
  readonly page: 1 | 2
}

/** `domainHash` knows the domain, `periodHash` also country and period; `generation` counts restatements of the period. */
export const keywordAt = (rank: number, domain: string, domainHash: number, periodHash: number, generation: number): Placed => {
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

/** Restated or not, the same rank of the same generation gives the same answer. */
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

/** Each number gives another text: 65,536 phrases, then the same with a number behind. */
const poolText = (pool: number): string => {
  const phrase = Math.imul((pool & 0xffff) + 1, 40503) & 0xffff
  const round = Math.floor(pool / 0x10000)
  const thing = things[(phrase >> 5) & 63] ?? 'shoes'
  const ending = endings[phrase >> 11] ?? ''
  const text = `${qualities[phrase & 31] ?? 'best'} ${thing}${ending === '' ? '' : ` ${ending}`}`
  return round === 0 ? text : `${text} ${round}`
}

const brandText = (identity: number, domain: string): string => {
  const name = domain.split('.')[0] ?? domain
  const first = [domain, name, `${name} login`, `www.${domain}`][identity]
  return first ?? `${name} ${poolText((identity - firstBranded) * 7)}`
}
