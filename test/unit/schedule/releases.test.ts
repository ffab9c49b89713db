// What a service's word for its newest data means, how often it is looked at, and what it does to the calendar.
import { describe, expect, test } from 'vitest'
import { isPublished, lastRestatementMs } from '../../../src/core/window.ts'
import type { HttpClient } from '../../../src/extract/http-types.ts'
import { pollSecondsOf, wholeUntil } from '../../../src/schedule/release-watch.ts'
import { releases } from '../../../src/sources/web-analytics/release-calendar.ts'

const now = Date.parse('2026-11-08T12:00:00Z')

test.each([
  ['month', '2026-10-31', '2026-10-31'],
  ['month', '2026-10-01', '2026-10-31'],
  // A day within a month is one of a month that is not whole.
  ['month', '2026-10-30', '2026-09-30'],
  ['month', '2026-11-05', '2026-10-31'],
  ['month', '2026-11-30', '2026-10-31'],
  ['day', '2026-11-05', '2026-11-05'],
] as const)('of %s data, %s means up to %s', (every, date, until) => {
  expect(wholeUntil(every, date, now)).toBe(until)
})

test('a month is not over on its last day', () => {
  for (const date of ['2026-11-01', '2026-11-30']) {
    expect(wholeUntil('month', date, Date.parse('2026-11-30T23:59:59Z'))).toBe('2026-10-31')
    expect(wholeUntil('month', date, Date.parse('2026-12-01T00:00:00Z'))).toBe('2026-11-30')
  }
})

test('messages are read in both spellings of dates, and nothing else is one', () => {
  const body = {
    subscription_id: 's',
    latest_data_available: '10/31/2026',
    webhook_event_type: 'Monthly',
    created: '1634629790',
    text: 'x',
  }
  const message = { every: 'month', subscriptionId: 's', availableTo: '2026-10-31' }
  expect(releases.read(body)).toEqual(message)
  expect(releases.read({ ...body, latest_data_available: '2026-10-31', created: 1_634_629_790 })).toEqual(message)
  expect(releases.read({ ...body, webhook_event_type: 'daily' })).toEqual({ ...message, every: 'day' })
  for (const wrong of ['31/10/2026', '2026-02-30', '2026-1-1', 'soon', 20_261_031])
    expect(releases.read({ ...body, latest_data_available: wrong }), String(wrong)).toBeNull()
  for (const wrong of [null, [], 'text', {}, { ...body, webhook_event_type: 'Hourly' }]) expect(releases.read(wrong)).toBeNull()
})

test('a message about a report says that it is still being made only in words that are known', () => {
  expect(releases.isStillMaking({ status: 'processing' })).toBe(true)
  expect(releases.isStillMaking({ event_type: 'report_status', payload: { status: 'Pending' } })).toBe(true)
  for (const body of [{ status: 'completed' }, { status: 'whatever' }, { payload: 'done' }, null, []])
    expect(releases.isStillMaking(body)).toBe(false)
})

test('one date that nobody can have data of yet is passed over: the others of the capabilities count', async () => {
  const family = (to: string) => ({ countries: [], snapshot_interval: { start_date: '2024-01', end_date: to } })
  const newestOf = (...dates: string[]) => {
    const body = JSON.stringify(Object.fromEntries(dates.map((date, index) => [`family_${index}`, family(date)])))
    const unused = (): never => expect.fail('not for capabilities')
    const http = {
      url: () => new URL('https://service/x'),
      origin: 'https://service',
      read: async () => ({ status: 200, contentType: 'application/json', bytes: Buffer.from(body) }),
      download: unused,
    }
    return releases.newest(http as unknown as HttpClient, '2026-11-09')
  }
  expect(await newestOf('2026-10', '2026-09')).toBe('2026-10-31')
  expect(await newestOf('2027-06', '2026-09')).toBe('2026-09-30')
  expect(await newestOf('2026-11-09', '2026-09')).toBe('2026-11-09')
  expect(await newestOf('2126-01')).toBeNull()
})

describe('the capabilities are looked at', () => {
  const every = (known: string | null, today: string, environment = {}) =>
    pollSecondsOf(environment, new Map([['month', known]]), today)
  test('often from the third day on until last month is there, seldom otherwise', () => {
    expect(every('2026-09-30', '2026-11-02')).toBe(600)
    expect(every('2026-09-30', '2026-11-03')).toBeLessThan(60)
    expect(every(null, '2026-11-12')).toBeLessThan(60)
    expect(every('2026-10-31', '2026-11-12')).toBe(600)
    expect(pollSecondsOf({}, new Map([['day', null]]), '2026-11-12')).toBe(600)
  })
  test('as somebody set it, or never', () => {
    expect(every(null, '2026-11-12', { MILLRACE_RELEASE_POLL: '5' })).toBe(5)
    expect(every(null, '2026-11-12', { MILLRACE_RELEASE_POLL: '0' })).toBeNull()
    expect(() => every(null, '2026-11-12', { MILLRACE_RELEASE_POLL: 'often' })).toThrow('MILLRACE_RELEASE_POLL')
  })
})

describe('a release on record', () => {
  const calendar = { publishedOn: 10, restatedOn: [10, 15], timeZone: 'Etc/GMT+5' }
  const october = { from: '2026-10-01', to: '2026-11-01' }
  const november = { from: '2026-11-01', to: '2026-12-01' }
  const early = { ...calendar, released: { availableTo: '2026-10-31', heardMs: Date.parse('2026-11-06T15:00:00Z') } }
  test('publishes its month before the day of the calendar, and no other', () => {
    expect(isPublished(october, calendar, now)).toBe(false)
    expect(isPublished(october, early, now)).toBe(true)
    expect(isPublished(november, early, now)).toBe(false)
  })
  test('before that day counts in its place: the look-back is not asked for again on it', () => {
    const at = (text: string): number => Date.parse(text)
    expect(lastRestatementMs(early, at('2026-11-06T16:00:00Z'))).toBe(at('2026-11-06T15:00:00Z'))
    expect(lastRestatementMs(early, at('2026-11-12T12:00:00Z'))).toBe(at('2026-11-06T15:00:00Z'))
    expect(lastRestatementMs(early, at('2026-11-16T12:00:00Z'))).toBe(at('2026-11-15T05:00:00Z'))
    expect(lastRestatementMs(calendar, at('2026-11-12T12:00:00Z'))).toBe(at('2026-11-10T05:00:00Z'))
  })
  test('after that day adds no day of restatement: it may be heard late, and reports would be bought again for nothing', () => {
    for (const heard of ['2026-11-12T15:00:00Z', '2026-11-17T15:00:00Z']) {
      const late = { ...calendar, released: { availableTo: '2026-10-31', heardMs: Date.parse(heard) } }
      const calendarDay = heard < '2026-11-15' ? '2026-11-10T05:00:00Z' : '2026-11-15T05:00:00Z'
      expect(lastRestatementMs(late, Date.parse(heard) + 3_600_000)).toBe(Date.parse(calendarDay))
    }
  })
})

test('a service that publishes each day: a window is there so many days after its end, and may change on any day', () => {
  const daily = { publishedOn: 10, restatedOn: [], timeZone: 'UTC', afterDays: 2 }
  const third = { from: '2026-11-03', to: '2026-11-04' }
  expect(isPublished(third, daily, Date.parse('2026-11-05T23:59:00Z'))).toBe(false)
  expect(isPublished(third, daily, Date.parse('2026-11-06T00:00:00Z'))).toBe(true)
  expect(lastRestatementMs(daily, Date.parse('2026-11-07T16:00:00Z'))).toBe(Date.parse('2026-11-07T00:00:00Z'))
})
