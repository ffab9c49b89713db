// Judges whether restated rows show a new method of the service: a change far beyond what is usual for the table, by median and spread. Pure.
import type { MethodBreak, Restated as RestatedOf } from '../ledger/breaks.ts'

/** When it was found does not matter here. */
export type Restated = Omit<RestatedOf, 'runId' | 'seenMs'>

/** A new method changes at least this share of a window, and by `leastSize`; less is no break, whatever is usual. */
const leastShare = 0.75
/** Where at most one window shows what is usual: at least this share, or this part of the change in one direction (`oneWay`). */
const leastShareAlone = 0.9
const oneWay = 0.5
const leastSize = 0.01
/** The share of any window that may be restated; among few rows far more may be, by chance. */
const plainShare = 0.3
/** How far beyond the median, in standard deviations as the median of deviations estimates them. */
const deviations = 5
const perDeviation = 1.4826
/** By this factor a break exceeds the largest restatements of nine in ten windows. */
const margin = 1.25
/** Sizes are compared where at least so many windows show what is usual. */
const fewSizes = 3
/** By how many standard errors the share of few units must exceed what is usual. */
const chances = 1.5
/** How many usual sizes a sum may drift by chance, over the root of the units; and by which factor it must exceed the largest usual drift. */
const driftChances = 2.5
const driftMargin = 1.25
/** A column belongs to a break if it changed by as much, give or take this part of it. */
const likeness = 0.5

/**
 * The break that a run shows; null: it restated as usual. @param usual what earlier runs found restated of the same pipeline, breaks left out;
 * they cover a month at least, so that a window has settled in them
 */
export const judgeRestated = (run: readonly Restated[], usual: readonly Restated[]): MethodBreak | null => {
  const classOf = ({ column, age }: Restated): string => `${age} ${column}`
  const before = new Map([...Map.groupBy(usual, classOf)].map(([name, all]) => [name, largestOf(all)]))
  const beyond = run.filter((one) => isBeyond(one, before.get(classOf(one)) ?? []))
  const [most] = beyond.toSorted((left, right) => right.share * right.size - left.share * left.size)
  if (most === undefined) return null
  const past = before.get(classOf(most)) ?? []
  return {
    startsOn: beyond.reduce((first, { windowFrom }) => (windowFrom < first ? windowFrom : first), most.windowFrom),
    columns: [...new Set([most.column, ...beyond.map(({ column }) => column)])],
    share: most.share,
    change: changeOf(most),
    usualShare: quantile(past.map(({ share }) => share), 0.5), // biome-ignore format: one look
    usualSize: quantile(past.map(({ size }) => size), 0.5), // biome-ignore format: one look
  }
}

/** The largest restatement of each window: a change that happens to every window once is usual, on however few nights. */
const largestOf = (all: readonly Restated[]): readonly Largest[] =>
  [...Map.groupBy(all, ({ windowFrom }) => windowFrom).values()].map((nights) => ({
    share: Math.max(...nights.map(({ share }) => share)),
    size: Math.max(...nights.map(({ size }) => size)),
    drift: nights.map(driftOf).reduce((most, one) => (Math.abs(one) > Math.abs(most) ? one : most), 0),
  }))

interface Largest extends Pick<Restated, 'share' | 'size'> {
  readonly drift: number
}

/** By how much the whole window went up or down. */
const driftOf = ({ share, shift }: Restated): number => share * shift

/** Whether it is the same change, seen in more of the table: no other break, and no usual restatement. */
export const isOfBreak = (one: Restated, found: Pick<MethodBreak, 'columns' | 'change'>): boolean =>
  found.columns.includes(one.column) && Math.abs(changeOf(one) - found.change) <= likeness * Math.abs(found.change)

/** The change relative to the former value. */
const changeOf = ({ shift }: Pick<Restated, 'shift'>): number => (shift > 0 ? 1 / (1 - Math.min(shift, 0.999)) - 1 : shift)

/**
 * Three ways to differ from what is usual: a larger share of the window than its units let expect, larger changes, or changes all in one direction. A
 * change of 3 % in a window of 12 to 17 rows, of which a third is restated each night by twice as much, may pass for chance in all three.
 */
const isBeyond = (one: Restated, usual: readonly Largest[]): boolean => {
  const { share, size, rows, units } = one
  if (share <= leastShare || size < leastSize) return false
  if (usual.length <= 1 && share <= leastShareAlone && Math.abs(one.shift) < oneWay * size) return false
  const [shares, sizes, drifts] = [usual.map((of) => of.share), usual.map((of) => of.size), usual.map(({ drift }) => drift)]
  const middle = quantile(shares, 0.5)
  const isWide = (of: number): boolean => share - plainShare >= deviations * Math.sqrt((plainShare * (1 - plainShare)) / of)
  if (isWide(units) && share > limitOf(shares) + chances * Math.sqrt((middle * (1 - middle)) / units)) return true
  if (usual.length >= fewSizes && share >= middle && size > limitOf(sizes)) return true
  const drift = Math.abs(driftOf(one) - quantile(drifts, 0.5))
  if (middle > leastShare || drift <= driftMargin * limitOf(drifts.map(Math.abs))) return false
  const isFar = usual.length > 1 && drift > (driftChances * quantile(sizes, 0.5)) / Math.sqrt(units)
  return isFar || (isWide(rows) && share > limitOf(shares))
}

/** The limit that usual figures stay below. */
const limitOf = (usual: readonly number[]): number => {
  const median = quantile(usual, 0.5)
  const spread = quantile(usual.map((one) => Math.abs(one - median)), 0.5) // biome-ignore format: one look
  return Math.max(margin * quantile(usual, 0.9), median + deviations * perDeviation * spread)
}

/** 0 where there are none. */
const quantile = (values: readonly number[], at: number): number =>
  values.toSorted((left, right) => left - right)[Math.max(0, Math.ceil(at * values.length) - 1)] ?? 0
