import { beforeEach, describe, expect, test } from 'vitest'
import type { ReportQuery } from '../../../src/sandbox/report-query.ts'
import { createReports, type Fate, type Report, type ReportStore } from '../../../src/sandbox/report-jobs.ts'

const query: ReportQuery = {
  kind: 'report',
  format: 'csv',
  tables: [
    {
      vtable: 'traffic_and_engagement',
      granularity: 'monthly',
      domains: ['a.example', 'b.example'],
      places: ['WW'],
      includeSubdomains: true,
      metrics: ['all_traffic_visits'],
      dates: ['2026-01-01'],
    },
  ],
}

let elapsed = 0
let store: ReportStore

const buy = (fate: Fate = 'completes', mends = true): Report =>
  store.add({
    query,
    world: { seed: 1, generations: new Map(), reportRows: null, hostile: false, sparse: false, unknown: new Set() },
    fate,
    mends,
    content: new Map(),
    body: {},
    key: 'right',
    caller: null,
    nowMs: 0,
  })

beforeEach(() => {
  elapsed = 0
  store = createReports(
    () => elapsed,
    () => 300,
  )
})

describe('reports', () => {
  test('go from pending over processing to done', () => {
    const report = buy()
    const seen = [0, 99, 100, 299, 300].map((time) => {
      elapsed = time
      return store.phase(report)
    })
    expect(seen).toEqual(['pending', 'pending', 'processing', 'processing', 'done'])
  })

  test('are charged when processing begins, never twice', () => {
    buy()
    expect(store.credits()).toEqual({ charged: 0, reserved: 2 })
    elapsed = 150
    expect(store.credits()).toEqual({ charged: 2, reserved: 0 })
    elapsed = 1000
    expect(store.credits()).toEqual({ charged: 2, reserved: 0 })
  })

  test('that fail or are rejected are given back', () => {
    buy('fails')
    buy('rejected')
    elapsed = 150
    expect(store.credits().charged).toBe(4)
    elapsed = 300
    expect(store.credits().charged).toBe(0)
  })

  test('that are stuck stay open for ever', () => {
    const report = buy('stuck')
    elapsed = 1e9
    expect(store.phase(report)).toBe('processing')
    expect(store.open()).toBe(1)
  })

  test('that failed are made again by a retry, unless nothing mends them', () => {
    const [mended, broken] = [buy('fails'), buy('fails', false)]
    elapsed = 300
    store.retry(mended)
    store.retry(broken)
    expect(store.phase(mended)).toBe('pending')
    elapsed = 600
    expect([store.phase(mended), store.phase(broken)]).toEqual(['done', 'internal_error'])
  })

  test('are reached by their own links alone, until they expire', () => {
    const report = buy()
    const link = new URL(store.link(report, 1000), 'http://sandbox')
    const follow = (url: URL, nowMs = 0): unknown => {
      const found = store.follow(url.pathname, url.searchParams, nowMs)
      return 'refused' in found ? found.refused : found.report.id
    }
    expect(follow(link)).toBe(report.id)
    expect(follow(link, 1001)).toBe(403)
    expect(follow(new URL(link.href.replace('expires=1000', 'expires=2000')))).toBe(403)
    report.expiredThrough = 1
    report.expiredStatus = 410
    expect(follow(link)).toBe(410)
    expect(follow(new URL(store.link(report, 1000), 'http://sandbox'))).toBe(report.id)
  })
})
