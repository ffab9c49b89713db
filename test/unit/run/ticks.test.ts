// Ticks of a schedule around daylight saving, in zones that shift by an hour, by half an hour, and not at all.
import { describe, expect, test } from 'vitest'
import { nextTicks, ticksBetween } from '../../../src/plan/ticks.ts'

const schedule = (cron: string, timeZone: string) => ({ cron, timeZone, overlap: 'queue', catchUp: 'last' }) as const
const ticks = (cron: string, zone: string, from: string, to: string): string[] =>
  ticksBetween(schedule(cron, zone), Date.parse(from), Date.parse(to)).map((ms) => new Date(ms).toISOString())

describe('ticks', () => {
  test('a time that daylight saving skips runs once, right after the gap', () => {
    // Berlin, 29 March 2026: 02:00 to 03:00 does not exist.
    expect(ticks('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', '2026-03-30T12:00:00Z')).toHaveLength(2)
    const [skipped, next] = ticks('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', '2026-03-30T12:00:00Z')
    expect(Date.parse(skipped ?? '')).toBeGreaterThanOrEqual(Date.parse('2026-03-29T01:00:00Z'))
    expect(Date.parse(skipped ?? '')).toBeLessThanOrEqual(Date.parse('2026-03-29T01:30:00Z'))
    expect(next).toBe('2026-03-30T00:30:00.000Z')
  })

  test('a time that is repeated runs once', () => {
    // Berlin, 25 October 2026: 02:00 to 03:00 comes twice.
    const found = ticks('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', '2026-10-26T12:00:00Z')
    expect(found).toHaveLength(2)
    expect(found[1]).toBe('2026-10-26T01:30:00.000Z')
  })

  test('the same over a shift of half an hour', () => {
    // Lord Howe, 4 October 2026: 02:00 to 02:30 does not exist; 5 April 2026: 01:30 to 02:00 comes twice.
    expect(ticks('15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00:00Z', '2026-10-05T00:00:00Z')).toHaveLength(2)
    expect(ticks('45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T00:00:00Z', '2026-04-06T00:00:00Z')).toHaveLength(2)
  })

  test('the days around a shift have one tick each in every zone', { timeout: 120_000 }, () => {
    for (const [zone, from, to] of [
      ['Europe/Berlin', '2026-03-27', '2026-03-31'],
      ['Europe/Berlin', '2026-10-23', '2026-10-27'],
      ['America/New_York', '2026-03-06', '2026-03-10'],
      ['America/New_York', '2026-10-30', '2026-11-03'],
      ['Asia/Kolkata', '2026-03-27', '2026-03-31'],
    ] as const)
      expect(ticks('30 2 * * *', zone, `${from}T12:00:00Z`, `${to}T12:00:00Z`).length, `${zone} ${from}`).toBe(4)
  })

  test('a schedule of every hour ticks by the hour, whatever the clock says', () => {
    expect(ticks('0 * * * *', 'Europe/Berlin', '2026-10-24T22:30:00Z', '2026-10-25T04:30:00Z')).toHaveLength(6)
    expect(ticks('0 * * * *', 'Europe/Berlin', '2026-03-28T22:30:00Z', '2026-03-29T04:30:00Z')).toHaveLength(6)
  })

  test('a schedule of every second hour, too, runs right after a gap and once in an hour that is repeated', () => {
    const hours = (from: string, to: string) => ticks('0 */2 * * *', 'Europe/Berlin', from, to).map((at) => at.slice(11, 16))
    expect(hours('2026-03-28T22:30:00Z', '2026-03-29T04:30:00Z')).toEqual(['23:00', '01:00', '02:00', '04:00'])
    expect(hours('2026-10-24T21:30:00Z', '2026-10-25T05:30:00Z')).toEqual(['22:00', '00:00', '03:00', '05:00'])
  })

  test('the next five are in order, a day apart where nothing shifts', () => {
    const next = nextTicks(schedule('30 2 * * *', 'UTC'), 5, Date.parse('2026-06-01T00:00:00Z'))
    expect(next).toHaveLength(5)
    for (const [at, ms] of next.entries()) if (at > 0) expect(ms - (next[at - 1] ?? 0)).toBe(86_400_000)
  })

  test('the next five hold the time that daylight saving skips, and a day that comes every four years', () => {
    const shown = (cron: string, from: string, count: number) =>
      nextTicks(schedule(cron, 'Europe/Berlin'), count, Date.parse(from)).map((ms) => new Date(ms).toISOString())
    expect(shown('30 2 * * *', '2026-03-28T12:00:00Z', 2)).toEqual(['2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z'])
    expect(shown('0 3 29 2 *', '2026-03-01T00:00:00Z', 2)).toEqual(['2028-02-29T02:00:00.000Z', '2032-02-29T02:00:00.000Z'])
  })

  test('a rare day of a schedule by the hour is found without looking at every minute of the years before it', () => {
    const began = performance.now()
    for (const cron of ['0 */6 29 2 *', '* * 29 2 *']) {
      const [first] = nextTicks(schedule(cron, 'Europe/Berlin'), 5, Date.parse('2026-03-01T00:00:00Z'))
      expect(new Date(first ?? 0).toISOString()).toBe('2028-02-28T23:00:00.000Z')
    }
    expect(performance.now() - began).toBeLessThan(10_000)
  })

  test('a clock that skips midnight ticks once at its end; one that skips a whole day ticks at the next', () => {
    // Cairo, 25 April 2025: 00:00 to 01:00 does not exist. Apia, 30 December 2011 does not exist.
    expect(ticks('30 0 * * *', 'Africa/Cairo', '2025-04-23T12:00:00Z', '2025-04-25T12:00:00Z')).toEqual([
      '2025-04-23T22:30:00.000Z',
      '2025-04-24T22:00:00.000Z',
    ])
    expect(ticks('30 2 * * *', 'Pacific/Apia', '2011-12-29T00:00:00Z', '2011-12-31T00:00:00Z')).toEqual([
      '2011-12-29T12:30:00.000Z',
      '2011-12-30T10:00:00.000Z',
      '2011-12-30T12:30:00.000Z',
    ])
  })
})
