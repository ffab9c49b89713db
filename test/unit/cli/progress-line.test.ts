// How far the work at hand is, in one line.
import { expect, test } from 'vitest'
import { createProgressLine } from '../../../src/cli/progress-bar.ts'
import { createProgress } from '../../../src/run/progress.ts'

const plan = (progress: ReturnType<typeof createProgress>, line: ReturnType<typeof createProgressLine>, units: number): void => {
  progress.counters.unitsPlanned += units
  line.planned(units)
}

test('the time left is what the units still to do take at the pace of those done', () => {
  let now = 0
  const progress = createProgress()
  const line = createProgressLine(progress, () => now)
  plan(progress, line, 40)
  expect(line.text()).toContain('0/40 units')
  expect(line.text()).toContain('time left ?')
  now = 10_000
  Object.assign(progress.counters, { unitsDone: 10, rowsRead: 5_000, pages: 20 })
  expect(line.text()).toBe('10/40 units, time left 30.0 s, 5,000 rows (500/s), 20 answers')
})

test('a scheduler’s second run is counted by itself, and one that overlaps the first together with it', () => {
  let now = 0
  const progress = createProgress()
  const line = createProgressLine(progress, () => now)
  plan(progress, line, 4)
  Object.assign(progress.counters, { unitsDone: 4, rowsRead: 400 })
  // A day later.
  now = 86_400_000
  plan(progress, line, 2)
  expect(line.share()).toEqual({ done: 0, planned: 2 })
  now += 1_000
  Object.assign(progress.counters, { unitsDone: 5, rowsRead: 450 })
  expect(line.text()).toBe('1/2 units, time left 1.0 s, 50 rows (50/s)')
  plan(progress, line, 3)
  expect(line.share()).toEqual({ done: 1, planned: 5 })
})

test('jobs that cover more units than the run asked for, as replays of packed answers do, never make it more than done', () => {
  const progress = createProgress()
  let at = 0
  const line = createProgressLine(progress, () => at)
  Object.assign(progress.counters, { unitsPlanned: 72 })
  line.planned(72)
  Object.assign(progress.counters, { unitsDone: 88 })
  at = 60_000
  expect(line.text()).toContain('72/72 units, time left 0.0 s')
  expect(line.share()).toEqual({ done: 72, planned: 72 })
})
