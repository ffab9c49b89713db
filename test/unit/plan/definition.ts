// A definition small enough to plan by hand.
import type { Definition, Dimension } from '../../../src/core/types.ts'

export const dimension = (name: string, values: readonly string[], bucket: number | null = null): Dimension => ({
  name,
  values,
  bucket,
  file: null,
})

export const definitionOf = (dimensions: readonly Dimension[], window: Partial<Definition['window']> = {}): Definition => ({
  file: 'pipelines/visits.yaml',
  pipeline: 'visits',
  version: 1,
  description: 'Visits',
  source: 'web-analytics.report',
  params: {},
  account: 'default',
  dimensions,
  window: {
    every: 'month',
    from: '2026-01-01',
    lookBack: 2,
    fullCheckDays: 30,
    publication: { publishedOn: 10, restatedOn: [10, 15], timeZone: 'Etc/GMT+5' },
    ...window,
  },
  schedule: null,
  columns: [],
  key: [],
  indexes: [],
  limits: {
    pageSize: 1000,
    maxPages: 10,
    concurrency: 1,
    timeoutMs: 1,
    attempts: 1,
    rejectShare: 0,
    rejectCount: null,
    shrink: 0.5,
    walks: 1,
    pollEveryMs: 1,
    pollMaxMs: 1,
    deadlineMs: 1,
    quotaPerMonth: null,
    quotaPerDay: null,
    maxBodyBytes: 1,
  },
  report: { resubmitUncertain: false, resubmitFailed: false },
  // What a night buys by itself is not what these tests are about; plan-guard.test.ts is.
  guard: null,
  tags: {},
  expect: null,
  tests: [],
  publish: true,
  period: { every: window.every ?? 'month', isInKey: false },
  dimensionTables: [],
})
