// A daily table of the shipped source beside the shipped pipelines: migrated, loaded, restated, published, and in the way of nothing.
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const {
  db,
  sandbox,
  fileOf,
  millrace: begin,
} = sandboxWorld({
  copied: ['pipelines', 'marts', 'semantic'],
  lists: { domains: ['a.com'] },
  sandbox: { reportDurationMs: 0, keywordsPerDomain: 10, now: '2026-11-20' },
  json: true,
})

test('a daily report is migrated and published with the whole repository and loads its days; what cannot be its window is named with its line', async () => {
  const daily = readFileSync(fileOf('traffic_and_engagement'), 'utf8')
    .replace('pipeline: traffic_and_engagement', 'pipeline: daily_traffic')
    .replace('granularity: monthly', 'granularity: daily')
    .replace('poll_every: 5s', 'poll_every: 1s')
  const file = fileOf('daily_traffic')
  const run = (...args: string[]) => succeeded(begin(...args))
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
}, 180_000)
