// Who is told of a cause, and when they want to be left alone.
import { describe, expect, test } from 'vitest'
import type { Cause } from '../../../../src/core/alarm.ts'
import type { QuietHours, Route } from '../../../../src/core/alarm-routes.ts'
import { quietForMs, receiversOf } from '../../../../src/schedule/notify/send-alarms.ts'

const route = (to: readonly string[], more: Partial<Route> = {}): Route => ({
  to,
  kinds: null,
  severities: null,
  pipelines: null,
  tags: {},
  at: '',
  ...more,
})
const cause = (more: Partial<Cause> = {}): Cause => ({
  cause: 'failure/keywords',
  kind: 'failure',
  pipeline: 'keywords',
  message: 'm',
  details: {},
  ...more,
})
const tags = { keywords: { client: 'acme', team: 'seo' } }
const told = (routes: readonly Route[], of: Cause): readonly string[] =>
  receiversOf(routes, of, (pipeline) => (pipeline === 'keywords' ? tags.keywords : {}))

describe('a route', () => {
  test('that says nothing matches everything, and a receiver of several is told once', () => {
    expect(told([route(['a', 'b']), route(['b', 'c'])], cause())).toEqual(['a', 'b', 'c'])
  })
  test('matches by kind, severity, pipeline and every tag', () => {
    expect(told([route(['a'], { kinds: ['held'] })], cause())).toEqual([])
    expect(told([route(['a'], { kinds: ['held', 'failure'] })], cause())).toEqual(['a'])
    expect(told([route(['a'], { severities: ['critical'] })], cause())).toEqual([])
    expect(told([route(['a'], { severities: ['critical'] })], cause({ severity: 'critical' }))).toEqual(['a'])
    expect(told([route(['a'], { severities: ['critical'] })], cause({ kind: 'late' }))).toEqual(['a'])
    expect(told([route(['a'], { pipelines: ['other'] })], cause())).toEqual([])
    expect(told([route(['a'], { tags: { client: 'acme', team: 'seo' } })], cause())).toEqual(['a'])
    expect(told([route(['a'], { tags: { client: 'acme', team: 'ads' } })], cause())).toEqual([])
  })
  test('for some pipelines or tags does not match what concerns no single pipeline', () => {
    const none = cause({ pipeline: null, kind: 'quota' })
    expect(
      told([route(['a'], { pipelines: ['keywords'] }), route(['b'], { tags: { client: 'acme' } }), route(['c'])], none),
    ).toEqual(['c'])
  })
})

const quiet: QuietHours = { hours: { from: 20 * 60, to: 7 * 60 }, days: [6, 7], timeZone: 'Europe/Berlin', but: ['critical'] }
const hours = (at: string, of: QuietHours = quiet): number => quietForMs(of, 'error', Date.parse(at)) / 3_600_000

describe('quiet hours', () => {
  test('last over midnight, and over days that are quiet as a whole', () => {
    // A Wednesday: 19:59, 20:00 and 06:59 in Berlin.
    expect(hours('2026-11-18T18:59:00Z')).toBe(0)
    expect(hours('2026-11-18T19:00:00Z')).toBe(11)
    expect(hours('2026-11-19T05:59:00Z')).toBeCloseTo(1 / 60)
    expect(hours('2026-11-19T06:00:00Z')).toBe(0)
    // Friday 21:00: through Saturday and Sunday to Monday 07:00.
    expect(hours('2026-11-20T20:00:00Z')).toBe(58)
    expect(hours('2026-11-22T12:00:00Z')).toBe(18)
  })
  test('end by the wall clock where daylight saving begins', () => {
    // Saturday 28 March 2026, 21:00 in Berlin; Sunday has 23 hours.
    const nights = { ...quiet, days: [] }
    expect(hours('2026-03-28T20:00:00Z', nights)).toBe(9)
  })
  test('keep nobody from what is critical, and nothing from going where they never end', () => {
    expect(quietForMs(quiet, 'critical', Date.parse('2026-11-20T20:00:00Z'))).toBe(0)
    expect(quietForMs(null, 'info', 0)).toBe(0)
    expect(hours('2026-11-20T20:00:00Z', { ...quiet, days: [1, 2, 3, 4, 5, 6, 7] })).toBe(0)
  })
})
