import { describe, expect, test } from 'vitest'
import { createCalendar, generationOf, monthsBetween } from '../../../src/sandbox/publication-calendar.ts'

const at = (time: string) =>
  createCalendar(
    () => Date.parse(time),
    () => 24,
  )

describe('the calendar', () => {
  test('a month appears on the 10th of the next, in EST', () => {
    expect(at('2026-02-10T04:59:59Z').latestMonth()).toBe('2025-12')
    expect(at('2026-02-10T05:00:00Z').latestMonth()).toBe('2026-01')
    expect(at('2026-01-09T12:00:00Z').latestMonth()).toBe('2025-11')
  })

  test('summer time does not move it', () => {
    expect(at('2026-07-10T04:59:59Z').latestMonth()).toBe('2026-05')
    expect(at('2026-07-10T05:00:00Z').latestMonth()).toBe('2026-06')
  })

  test('history reaches so many months back', () => {
    expect(at('2026-02-10T12:00:00Z').earliestMonth()).toBe('2024-02')
  })

  test('volume and prices settle on the 14th, which is an update', () => {
    const before = at('2026-02-13T12:00:00Z')
    expect(before.isSettled('2026-01')).toBe(false)
    expect(before.lastUpdated(['2026-01'], 'a.example')).toBe('2026-02-10')
    const after = at('2026-02-14T12:00:00Z')
    expect(after.isSettled('2026-01')).toBe(true)
    expect(after.lastUpdated(['2026-01'], 'a.example')).toBe('2026-02-14')
  })

  test('a restatement moves the date of that month alone, also the second one of a day', () => {
    const calendar = at('2026-06-20T12:00:00Z')
    calendar.restate('2026-01')
    expect(calendar.lastUpdated(['2026-01'], 'a.example')).toBe('2026-06-20')
    expect(calendar.lastUpdated(['2026-02'], 'a.example')).toBe('2026-03-14')
    calendar.restate('2026-01')
    expect(calendar.lastUpdated(['2026-01'], 'a.example')).toBe('2026-06-21')
    expect(calendar.generations().get('2026-01')).toBe(2)
  })

  test('a revision of one domain moves its date alone', () => {
    const calendar = at('2026-06-20T12:00:00Z')
    calendar.restate('2026-01', 'a.example')
    const dates = ['a.example', 'b.example'].map((domain) => calendar.lastUpdated(['2026-01'], domain))
    expect(dates).toEqual(['2026-06-20', '2026-02-14'])
    const counts = ['a.example', 'b.example'].map((domain) => generationOf(calendar.generations(), '2026-01', domain))
    expect(counts).toEqual([1, 0])
  })

  test('a snapshot of the restatements does not change', () => {
    const calendar = at('2026-06-20T12:00:00Z')
    const before = calendar.generations()
    calendar.restate('2026-01')
    expect(before.size).toBe(0)
  })

  test('months are listed with both ends', () => {
    expect(monthsBetween('2025-11', '2026-02')).toEqual(['2025-11', '2025-12', '2026-01', '2026-02'])
  })
})
