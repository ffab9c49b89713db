// How many jobs a process fetches at once, and what becomes of those it did not begin.
import { beforeEach, describe, expect, test } from 'vitest'
import { createJobSupply, type JobSupply } from '../../../src/pipeline/job-supply.ts'
import type { UnitJob } from '../../../src/pipeline/queue.ts'

let now: number
let left: number
let asked: number[]
let returned: number[]
let supply: JobSupply

beforeEach(() => {
  now = 0
  left = 100
  asked = []
  returned = []
  const queue = {
    fetch: async (count: number): Promise<UnitJob[]> => {
      asked.push(count)
      const some = Math.min(count, left)
      left -= some
      return Array.from({ length: some }, (_, index) => ({ id: `${left + index}`, attempt: 0, unitId: left + index, runId: 1 }))
    },
    giveBack: async (jobs: readonly UnitJob[]): Promise<void> => void returned.push(jobs.length),
  }
  supply = createJobSupply(queue, { now: () => now })
})

describe('a supply of jobs', () => {
  test('fetches no more than there is room for while units take long, or nobody knows', async () => {
    expect(await supply.take(4)).toHaveLength(4)
    supply.took(60_000)
    expect(await supply.take(1)).toHaveLength(1)
    expect(asked).toEqual([4, 1])
  })

  test('fetches ahead while units are short, and hands on what it has before it asks again', async () => {
    supply.took(10)
    const handed: UnitJob[] = []
    for (let unit = 0; unit < 17; unit += 1) handed.push(...(await supply.take(1)))
    expect(asked).toEqual([17])
    expect(new Set(handed.map(({ id }) => id)).size).toBe(17)
    expect(supply.waiting()).toHaveLength(0)
    await supply.take(2)
    expect(asked).toEqual([17, 18])
    expect(supply.waiting()).toHaveLength(16)
  })

  test('hands on what is left, then nothing', async () => {
    left = 3
    supply.took(10)
    expect(await supply.take(2)).toHaveLength(2)
    expect(await supply.take(2)).toHaveLength(1)
    expect(await supply.take(2)).toHaveLength(0)
  })

  test('gives back what waited too long, and is careful after that', async () => {
    supply.took(10)
    await supply.take(1)
    now = 900
    await supply.giveBack(1_000)
    expect(returned).toEqual([])
    now = 1_100
    await supply.giveBack(1_000)
    expect(returned).toEqual([16])
    expect(supply.waiting()).toHaveLength(0)
    await supply.take(1)
    expect(asked).toEqual([17, 1])
  })

  test('forgets what somebody else has by now', async () => {
    supply.took(10)
    await supply.take(1)
    const [lost] = supply.waiting()
    if (lost === undefined) throw new Error('nothing waits')
    supply.forget([lost])
    expect(supply.waiting()).toHaveLength(15)
    expect(await supply.take(16)).not.toContain(lost)
  })
})
