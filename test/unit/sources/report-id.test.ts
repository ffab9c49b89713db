// The id of a report that was paid for is found wherever the answer holds it, and never guessed.
import { expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { silentLog } from '../../../src/core/log.ts'
import type { HttpClient } from '../../../src/extract/http-types.ts'
import { reportIdIn } from '../../../src/sources/web-analytics/batch.ts'
import { jsonOf } from '../../../src/sources/web-analytics/json-answer.ts'
import { listReports } from '../../../src/sources/web-analytics/discovery.ts'

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

test('that is a number of 64 bits has every digit it was sent with, in an answer and in the list of reports', async () => {
  const answerOf = (body: string) => ({ status: 200, contentType: 'application/json', bytes: Buffer.from(body) })
  const answer = answerOf('{"report_id":7296412345678901234,"used_quota":3}')
  expect(reportIdIn(jsonOf(answer, '/report'))).toBe('7296412345678901234')
  expect(jsonOf(answer, '/report')).toMatchObject({ used_quota: 3 })
  const list = answerOf('[{"id":7296412345678901235,"created_at":"2026-11-01T00:00:00Z"}]')
  expect(
    (
      await listReports(
        listedBy(async () => list),
        0,
      )
    )?.map(({ reportId }) => reportId),
  ).toEqual(['7296412345678901235'])
})

test('a 404 for a later page of the list is the end of it, and the list is asked for again the next time', async () => {
  const asked: string[] = []
  const context = listedBy(async ({ url }) => {
    const offset = url?.searchParams.get('offset') ?? ''
    asked.push(offset)
    const entries = Array.from({ length: 100 }, (_, at) => ({ id: `r${at}`, created_at: '2026-11-01T00:00:00Z' }))
    return { status: offset === '0' ? 200 : 404, contentType: 'application/json', bytes: Buffer.from(JSON.stringify(entries)) }
  })
  for (const _ of [1, 2]) expect(await listReports(context, 0)).toHaveLength(100)
  expect(asked).toEqual(['0', '100', '0', '100'])
})

test('a service that gives fewer reports at a time than it is asked for is asked from where its page ended', async () => {
  const ids = Array.from({ length: 120 }, (_, at) => ({ id: `r${at}`, created_at: '2026-11-01T00:00:00Z' }))
  const context = listedBy(async ({ url }) => {
    const offset = Number(url?.searchParams.get('offset'))
    return { status: 200, contentType: 'application/json', bytes: Buffer.from(JSON.stringify(ids.slice(offset, offset + 50))) }
  })
  expect(await listReports(context, 0)).toHaveLength(120)
})

test.each(['newest', 'oldest'])('what was submitted since a moment is found in a list with the %s first', async (first) => {
  const ids = Array.from({ length: 250 }, (_, at) => ({ id: `r${at}`, created_at: new Date(at * 86_400_000).toISOString() }))
  if (first === 'newest') ids.reverse()
  const asked: string[] = []
  const context = listedBy(async ({ url }) => {
    const offset = Number(asked[asked.push(url?.searchParams.get('offset') ?? '') - 1])
    const body = JSON.stringify(ids.slice(offset, offset + 100))
    return { status: 200, contentType: 'application/json', bytes: Buffer.from(body) }
  })
  expect((await listReports(context, 240 * 86_400_000))?.map(({ reportId }) => reportId).sort()).toEqual(
    Array.from({ length: 10 }, (_, at) => `r${240 + at}`),
  )
  if (first === 'newest') expect(asked).toEqual(['0'])
})

const listedBy = (read: HttpClient['read']) => {
  const http: HttpClient = {
    url: (_, path) => new URL(path, 'https://service.test'),
    origin: 'https://service.test',
    read,
    download: () => Promise.reject(new Error('nothing is downloaded')),
  }
  return { http, log: silentLog, clock: systemClock, signal: AbortSignal.timeout(5_000) }
}
