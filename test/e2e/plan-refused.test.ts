// A report that the service takes in parts only: the plan has it, without a price, and the run loads it.
import { expect, test } from 'vitest'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const { millrace: command, query } = sandboxWorld({
  copied: ['pipelines/traffic_and_engagement.yaml'],
  lists: { domains: ['a.com', 'b.com'] },
  sandbox: { reportDurationMs: 30, mostMonths: 1 },
})

test('what the service takes only month by month is planned and loaded', async () => {
  const millrace = (...args: string[]) => command(...args, '--from', '2025-01', '--to', '2025-02')
  const plan = await succeeded(millrace('plan', 'traffic_and_engagement'))
  expect(plan.stdout).toContain('12 units')
  await succeeded(millrace('backfill', 'traffic_and_engagement', '--yes'))
  expect(await query('select count(*)::int as n from data.traffic_and_engagement_v1')).toEqual([{ n: 12 }])
})
