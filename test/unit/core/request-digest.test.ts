import { expect, test } from 'vitest'
import { requestDigest } from '../../../src/core/request-digest.ts'
import { definitionOf, dimension } from '../plan/definition.ts'

const asked = definitionOf([dimension('domain', ['a.com'])])

test('another version, list, window or metric asks the same; another parameter, source or size of window does not', () => {
  const same = [
    { ...asked, version: 2, pipeline: 'other' },
    definitionOf([dimension('domain', ['b.com'])], { from: '2020-01-01', lookBack: 5 }),
    { ...asked, params: {} },
  ]
  expect(new Set([asked, ...same].map(requestDigest)).size).toBe(1)
  const others = [
    { ...asked, params: { granularity: 'daily' } },
    { ...asked, source: 'web-analytics.keywords' },
    definitionOf(asked.dimensions, { every: 'day' }),
  ]
  expect(new Set([asked, ...others].map(requestDigest)).size).toBe(4)
})

test('the order of parameters does not matter', () => {
  expect(requestDigest({ ...asked, params: { a: 1, b: 2 } })).toBe(requestDigest({ ...asked, params: { b: 2, a: 1 } }))
})
