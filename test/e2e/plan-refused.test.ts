// A report that the service takes in parts only: the plan has it, without a price, and the run loads it.
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

test('what the service takes only month by month is planned and loaded', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-plan-refused-'))
  const db = await createTestDatabase()
  const sandbox = await startSandbox({ requestsPerSecond: null, reportDurationMs: 30, mostMonths: 1 })
  const millrace = (...args: string[]) =>
    runWarm(
      [...args, '--from', '2025-01', '--to', '2025-02'],
      {
        WEB_ANALYTICS_BASE_URL: sandbox.url,
        WEB_ANALYTICS_API_KEY: sandbox.apiKey,
        DATABASE_URL: db.url,
        MILLRACE_HOME: join(folder, 'home'),
      },
      folder,
    )
  try {
    mkdirSync(join(folder, 'pipelines'))
    const file = 'traffic_and_engagement.yaml'
    cpSync(join(pipelinesOfRepository, file), join(folder, 'pipelines', file))
    writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\nb.com\n')
    const plan = await millrace('plan', 'traffic_and_engagement')
    expect(plan.code, plan.stderr).toBe(0)
    expect(plan.stdout).toContain('12 units')
    const load = await millrace('backfill', 'traffic_and_engagement', '--yes')
    expect(load.code, load.stderr).toBe(0)
    expect((await db.database.pool.query('select count(*)::int as n from data.traffic_and_engagement_v1')).rows).toEqual([
      { n: 12 },
    ])
  } finally {
    await sandbox.close()
    await db.drop()
    rmSync(folder, { recursive: true, force: true })
  }
})
