// What a service charges, as its bills tell it: which kinds of price fit all of them, and what the next purchase would cost by each of those. Pure.

/** How much was asked for and came. null: unknown. */
export interface PurchaseSize {
  /** The most rows that were asked for. */
  readonly rowsAsked: number | null
  readonly rows: number | null
  readonly metrics: number
  /** Combinations of values and periods: the units of a report, 1 of a page. */
  readonly values: number
}

/** What a walk over so many rows costs: full pages, and a last one that asks for what is left. @param rows null: not known, a page is taken */
export const walkCredits = (known: PriceKnown, rows: number | null, pageSize: number): CreditRange | null => {
  const left = Math.max(0, Math.round((rows ?? pageSize) - pageSize))
  const pageOf = (count: number, asked = count) => creditsFor(known, { rowsAsked: asked, rows: count, metrics: 1, values: 1 })
  const first = pageOf(Math.min(rows ?? pageSize, pageSize), pageSize)
  const full = Math.floor(left / pageSize)
  return add(first, times(pageOf(pageSize), full), left % pageSize === 0 ? free : pageOf(left % pageSize))
}

const free: CreditRange = { low: 0, high: 0, likely: 0 }

export const times = (range: CreditRange | null, count: number): CreditRange | null =>
  range === null
    ? null
    : { low: range.low * count, high: range.high * count, likely: range.likely === null ? null : range.likely * count }

/** null: one of them is unknown. */
export const add = (...all: readonly (CreditRange | null)[]): CreditRange | null =>
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

/** What one purchase cost, by the service's own word. */
export interface Bill {
  readonly size: PurchaseSize
  readonly credits: number
  /** Where it stood: with the answer, or in two readings of the balance around it. Default answer. */
  readonly saidIn?: 'answer' | 'balance'
}

/** What a purchase cost, where that can be: a bill below 0, or NaN for what is no number, says nothing. */
export const readableBill = (credits: number | null): number | null =>
  credits !== null && Number.isFinite(credits) && credits >= 0 ? credits : null

/** @param what was bought */
export const unreadableBill = (what: string, credits: number): string =>
  `${what}: the service says that it cost ${Number.isFinite(credits) ? `${credits} credits` : 'what is no number'}. It is booked as unknown; ask the service.`

/** A price that somebody names: a setting of the account, or what others were seen to pay. */
export interface NamedPrice {
  readonly basis: PriceBasis
  readonly credits: number
  /** The least that one purchase costs. Default 0. */
  readonly minimum?: number
}

/** All that is known of the price of one dataset. */
export interface PriceKnown {
  /** Oldest first. None contradicts another. */
  readonly bills: readonly Bill[]
  /** By a setting: it counts until there is a bill. */
  readonly stated: NamedPrice | null
  /** What others were seen to pay: says how far off an unknown price may be, and is never taken for a price. */
  readonly seen: readonly NamedPrice[]
}

/** The balance was read, and no page moved it. */
const isUnmoved = (bills: readonly Bill[]): boolean =>
  bills.length > 0 && bills.every(({ credits, saidIn }) => credits === 0 && saidIn === 'balance')

/** Whether the bills leave no two readings of what such a purchase costs, however many rows it brings. */
export const isSettled = (known: PriceKnown, size: PurchaseSize): boolean =>
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
  /** null: not known; there is only what others paid. */
  readonly likely: number | null
}

/** What purchases of a pipeline cost. */
export interface PipelinePrice {
  readonly kind: 'walk' | 'report'
  /** Credits of one unit; null: unknown. */
  readonly unit: CreditRange | null
}

type Rounding = 'up' | 'nearest' | 'none'

/** One kind of price that fits, with all rates that would have led to the same bills. */
type Fit = NonNullable<ReturnType<typeof fitOf>>

/** Bills have six decimals at most; what differs by less is the same. */
const tiny = 1e-6
export const exact = (credits: number): number => Number(credits.toFixed(6))

/** What a price counts. The kinds that were met at services; several may fit the bills seen so far. The first that fits is taken for the likely one. */
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

/** Credits before rounding that would have become the bill. */
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

/** Every kind of price that explains all of the bills; where one without a least bill does, that one. */
const fitsOf = (bills: readonly Bill[]): Fit[] => {
  const least = Math.min(...bills.map(({ credits }) => credits))
  return priceBases.flatMap((basis) =>
    roundings.flatMap((rounding) => {
      const fit = fitOf(bills, basis, rounding, 0) ?? (bills.length > 1 ? fitOf(bills, basis, rounding, least) : null)
      return fit === null ? [] : [fit]
    }),
  )
}

const rounded = { up: (value: number) => Math.ceil(value - tiny), nearest: Math.round, none: exact }

const chargeOf = ({ basis, rounding, minimum }: Fit, rate: number, size: PurchaseSize): number | null => {
  const count = counted[basis](size)
  return count === null ? null : rounded[rounding](Math.max(minimum, rate * count))
}

const namedCharge = ({ basis, credits, minimum = 0 }: NamedPrice, size: PurchaseSize): number | null => {
  const count = counted[basis](size)
  return count === null ? null : exact(Math.max(minimum, credits * count))
}

const within = (all: readonly (number | null)[]): { readonly low: number; readonly high: number } | null => {
  const known = all.filter((one) => one !== null)
  return known.length === 0 ? null : { low: Math.min(...known), high: Math.max(...known) }
}

/** What a purchase of that size costs, as far as it is known; null: unknown. What brings no rows costs nothing (fact 11). */
export const creditsFor = ({ bills, stated, seen }: PriceKnown, size: PurchaseSize): CreditRange | null => {
  if (size.rows === 0) return { low: 0, high: 0, likely: 0 }
  if (bills.length === 0) {
    const credits = stated === null ? null : namedCharge(stated, size)
    if (credits !== null) return { low: credits, high: credits, likely: credits }
    const range = within(seen.map((price) => namedCharge(price, size)))
    return range === null ? null : { ...range, likely: null }
  }
  const fits = fitsOf(bills)
  const charges = fits.flatMap((fit) => [chargeOf(fit, fit.low, size), chargeOf(fit, fit.high, size)])
  // A balance that has not moved yet may be late, or no balance of this purse: pages may be free, or cost what others paid.
  if (isUnmoved(bills)) {
    const range = within([0, ...charges, ...seen.map((price) => namedCharge(price, size))])
    return range === null ? null : { ...range, likely: null }
  }
  const range = within(charges)
  const likely = fits.map((fit) => chargeOf(fit, fit.high, size)).find((credits) => credits !== null)
  return range === null || likely === undefined ? null : { ...range, likely }
}

/** One price explains all of the bills. What brought nothing and cost nothing explains itself. */
export const agree = (bills: readonly Bill[]): boolean => {
  const said = bills.filter(({ size, credits }) => size.rows !== 0 || credits !== 0)
  return said.length === 0 || fitsOf(said).length > 0
}

/** `expected`: it says nothing new. `contradicts`: what was known before is over. */
type Lesson = 'expected' | 'new' | 'contradicts'

/** What a bill adds to what is known. A bill for no rows says nothing. */
export const lessonOf = (known: PriceKnown, bill: Bill): Lesson => {
  const { size, credits } = bill
  if (size.rows === 0 || (credits === 0 && isUnmoved(known.bills))) return 'expected'
  const range = creditsFor(known, size)
  const fitsIn = range !== null && credits >= range.low - tiny && credits <= range.high + tiny
  if (known.bills.length === 0) return known.stated === null || isAsStated(range, credits) ? 'new' : 'contradicts'
  if (fitsIn && range.high - range.low <= Math.max(tiny, 0.005 * credits)) return 'expected'
  if (fitsOf([...known.bills, bill]).length === 0) return 'contradicts'
  return fitsIn && known.bills.length >= mostBills ? 'expected' : 'new'
}

/** More tell nothing more. */
const mostBills = 12

const isAsStated = (range: CreditRange | null, credits: number): boolean =>
  range !== null && Math.abs(range.high - credits) <= Math.max(1, 0.01 * credits)

/** As people read it: `0.13 a row asked`, `10 a request`. Several kinds may still fit; null: not known. */
export const priceWords = ({ bills, stated }: PriceKnown): string | null => {
  if (bills.length === 0) return stated === null ? null : wordsOf(stated.credits, stated.basis)
  const fits = fitsOf(bills)
  const [first] = fits
  if (first === undefined) return null
  const others = [...new Set(fits.map(({ basis }) => basis))].filter((basis) => basis !== first.basis)
  return `${wordsOf(first.high, first.basis)}${others.length === 0 ? '' : ` (or by the ${others.join(', by the ')}: the bills so far do not tell)`}`
}

const wordsOf = (credits: number, basis: PriceBasis): string => `${Number(credits.toPrecision(4))} a ${basis}`
