// The exit code of a run: 0 only where everything there was to do is done.
import { expect, test } from 'vitest'
import { exitCodeOf } from '../../../src/cli/summary.ts'
import { emptySummary } from '../../../src/ledger/runs.ts'
import type { RunResult } from '../../../src/run/run-jobs.ts'

const result: RunResult = {
  runId: 1,
  summary: emptySummary,
  seconds: 1,
  requestsSaved: 0,
  passed: 0,
  unanswered: 0,
  notPublished: { units: 0, windows: [], expectedOn: null },
  listsNotObeyed: 0,
  state: 'done',
}
const withUnits = (units: Partial<RunResult['summary']['units']>): RunResult => ({
  ...result,
  summary: { ...emptySummary, units: { ...emptySummary.units, ...units } },
})

test.each([
  ['nothing left', result, 0],
  ['units that failed', withUnits({ failed: 1 }), 1],
  ['units that are held', withUnits({ held: 1 }), 1],
  ['a service that did not answer', { ...result, unanswered: 1 }, 1],
  ['a list that was not obeyed', { ...result, listsNotObeyed: 1 }, 1],
  ['units that wait, at night', withUnits({ waiting: 1 }), 0],
  ['a cancelled run', { ...result, state: 'cancelled' as const }, 1],
  ['an interrupted run', { ...result, state: 'interrupted' as const }, 130],
])('%s: the exit code of a night says so', (_, of, code) => {
  expect(exitCodeOf(of, true)).toBe(code)
})
