// A daily table of the shipped source beside the shipped pipelines: migrated, loaded, restated, published, and in the way of nothing.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository, summaryOf } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

test('a daily report is migrated and published with the whole repository and loads its days; what cannot be its window is named with its line', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-daily-'))
  for (const name of ['pipelines', 'marts', 'semantic'])
    cpSync(join(pipelinesOfRepository, '..', name), join(folder, name), { recursive: true })
  const monthly = readFileSync(join(folder, 'pipelines', 'traffic_and_engagement.yaml'), 'utf8')
  const daily = monthly
    .replace('pipeline: traffic_and_engagement', 'pipeline: daily_traffic')
    .replace('granularity: monthly', 'granularity: daily')
    .replace('poll_every: 5s', 'poll_every: 1s')
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\n')
  const db = await createTestDatabase()
  const sandbox = await startSandbox({ requestsPerSecond: null, reportDurationMs: 0, keywordsPerDomain: 10, now: '2026-11-20' })
  const file = join(folder, 'pipelines', 'daily_traffic.yaml')
  const begin = (...args: string[]) => {
    const environment = {
      WEB_ANALYTICS_BASE_URL: sandbox.url,
      WEB_ANALYTICS_API_KEY: sandbox.apiKey,
      DATABASE_URL: db.url,
      MILLRACE_HOME: join(folder, 'home'),
    }
    return runWarm([...args, '--json'], environment, folder)
  }
  const run = async (...args: string[]) => {
    const result = await begin(...args)
    expect(result.code, `${args.join(' ')}\n${result.stdout}\n${result.stderr}`).toBe(0)
    return result
  }
  writeFileSync(file, daily.replace('every: month', 'every: day'))
  const refused = await begin('migrate')
  expect([refused.code, refused.stderr]).toEqual([
    2,
    expect.stringMatching(/daily_traffic\.yaml:10:\d+: .*write every: month or week/),
  ])
  writeFileSync(file, daily)
  await run('new', 'migration', 'daily_traffic')
  await run('migrate')
  await run('check', '--offline')
  const month = ['--from', '2026-09', '--to', '2026-09', '--yes']
  // Days without visits have no row.
  expect(summaryOf(await run('backfill', 'daily_traffic', ...month)).rows).toMatchObject({
    inserted: expect.toSatisfy((rows) => rows > 80),
  })
  await run('backfill', 'keywords', 'traffic_and_engagement', 'shopper_category_performance', ...month)
  sandbox.restate('2026-09')
  expect(summaryOf(await run('backfill', 'daily_traffic', ...month, '--force')).units).toMatchObject({
    loaded: 3,
    failed: 0,
    held: 0,
  })
  await run('migrate')
  const { rows } = await db.database.pool.query(
    `select count(*)::int as rows, count(distinct date)::int as days, min(granularity) as granularity from bi.daily_traffic`,
  )
  expect(rows).toEqual([{ rows: expect.toSatisfy((count) => count > 80), days: 30, granularity: 'daily' }])
  await sandbox.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
}, 180_000)
