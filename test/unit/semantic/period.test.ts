// The period of a question that would cut a row: the refusal names whole rows that hold all of it.
import { expect, test } from 'vitest'
import type { Subject } from '../../../src/definition/semantic.ts'
import { spanOf } from '../../../src/semantic/period.ts'

const weekly = { name: 'weekly_traffic', time: { column: 'date', grains: ['week'] } } as unknown as Subject

const insteadOf = (from: string, to: string): unknown => {
  try {
    return spanOf(weekly, { period: { from, to } })
  } catch (error) {
    return Reflect.get(error as Error, 'instead')
  }
}

test.each([
  ['2026-01', '2026-03', '2025-12-29 to 2026-04-05'],
  ['2026-01-06', '2026-01-20', '2026-01-05 to 2026-01-25'],
  ['2026-01-06', '2026-01-25', '2026-01-05 to 2026-01-25'],
])('from %s to %s cuts weeks: the refusal offers the weeks that hold it', (from, to, whole) => {
  expect(insteadOf(from, to)).toEqual([`give the period in whole weeks, such as ${whole}`])
})
