// What a night may buy without a person's word. Pure; docs/decisions/0008-the-price-before-the-night.md says why so.
import { createHash } from 'node:crypto'
import type { GuardRule } from '../core/types.ts'
import type { PackLimits } from './pack.ts'

export interface NightPrice {
  readonly rule: GuardRule
  /** Credits of what every night buys: the new month of values that are held, restated months, what was not finished. */
  readonly usual: number
  /** Credits of new values, older months and changed definitions. */
  readonly unusual: number
  /** Credits of what waits for approval already. */
  readonly waiting: number
  /** Credits of the dearest night of late. */
  readonly dearest: number
  /** Credits of one report of this pipeline. */
  readonly report: number
}

export interface NightVerdict {
  /** Credits the night may cost. */
  readonly allowed: number
  /** What waits for a person's word. `all`: the definition names a figure that even the usual exceeds. */
  readonly holds: 'nothing' | 'unusual' | 'all'
}

export const judgeNight = ({ rule, usual, unusual, waiting, dearest, report }: NightPrice): NightVerdict => {
  const allowed = rule.creditsPerNight ?? Math.max(rule.factor * Math.max(dearest, usual), report)
  if (rule.creditsPerNight !== null && usual > allowed) return { allowed, holds: 'all' }
  return { allowed, holds: unusual > 0 && usual + unusual + waiting > allowed ? 'unusual' : 'nothing' }
}

/** A range that a person named: only a figure in the definition stands against that word. */
export const judgeRange = (rule: GuardRule, price: number): NightVerdict => {
  const allowed = rule.creditsPerNight ?? Number.POSITIVE_INFINITY
  return { allowed, holds: price > allowed ? 'all' : 'nothing' }
}

/** Of all that decides what is held: where it differs, what waits is planned anew. */
export const guardDigest = (of: {
  readonly generation: number
  readonly rule: GuardRule | null
  readonly limits: PackLimits
}): string => createHash('sha256').update(JSON.stringify(of)).digest('hex')
