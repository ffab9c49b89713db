import { describe, expect, test } from 'vitest'
import {
  type Bill,
  creditsFor,
  classifyBill,
  type KnownPrice,
  type PurchaseSize,
  priceWords,
} from '../../../src/core/learned-price.ts'
import { chargeFor, type Price, priceBases } from '../../../src/sandbox/vendor/vendor-prices.ts'

const page = (rowsAsked: number, rows = rowsAsked, metrics = 1): PurchaseSize => ({ rowsAsked, rows, metrics, values: 1 })
const known = (...bills: readonly Bill[]): KnownPrice => ({ bills, stated: null, seen: [] })

/** As the sandbox, which another hand wrote, counts the same purchase. */
const vendorSize = ({ rowsAsked, rows, metrics, values }: PurchaseSize) => ({
  rowsAsked: rowsAsked ?? 0,
  rows: rows ?? 0,
  metrics,
  periods: values,
})

const random = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

/** A price list of the service: any shape, 0.01 to 10 a row, some with a least bill. */
const priceOf = (seed: number): Price => {
  const next = random(seed * 7_919)
  const of = <One>(list: readonly One[]): One => list[Math.floor(next() * list.length)] ?? (list[0] as One)
  return {
    by: of(priceBases),
    credits: Number((10 ** (next() * 3 - 2)).toFixed(3)),
    minimum: next() < 0.3 ? Math.ceil(next() * 20) : 0,
    rounding: of(['up', 'nearest', 'none'] as const),
  }
}

/** What is known after such bills, as the ledger keeps it. */
const learn = (bills: readonly Bill[]): KnownPrice =>
  bills.reduce<KnownPrice>((before, bill) => {
    const lesson = classifyBill(before, bill)
    if (lesson === 'expected') return before
    return known(...(lesson === 'contradicts' ? [] : before.bills), bill)
  }, known())

const lists = process.env['PRICE_LISTS'] === undefined ? 200 : Number(process.env['PRICE_LISTS'])

describe('a price is what the bills say', () => {
  test(`after the first bill the next purchase of its size is known to the credit, by ${lists} price lists`, () => {
    for (let seed = 1; seed <= lists; seed += 1) {
      const price = priceOf(seed)
      for (const size of [page(100), page(1_000), page(100, 60), { rowsAsked: 300, rows: 240, metrics: 6, values: 40 }]) {
        const credits = chargeFor(price, vendorSize(size))
        if (credits === 0) continue
        expect(creditsFor(learn([{ size, credits }]), size), JSON.stringify({ price, size })).toMatchObject({ likely: credits })
      }
    }
  })

  test('what any later purchase costs lies in the range, and none of an unchanged list contradicts', () => {
    for (let seed = 1; seed <= lists; seed += 1) {
      const price = priceOf(seed)
      const next = random(seed)
      let before = known()
      for (let purchase = 0; purchase < 30; purchase += 1) {
        const asked = 100 * Math.ceil(0.01 + next() * 20)
        const size = page(asked, Math.ceil(0.01 + asked * next()), 1 + Math.floor(next() * 6))
        const credits = chargeFor(price, vendorSize(size))
        const lesson = classifyBill(before, { size, credits })
        expect(lesson, JSON.stringify({ price, size, credits, before })).not.toBe('contradicts')
        if (lesson === 'new') before = known(...before.bills, { size, credits })
      }
      const last = page(1_500, 700, 3)
      const [credits, range] = [chargeFor(price, vendorSize(last)), creditsFor(before, last)]
      expect(range?.low, JSON.stringify({ price, credits, range })).toBeLessThanOrEqual(credits + 1e-6)
      expect(range?.high, JSON.stringify({ price, credits, range })).toBeGreaterThanOrEqual(credits - 1e-6)
    }
  })

  test('another price is noticed at its first bill, and counts from there on', () => {
    for (let seed = 1; seed <= lists; seed += 1) {
      const price = priceOf(seed)
      const size = page(1_000)
      const [was, is] = [chargeFor(price, vendorSize(size)), 3 * chargeFor(price, vendorSize(size)) + 1]
      if (was === 0) continue
      const before = learn([{ size, credits: was }])
      expect(classifyBill(before, { size, credits: is })).toBe('contradicts')
      expect(creditsFor(learn([...before.bills, { size, credits: is }]), size)).toMatchObject({ likely: Number(is.toFixed(6)) })
    }
  })

  test('one bill cannot tell a flat price from one by the row; a page of another size can', () => {
    const size = page(100)
    const one = known({ size, credits: 13 })
    expect(creditsFor(one, page(50))).toEqual({ low: 6, high: 13, likely: 7 })
    const two = known({ size, credits: 13 }, { size: page(50), credits: 7 })
    expect(creditsFor(two, page(200))).toMatchObject({ low: 25, likely: 26 })
    expect(priceWords(two)).toMatch(/^0\.13 a row asked/)
    const flat = known({ size, credits: 10 }, { size: page(25), credits: 10 })
    expect(creditsFor(flat, page(1_000))).toMatchObject({ low: 10 })
  })

  test('without a bill a price is what a setting says, else unknown, with the range of what others paid', () => {
    const seen = [
      { basis: 'row asked', credits: 0.08 },
      { basis: 'request', credits: 10 },
    ] as const
    expect(creditsFor({ bills: [], stated: null, seen }, page(100))).toEqual({ low: 8, high: 10, likely: null })
    expect(creditsFor(known(), page(100))).toBeNull()
    const stated = { basis: 'row asked', credits: 0.13 } as const
    expect(creditsFor({ bills: [], stated, seen }, page(100))?.likely).toBeCloseTo(13)
    expect(classifyBill({ bills: [], stated, seen }, { size: page(100), credits: 13 })).toBe('new')
    expect(classifyBill({ bills: [], stated, seen }, { size: page(100), credits: 200 })).toBe('contradicts')
  })

  test('what brings no rows costs nothing and says nothing', () => {
    expect(classifyBill(known(), { size: page(100, 0), credits: 0 })).toBe('expected')
    expect(creditsFor(known({ size: page(100), credits: 13 }), page(100, 0))).toMatchObject({ likely: 0 })
  })
})
