import fc from 'fast-check'
import { validate } from 'node-cron'
import { expect, test } from 'vitest'
import { cronProblem } from '../../../src/definition/compile.ts'

test.each(['* * * * *', '*/5 0-6,22 1 jan-mar MON', '0 0 29 2 *', '0 12 * * 7', '5-59/10 * * * *', '0 0 1 january Sunday'])(
  '%s is a schedule',
  (text) => {
    expect(cronProblem(text)).toBeNull()
  },
)

test.each([
  ['', /0 field|1 field/],
  ['0 30 2 * * *', /6 field\(s\), expected 5/],
  ['60 * * * *', /'60' is not a minute/],
  ['* * 0 * *', /'0' is not a day of the month/],
  ['* * * 13 *', /'13' is not a month/],
  ['* * * * 8', /'8' is not a weekday/],
  ['* * * * montag', /'montag' is not a weekday/],
  ['5/10 * * * *', /'5\/10' is not a minute/],
  ['1-2-3 * * * *', /is not a minute/],
  ['*/0 * * * *', /is not a minute/],
  ['1, * * * *', /is not a minute/],
  ['-1 * * * *', /is not a minute/],
  ['@daily', /1 field/],
  ['0 0 31 2 mon', /day 31 never comes/],
  ['0 0 31 4,6 *', /day 31 never comes/],
])('%j is none', (text, message) => {
  expect(cronProblem(text)).toMatch(message)
})

test('what passes here is understood by the scheduler', () => {
  const number = fc.integer({ min: 0, max: 61 }).map(String)
  const range = fc.tuple(number, number).map((ends) => ends.join('-'))
  const item = fc.oneof(number, range, fc.constantFrom('*', 'mon', 'feb', 'sunday', '*/5', '1-5/2', '5/2'))
  const field = fc.array(item, { minLength: 1, maxLength: 2 }).map((items) => items.join(','))
  fc.assert(
    fc.property(field, fc.nat(4), field, fc.nat(4), (one, at, other, otherAt) => {
      const text = ['*', '*', '*', '*', '*'].with(at, one).with(otherAt, other).join(' ')
      if (cronProblem(text) === null) expect([text, validate(text)]).toEqual([text, true])
    }),
    { numRuns: 2000 },
  )
})
