// Learns prices from bills: which kinds of price explain all bills of a dataset, and what the next purchase costs by each of them. Pure.

/** How much a purchase asked for, and how much came. null: not known. */
export interface PurchaseSize {
  /** Most rows that the request allows. */
  readonly rowsAsked: number | null
  readonly rows: number | null
  readonly metrics: number
  /** Combinations of values and periods: the units of a report, 1 of a page. */
  readonly values: number
}

/** What a walk over so many rows costs: full pages, and a last page for the rest. @param rows null: not known, one page is assumed */
export const walkCredits = (known: KnownPrice, rows: number | null, pageSize: number): CreditRange | null => {
  const left = Math.max(0, Math.round((rows ?? pageSize) - pageSize))
  const pageOf = (count: number, asked = count) => creditsFor(known, { rowsAsked: asked, rows: count, metrics: 1, values: 1 })
  const first = pageOf(Math.min(rows ?? pageSize, pageSize), pageSize)
  const full = Math.floor(left / pageSize)
  return addRanges(first, multiplyRange(pageOf(pageSize), full), left % pageSize === 0 ? free : pageOf(left % pageSize))
}

const free: CreditRange = { low: 0, high: 0, likely: 0 }

export const multiplyRange = (range: CreditRange | null, count: number): CreditRange | null =>
  range === null
    ? null
    : { low: range.low * count, high: range.high * count, likely: range.likely === null ? null : range.likely * count }

/** The sum; null where one of the ranges is not known. */
export const addRanges = (...all: readonly (CreditRange | null)[]): CreditRange | null =>
  all.reduce(
    (sum, one) =>
      sum === null || one === null
        ? null
        : {
            low: sum.low + one.low,
            high: sum.high + one.high,
            likely: sum.likely === null || one.likely === null ? null : sum.likely + one.likely,
          },
    free,
  )

/** What one purchase cost, as the service said it. */
export interface Bill {
  readonly size: PurchaseSize
  readonly credits: number
  /** `answer`: the price came with the answer; `balance`: the difference of two balances, read before and after. Default `answer`. */
  readonly saidIn?: 'answer' | 'balance'
}

/** The price of a bill; null where it cannot be right: below 0, or NaN (the service sent no number). */
export const readableBill = (credits: number | null): number | null =>
  credits !== null && Number.isFinite(credits) && credits >= 0 ? credits : null

/** @param what was bought */
export const unreadableBill = (what: string, credits: number): string =>
  `${what}: the service says that it cost ${Number.isFinite(credits) ? `${credits} credits` : 'what is no number'}. It is recorded as unknown; ask the service.`

/** A price that no bill proves: a setting of the account, or what other accounts paid. */
export interface NamedPrice {
  readonly basis: PriceBasis
  readonly credits: number
  /** The least that one purchase costs. Default 0. */
  readonly minimum?: number
}

/** All that is known of the price of one dataset. */
export interface KnownPrice {
  /** Oldest first. None contradicts another. */
  readonly bills: readonly Bill[]
  /** From a setting: used until the first bill. */
  readonly stated: NamedPrice | null
  /** What other accounts paid: the bounds of a price that is not known, never the price itself. */
  readonly seen: readonly NamedPrice[]
}

/** Every bill comes from the balance, and no purchase changed the balance. */
const isUnmoved = (bills: readonly Bill[]): boolean =>
  bills.length > 0 && bills.every(({ credits, saidIn }) => credits === 0 && saidIn === 'balance')

/** Whether the bills give one price for such a purchase, however many rows it brings. */
export const isPriceCertain = (known: KnownPrice, size: PurchaseSize): boolean =>
  known.bills.some(({ saidIn }) => saidIn !== 'balance') ||
  (known.bills.length > 0 &&
    [size.rowsAsked, 1].every((rows) => {
      const range = creditsFor(known, { ...size, rows })
      return range !== null && range.likely !== null && range.high - range.low <= Math.max(tiny, 0.005 * range.high)
    }))

/** Credits. */
export interface CreditRange {
  readonly low: number
  readonly high: number
  /** null: not known; the bounds come from what other accounts paid. */
  readonly likely: number | null
}

/** What purchases of a pipeline cost. */
export interface PipelinePrice {
  readonly kind: 'walk' | 'report'
  /** Credits of one unit; null: unknown. */
  readonly unit: CreditRange | null
}

type Rounding = 'up' | 'nearest' | 'none'

/** One kind of price that explains the bills, with the range of rates that would have led to the same bills. */
type Fit = NonNullable<ReturnType<typeof fitOf>>

/** Bills have six decimals at most; a smaller difference is rounding. */
const tiny = 1e-6
export const rounded = (credits: number): number => Number(credits.toFixed(6))

/** What a price counts. These kinds were seen at services; several may explain the bills so far. The first that does is the likely one. */
const counted = {
  'row asked': ({ rowsAsked }) => rowsAsked,
  row: ({ rows }) => rows,
  'row and metric': ({ rows, metrics }) => (rows === null ? null : rows * metrics),
  'row and its metrics': ({ rows, metrics }) => (rows === null ? null : rows * (metrics + 1)),
  'value and metric': ({ values, metrics }) => values * metrics,
  value: ({ values }) => values,
  request: () => 1,
} satisfies Readonly<Record<string, (size: PurchaseSize) => number | null>>

type PriceBasis = keyof typeof counted
export const priceBases = Object.keys(counted) as readonly PriceBasis[]

/** The range of credits that, rounded, gives the bill. */
const before = (credits: number, rounding: Rounding): readonly [low: number, high: number] | null => {
  if (rounding === 'none') return [credits, credits]
  if (!Number.isInteger(credits)) return null
  return rounding === 'up' ? [credits - 1 + 10 * tiny, credits] : [credits - 0.5, credits + 0.5 - 10 * tiny]
}

/** null: no rate of that kind explains all of the bills. */
const fitOf = (bills: readonly Bill[], basis: PriceBasis, rounding: Rounding, minimum: number) => {
  let low = 0
  let high = Number.POSITIVE_INFINITY
  const billOf = new Map<number, number>()
  for (const { size, credits } of bills) {
    const count = counted[basis](size)
    const span = before(credits, rounding)
    if (count === null || count === 0 || span === null) return null
    if ((billOf.get(count) ?? credits) !== credits) return null
    billOf.set(count, credits)
    high = Math.min(high, span[1] / count)
    if (credits > minimum) low = Math.max(low, span[0] / count)
  }
  return low > high * 1.0001 ? null : { basis, rounding, low: Math.min(low, high), high, minimum }
}

const roundings: readonly Rounding[] = ['up', 'nearest', 'none']

/** Every kind of price that explains all bills; a kind with a minimum only where the kind without one does not. */
const fitsOf = (bills: readonly Bill[]): Fit[] => {
  const least = Math.min(...bills.map(({ credits }) => credits))
  return priceBases.flatMap((basis) =>
    roundings.flatMap((rounding) => {
      const fit = fitOf(bills, basis, rounding, 0) ?? (bills.length > 1 ? fitOf(bills, basis, rounding, least) : null)
      return fit === null ? [] : [fit]
    }),
  )
}

const roundBy = { up: (value: number) => Math.ceil(value - tiny), nearest: Math.round, none: rounded }

const chargeOf = ({ basis, rounding, minimum }: Fit, rate: number, size: PurchaseSize): number | null => {
  const count = counted[basis](size)
  return count === null ? null : roundBy[rounding](Math.max(minimum, rate * count))
}

const namedCharge = ({ basis, credits, minimum = 0 }: NamedPrice, size: PurchaseSize): number | null => {
  const count = counted[basis](size)
  return count === null ? null : rounded(Math.max(minimum, credits * count))
}

const within = (all: readonly (number | null)[]): { readonly low: number; readonly high: number } | null => {
  const known = all.filter((one) => one !== null)
  return known.length === 0 ? null : { low: Math.min(...known), high: Math.max(...known) }
}

/** What a purchase of that size costs; null: not known. A purchase without rows costs nothing (fact 11). */
export const creditsFor = ({ bills, stated, seen }: KnownPrice, size: PurchaseSize): CreditRange | null => {
  if (size.rows === 0) return { low: 0, high: 0, likely: 0 }
  if (bills.length === 0) {
    const credits = stated === null ? null : namedCharge(stated, size)
    if (credits !== null) return { low: credits, high: credits, likely: credits }
    const range = within(seen.map((price) => namedCharge(price, size)))
    return range === null ? null : { ...range, likely: null }
  }
  const fits = fitsOf(bills)
  const charges = fits.flatMap((fit) => [chargeOf(fit, fit.low, size), chargeOf(fit, fit.high, size)])
  // An unchanged balance may be late, or belong to other credits: pages may be free, or cost what other accounts paid.
  if (isUnmoved(bills)) {
    const range = within([0, ...charges, ...seen.map((price) => namedCharge(price, size))])
    return range === null ? null : { ...range, likely: null }
  }
  const range = within(charges)
  const likely = fits.map((fit) => chargeOf(fit, fit.high, size)).find((credits) => credits !== null)
  return range === null || likely === undefined ? null : { ...range, likely }
}

/** Whether one price explains all bills. A bill of 0 for 0 rows fits every price. */
export const fitOnePrice = (bills: readonly Bill[]): boolean => {
  const said = bills.filter(({ size, credits }) => size.rows !== 0 || credits !== 0)
  return said.length === 0 || fitsOf(said).length > 0
}

/** `expected`: the bill adds nothing. `contradicts`: it does not fit the price known so far, which then no longer counts. */
type Lesson = 'expected' | 'new' | 'contradicts'

/** What a bill adds to the known price. A bill for no rows adds nothing. */
export const classifyBill = (known: KnownPrice, bill: Bill): Lesson => {
  const { size, credits } = bill
  if (size.rows === 0 || (credits === 0 && isUnmoved(known.bills))) return 'expected'
  const range = creditsFor(known, size)
  const fitsIn = range !== null && credits >= range.low - tiny && credits <= range.high + tiny
  if (known.bills.length === 0) return known.stated === null || isAsStated(range, credits) ? 'new' : 'contradicts'
  if (fitsIn && range.high - range.low <= Math.max(tiny, 0.005 * credits)) return 'expected'
  if (fitsOf([...known.bills, bill]).length === 0) return 'contradicts'
  return fitsIn && known.bills.length >= mostBills ? 'expected' : 'new'
}

/** With so many bills, one more that fits is not kept. */
const mostBills = 12

const isAsStated = (range: CreditRange | null, credits: number): boolean =>
  range !== null && Math.abs(range.high - credits) <= Math.max(1, 0.01 * credits)

/** For people: `0.13 a row asked`, `10 a request`. Several kinds of price may still fit; null: not known. */
export const priceWords = ({ bills, stated }: KnownPrice): string | null => {
  if (bills.length === 0) return stated === null ? null : wordsOf(stated.credits, stated.basis)
  const fits = fitsOf(bills)
  const [first] = fits
  if (first === undefined) return null
  const others = [...new Set(fits.map(({ basis }) => basis))].filter((basis) => basis !== first.basis)
  return `${wordsOf(first.high, first.basis)}${others.length === 0 ? '' : ` (the bills so far also fit a price by the ${others.join(' or by the ')})`}`
}

const wordsOf = (credits: number, basis: PriceBasis): string => `${Number(credits.toPrecision(4))} a ${basis}`
