// A definition and a ledger small enough to plan by hand.
import type { Definition, Dimension, Slice, UnitState } from '../../../src/core/types.ts'
import { windowAt } from '../../../src/core/window.ts'
import { type ExistingUnit, type PlanRequest, planUnits } from '../../../src/plan/plan.ts'
import { unitKey } from '../../../src/core/unit-key.ts'

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
  publish: true,
})

/** Noon UTC of a day, in milliseconds. */
export const noon = (day: string): number => Date.parse(`${day}T12:00:00Z`)

export const existing = (month: string, slice: Slice, state: UnitState, loadedOn: string | null = null): ExistingUnit => {
  const window = windowAt(`${month}-01`, 'month')
  const loadedAtMs = loadedOn === null ? null : noon(loadedOn)
  return {
    unit: { key: unitKey('visits', 1, window, slice), pipeline: 'visits', version: 1, window, slice },
    state,
    edition: 1,
    loadedAtMs,
  }
}

export const plan = (definition: Definition, units: readonly ExistingUnit[], request: Partial<PlanRequest> = {}) =>
  planUnits({ definition, kind: 'report', existing: units, nowMs: noon('2026-04-20'), mode: 'due', ...request })

/** `key reason`, with a `+` where a new edition begins; the key without its pipeline and version. */
export const lines = (result: ReturnType<typeof plan>): string[] =>
  result.units.map(({ key, reason, newEdition }) => `${key.replace('visits/v1/', '')} ${reason}${newEdition ? ' +' : ''}`)

export const months = (from: string, to: string) => ({ from: `${from}-01`, to: `${to}-01` })
