// What a night may buy without a person's word. Pure; docs/internals/decisions/0008-the-price-before-the-night.md says why so.
import { createHash } from 'node:crypto'
import type { GuardRule } from '../core/types.ts'
import type { Unasked } from '../ledger/guard-usual.ts'
import type { PackLimits } from './pack.ts'

export interface NightPrice {
  readonly rule: GuardRule
  /** Credits of what every night buys: the new month of values that are held, restated months, what was not finished. */
  readonly usual: number
  /** Credits of new values, older months and changed definitions. */
  readonly unusual: number
  /** Credits of what waits for approval already. */
  readonly waiting: number
  /** What nights bought so far by themselves, of the pipeline and of its account. */
  readonly pipeline: Unasked
  readonly account: Unasked
  /** Credits of one report of this pipeline. */
  readonly report: number
}

export interface NightVerdict {
  /** Credits the pipeline may cost within 24 hours. */
  readonly allowed: number
  /** What waits for a person's word. `all`: the definition names a figure that even the usual exceeds. */
  readonly holds: 'nothing' | 'unusual' | 'all'
}

/** Of 24 hours, whatever runs bought in them: what is about to be bought counts with what was. */
export const judgeNight = (price: NightPrice): NightVerdict => {
  const { rule, usual, unusual, waiting, pipeline, account } = price
  const spent = pipeline.usual + pipeline.beyond
  const others = account.usual + account.beyond - spent
  const allowed = rule.creditsPerNight ?? Math.min(bound(price, pipeline), bound(price, account) - others)
  if (rule.creditsPerNight !== null && usual > 0 && spent + usual > allowed) return { allowed, holds: 'all' }
  return { allowed, holds: unusual > 0 && spent + usual + unusual + waiting > allowed ? 'unusual' : 'nothing' }
}

/** A pipeline with little to do must not grow in the shadow of a large one, nor many of them together. */
const bound = ({ rule, usual, report }: NightPrice, past: Unasked): number =>
  Math.max(rule.factor * Math.max(past.dearest, past.usual + usual), report)

/** A range that a person named: only a figure in the definition stands against that word. @param named credits of ranges of the last 24 hours */
export const judgeRange = (rule: GuardRule, price: number, named: number): NightVerdict => {
  const allowed = rule.creditsPerNight ?? Number.POSITIVE_INFINITY
  return { allowed, holds: named + price > allowed ? 'all' : 'nothing' }
}

/** Of all that decides what is held: where it differs, what waits is planned anew. */
export const guardDigest = (of: {
  readonly generation: number
  readonly rule: GuardRule | null
  readonly limits: PackLimits
}): string => createHash('sha256').update(JSON.stringify(of)).digest('hex')
