// Half a minute of the soak; `npm run soak -- --minutes 60` is the whole.
import { expect, test } from 'vitest'
import { courseOf, isFlat } from '../soak/figures.ts'
import { runSoak } from '../soak/soak.ts'

test('a scheduler, workers, readers and restatements under kills of PostgreSQL end with the truth, and nothing is bought twice', async () => {
  const figures = await runSoak({
    minutes: 0.4,
    jobs: 10,
    workers: 1,
    killEveryMs: 8_000,
    sampleEveryMs: 2_000,
    logs: null,
    note: () => undefined,
  })
  expect(figures.wrong).toEqual([])
  expect(figures.kills).toBeGreaterThan(0)
  expect(figures.restatements).toBeGreaterThan(0)
  expect(figures.rows).toBeGreaterThan(100)
}, 600_000)

test('what grows by more than a quarter is not flat', () => {
  const steady = courseOf(Array.from({ length: 40 }, (_, index) => 100 + (index % 3)))
  expect(isFlat(steady, 0)).toBe(true)
  expect(isFlat(courseOf(Array.from({ length: 40 }, (_, index) => 100 + index * 3)), 5)).toBe(false)
})
