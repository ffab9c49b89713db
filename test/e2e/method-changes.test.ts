// Fifty seeded changes of method over the three shipped tables, each in a warehouse of its own.
import { expect, test } from 'vitest'
import { playChange } from '../support/method-changes.ts'

/** The first of so many seeds. */
const first = Number(process.env['MILLRACE_METHOD_SEED'] ?? 1)
const changes = Number(process.env['MILLRACE_METHOD_CHANGES'] ?? 50)

test('each is noticed in its first night in all three tables, at the price of a quiet night, and no night before', async () => {
  const missed: string[] = []
  for (let seed = first; seed < first + changes; seed += 1) {
    const world = await playChange(seed).catch((error: unknown) => {
      missed.push(String(error))
      return null
    })
    await world?.close()
  }
  expect(missed).toEqual([])
}, 3_600_000)
