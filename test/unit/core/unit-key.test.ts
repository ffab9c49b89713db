import fc from 'fast-check'
import { expect, test } from 'vitest'
import { windowAt } from '../../../src/core/window.ts'
import { unitKey } from '../../../src/core/unit-key.ts'

const january = windowAt('2026-01-01', 'month')

test('a key reads as pipeline, version, window and slice', () => {
  expect(unitKey('keywords', 1, january, { domain: 'a.com', country: 'us' })).toBe('keywords/v1/2026-01/country=us;domain=a.com')
})

test('a unit without slices has a key of three parts', () => {
  expect(unitKey('keywords', 2, january, {})).toBe('keywords/v2/2026-01')
})

test('the order of dimensions and of values in a bucket does not matter', () => {
  const one = unitKey('p', 1, january, { domain: ['b.com', 'a.com'], country: 'us' })
  expect(one).toBe(unitKey('p', 1, january, { country: 'us', domain: ['a.com', 'b.com'] }))
  expect(one).toBe('p/v1/2026-01/country=us;domain=[a.com,b.com]')
})

test('a long bucket ends in its count and a digest of all its values', () => {
  const domains = Array.from({ length: 100 }, (_, index) => `domain-${index}.com`)
  const key = unitKey('p', 1, january, { domain: domains })
  expect(key).toMatch(/^p\/v1\/2026-01\/domain=\[domain-0\.com\.\.100:[0-9a-f]{32}\]$/)
  expect(unitKey('p', 1, january, { domain: domains.with(50, 'other.com') })).not.toBe(key)
})

test('a bucket of one value is not the value itself', () => {
  expect(unitKey('p', 1, january, { domain: ['a.com'] })).not.toBe(unitKey('p', 1, january, { domain: 'a.com' }))
})

test.each([
  ['[a]', ['a']],
  ['[a,b]', ['a', 'b']],
  [['a,b'], ['a', 'b']],
  [['a%2cb'], ['a,b']],
  ['a%20b', 'a b'],
])('the value %j and the value %j have different keys', (left, right) => {
  expect(unitKey('p', 1, january, { domain: left })).not.toBe(unitKey('p', 1, january, { domain: right }))
})

test('a value cannot pass for another dimension', () => {
  expect(unitKey('p', 1, january, { a: '1;b=2' })).not.toBe(unitKey('p', 1, january, { a: '1', b: '2' }))
})

test('different slices never share a key, whatever characters their values hold', () => {
  const value = fc.string({
    unit: fc.constantFrom('a', ',', ';', '=', '[', ']', '%', '/', ':', ' ', '.', '2', 'c'),
    minLength: 1,
    maxLength: 4,
  })
  const bucket = fc.uniqueArray(value, { minLength: 1, maxLength: 3 })
  const slice = fc.record({ a: fc.oneof(value, bucket), b: fc.oneof(value, bucket) })
  const canonical = (one: object): string =>
    JSON.stringify(Object.entries(one).map(([name, part]) => [name, Array.isArray(part) ? [...part].sort() : part]))
  fc.assert(
    fc.property(slice, slice, (left, right) => {
      expect(unitKey('p', 1, january, left) === unitKey('p', 1, january, right)).toBe(canonical(left) === canonical(right))
    }),
  )
})
