// Machines whose clocks are wrong, beside one whose clock is right; again: `node test/outsider/run.ts --only clocks`.
import { expect, test } from 'vitest'
import { tryWrongClock, wrongClocks } from './hosts.ts'
import { sampleDatabases } from './own-databases.ts'

test.each(wrongClocks)(
  'a machine whose clock is %f hours ahead claims nothing too often, holds nothing up and buys nothing twice',
  async (hours) => {
    expect(await tryWrongClock(sampleDatabases, hours)).toEqual([])
  },
)
