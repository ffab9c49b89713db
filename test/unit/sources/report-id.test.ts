// The id of a report that was paid for is found wherever the answer holds it, and never guessed.
import { expect, test } from 'vitest'
import { reportIdIn } from '../../../src/sources/web-analytics/batch.ts'

test.each([
  [{ report_id: 'a', status: 'pending' }, 'a'],
  [{ id: 7 }, '7'],
  [{ reportId: 'a' }, 'a'],
  [{ data: { report_id: 'a' } }, 'a'],
  [{ response: { reportId: 'a' }, meta: { status: 'Success' } }, 'a'],
  [[{ report_id: 'a' }], 'a'],
  // The same one twice is one.
  [{ data: { id: 'a' }, report: { report_id: 'a' } }, 'a'],
  [{ report_id: 'a', user: { id: 'b' } }, 'a'],
  // Whose is it?
  [{ report: { id: 'a' }, user: { id: 'b' } }, null],
  [{ a: { b: { report_id: 'deep' } } }, null],
  [{ report_id: '' }, null],
  ['a', null],
  [null, null],
])('in %j', (body, id) => {
  expect(reportIdIn(body)).toBe(id)
})
