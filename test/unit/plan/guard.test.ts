// The guard's arithmetic, the pace of budgets and the forecast.
import { describe, expect, test } from 'vitest'
import { unitsStillToCome } from '../../../src/core/forecast.ts'
import { judgeNight, judgeRange, verdictOn } from '../../../src/plan/guard.ts'
import { lastPurchaseDay, type BudgetRoom } from '../../../src/plan/spread-backfill.ts'
import { definitionOf } from './definition.ts'

const none = { dearest: 0, usual: 0, beyond: 0 }
const night = {
  rule: { creditsPerNight: null, factor: 2 },
  usual: 0,
  unusual: 0,
  waiting: 0,
  report: 0,
  pipeline: none,
  account: none,
}

/** The only pipeline of its account. */
const alone = (past: Partial<typeof none>) => ({ pipeline: { ...none, ...past }, account: { ...none, ...past } })

describe('a night', () => {
  test.each([
    ['twice the dearest night', { ...alone({ dearest: 50 }), usual: 40, unusual: 60 }, 'nothing'],
    ['a credit more', { ...alone({ dearest: 50 }), usual: 40, unusual: 61 }, 'unusual'],
    ['twice its own usual part', { ...alone({ dearest: 10 }), usual: 50, unusual: 50 }, 'nothing'],
    ['the price of one report', { report: 30, unusual: 30 }, 'nothing'],
    ['more than one report', { report: 30, unusual: 31 }, 'unusual'],
    ['little, beside what waits already', { report: 30, unusual: 5, waiting: 30 }, 'unusual'],
    ['nothing new, however dear', { usual: 1_000_000 }, 'nothing'],
    ['nothing at all', {}, 'nothing'],
    [
      'what was bought within 24 hours, too',
      { ...alone({ dearest: 50, usual: 30, beyond: 40 }), usual: 10, unusual: 20 },
      'nothing',
    ],
    ['and a credit more', { ...alone({ dearest: 50, usual: 30, beyond: 40 }), usual: 10, unusual: 21 }, 'unusual'],
    [
      'what others of the account bought',
      { pipeline: none, account: { dearest: 50, usual: 50, beyond: 45 }, report: 30, unusual: 6 },
      'unusual',
    ],
    [
      'a large pipeline beside a small one',
      { pipeline: { ...none, dearest: 5 }, account: { ...none, dearest: 500 }, unusual: 11 },
      'unusual',
    ],
  ] as const)('of %s', (_, price, holds) => {
    expect(judgeNight({ ...night, ...price }).holds).toBe(holds)
  })

  test('has a limit of 0, and none below, where others of the account bought more than it', () => {
    const account = { dearest: 50, usual: 50, beyond: 57 }
    expect(judgeNight({ ...night, account, report: 30, unusual: 6 })).toEqual({ allowed: 0, holds: 'unusual' })
  })

  test('with a figure of its own is bound by that alone', () => {
    const rule = { creditsPerNight: 100, factor: 2 }
    expect(judgeNight({ ...night, rule, usual: 10, unusual: 90 })).toEqual({ allowed: 100, holds: 'nothing' })
    expect(judgeNight({ ...night, rule, usual: 10, unusual: 91, ...alone({ dearest: 1_000 }) }).holds).toBe('unusual')
    expect(judgeNight({ ...night, rule, usual: 101 }).holds).toBe('all')
    expect(judgeNight({ ...night, rule: { ...rule, creditsPerNight: 0 }, usual: 1 }).holds).toBe('all')
    expect(judgeNight({ ...night, rule, usual: 41, ...alone({ usual: 40, beyond: 20 }) }).holds).toBe('all')
    const ranges = [judgeRange(rule, 100, 0), judgeRange(rule, 101, 0), judgeRange(rule, 60, 41), judgeRange(night.rule, 1e9, 0)]
    expect(ranges.map(({ holds }) => holds)).toEqual(['nothing', 'all', 'all', 'nothing'])
  })
})

describe('a backlog', () => {
  const free: BudgetRoom = { perMonth: null, perDay: null, leftToday: Infinity, leftThisMonth: Infinity, kept: 0, sharers: 1 }
  test.each([
    ['within what is left today', 100, [{ ...free, perDay: 100, leftToday: 100 }], '2026-11-22'],
    ['of three days', 250, [{ ...free, perDay: 100, leftToday: 50 }], '2026-11-24'],
    ['shared by two', 250, [{ ...free, perDay: 100, leftToday: 50, sharers: 2 }], '2026-11-26'],
    ['beyond the month', 150, [{ ...free, perMonth: 100, leftThisMonth: 20 }], '2027-01-01'],
    ['beside what nights take', 150, [{ ...free, perMonth: 100, leftThisMonth: 20, kept: 60 }], '2027-03-01'],
    [
      'under two budgets',
      90,
      [
        { ...free, perDay: 30, leftToday: 30 },
        { ...free, perMonth: 1_000, leftThisMonth: 40 },
      ],
      '2026-12-02',
    ],
    ['that no month has room for', 10, [{ ...free, perMonth: 100, leftThisMonth: 0, kept: 100 }], null],
  ] as const)('%s', (_, credits, paces, day) => {
    expect(lastPurchaseDay(credits, paces, '2026-11-22')).toBe(day)
  })
})

describe('the nights to come', () => {
  const at = (iso: string): number => Date.parse(`${iso}T12:00:00Z`)
  const unitsFrom = (day: string, window: Parameters<typeof definitionOf>[1] = {}): number =>
    unitsStillToCome(definitionOf([], window).window, 300, at(day), at(day))
  test('are the days of publication and restatement that are left of the month', () => {
    expect(['2026-11-01', '2026-11-12', '2026-11-22'].map((day) => unitsFrom(day))).toEqual([1_200, 600, 0])
  })

  test('of a pipeline that looks back at nothing are those of publication', () => {
    expect(['2026-11-01', '2026-11-12'].map((day) => unitsFrom(day, { lookBack: 0 }))).toEqual([300, 0])
  })

  test('a day that the month does not have is its last one', () => {
    const publication = { publishedOn: 31, restatedOn: [], timeZone: 'UTC' }
    expect(['2026-02-27', '2026-02-28'].map((day) => unitsFrom(day, { publication }))).toEqual([600, 0])
  })
})

describe('where nobody knows a price', () => {
  const nothing = { dearest: 0, usual: 0, beyond: 0 }
  const facts = {
    pipeline: nothing,
    account: nothing,
    named: 0,
    report: null,
    mode: 'due',
    fullReport: 10,
    waiting: null,
  } as const
  const units = (usual: number, beyond: number) =>
    [
      { reason: 'new', wantedBy: 'night', units: usual },
      { reason: 'new', wantedBy: 'beyond', units: beyond },
    ] as const

  test('units are compared with units', () => {
    const rule = { creditsPerNight: null, factor: 2 }
    expect(verdictOn({ ...facts, rule }, units(20, 20), null)?.holds).toBe('nothing')
    expect(verdictOn({ ...facts, rule }, units(20, 21), null)?.holds).toBe('unusual')
  })

  test('a figure of credits is no measure of them: everything waits for a person', () => {
    const rule = { creditsPerNight: 1_000, factor: 2 }
    expect(verdictOn({ ...facts, rule }, units(1, 0), null)).toEqual({ allowed: 1_000, holds: 'all' })
    expect(verdictOn({ ...facts, rule }, units(1, 0), 5)?.holds).toBe('nothing')
    expect(verdictOn({ ...facts, rule }, [], null)?.holds).toBe('nothing')
  })
})
