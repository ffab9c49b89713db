// How many jobs a process claims at once, and what becomes of those it did not begin.
import { beforeEach, describe, expect, test } from 'vitest'
import { createJobSupply, type JobSupply } from '../../../src/run/job-supply.ts'
import type { ClaimedJob } from '../../../src/ledger/claim.ts'

const jobNumber = (jobId: number): ClaimedJob => ({
  jobId,
  fence: '1',
  holder: 1,
  kind: 'walk',
  reason: 'new',
  pipelineId: 1,
  pipeline: 'traffic',
  version: 1,
  windowEvery: 'month',
  box: {
    key: 'traffic/v1/2026-01',
    pipeline: 'traffic',
    version: 1,
    window: { from: '2026-01-01', to: '2026-02-01' },
    slice: {},
  },
  sliceIds: [1],
  cells: 1,
  runId: 1,
  orphan: false,
  attempts: 1,
  forced: false,
  released: false,
  askNumber: '1',
  answer: null,
  loaded: null,
  account: 'default',
  endpoint: null,
})

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
  const source = {
    claim: async (count: number): Promise<ClaimedJob[]> => {
      asked.push(count)
      const some = Math.min(count, left)
      left -= some
      return Array.from({ length: some }, (_, index) => jobNumber(left + index))
    },
    giveBack: async (jobs: readonly ClaimedJob[]): Promise<void> => void returned.push(jobs.length),
  }
  supply = createJobSupply(source, { now: () => now })
})

describe('a supply of jobs', () => {
  test('claims no more than there is room for while units take long, or nobody knows', async () => {
    expect(await supply.take(4)).toHaveLength(4)
    supply.took(60_000)
    expect(await supply.take(1)).toHaveLength(1)
    expect(asked).toEqual([4, 1])
  })

  test('claims ahead while units are short, and hands on what it has before it asks again', async () => {
    supply.took(10)
    const handed: ClaimedJob[] = []
    for (let unit = 0; unit < 17; unit += 1) handed.push(...(await supply.take(1)))
    expect(asked).toEqual([17])
    expect(new Set(handed.map(({ jobId }) => jobId)).size).toBe(17)
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
