// Some minutes of the hostile soak; `npm run soak -- --hostile --minutes 1000` is the whole.
import { expect, test } from 'vitest'
import { runHostileSoak } from '../soak/hostile-soak.ts'

test('a hostile service, a database that hangs, kills and a clock that jumps cost no cell, no key and no purchase', async () => {
  const figures = await runHostileSoak({ minutes: 6, seed: 1, minutesOfBlock: 6, lanes: 1, seconds: 600, note: () => undefined })
  expect(figures.wrong).toEqual([])
  expect(figures.commands).toBeGreaterThan(12)
  expect(figures.cells).toBeGreaterThan(50)
}, 600_000)
