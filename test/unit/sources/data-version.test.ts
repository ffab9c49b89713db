// Where an answer may name the version of its data.
import { expect, test } from 'vitest'
import { isSameFingerprint } from '../../../src/core/completeness.ts'
import { dataVersionIn } from '../../../src/sources/web-analytics/json-answer.ts'

test('a version of data or method is read from meta, or from beside it', () => {
  expect(dataVersionIn({ meta: { data_version: '2026.2' } })).toBe('2026.2')
  expect(dataVersionIn({ meta: { methodology_version: 7, status: 'Success' } })).toBe('7')
  expect(dataVersionIn({ status: 'completed', algorithm_version: 'b' })).toBe('b')
})

test('the version of the API, words of other types and nothing are none', () => {
  for (const body of [
    { meta: { version: '4.0' } },
    { version: 'v5' },
    { meta: null },
    { meta: { data_version: '' } },
    { data_version: { a: 1 } },
    {},
  ])
    expect(dataVersionIn(body)).toBeNull()
})

test('an answer of another version is not the same; one that names none may be', () => {
  const loaded = { lastUpdated: '2026-11-10', count: 5, dataVersion: '1' }
  expect(isSameFingerprint({ ...loaded, dataVersion: '2' }, loaded)).toBe(false)
  expect(isSameFingerprint({ ...loaded, dataVersion: null }, loaded)).toBe(true)
})
