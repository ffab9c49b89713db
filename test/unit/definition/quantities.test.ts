import { expect, test } from 'vitest'
import { duration, percent, rejects, size } from '../../../src/core/limits.ts'

test.each([
  ['500ms', 500],
  ['1.5s', 1500],
  ['5m', 300_000],
  ['6h', 21_600_000],
  ['2d', 172_800_000],
])('%s is %i milliseconds', (text, expected) => expect(duration.parse(text)).toBe(expected))

test.each([
  ['10B', 10],
  ['1.5KB', 1500],
  ['2GB', 2_000_000_000],
  ['1KiB', 1024],
  ['2MiB', 2_097_152],
])('%s is %i bytes', (text, expected) => expect(size.parse(text)).toBe(expected))

test('a share is exact to the digits written', () => {
  expect(['0.1%', '50%', '12.3%', '100%'].map((text) => percent.parse(text))).toEqual([0.001, 0.5, 0.123, 1])
})

test('a share and a count may bound rejects together, in one order', () => {
  expect(rejects.parse('0.1%,100')).toEqual({ rejectShare: 0.001, rejectCount: 100 })
  expect(rejects.parse(5)).toEqual({ rejectShare: 1, rejectCount: 5 })
})
