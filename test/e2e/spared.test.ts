// What a nightly run does not ask for again, and says so.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const { folder, db, sandbox, edit, millrace } = sandboxWorld({
  each: true,
  lists: { domains: ['a.example'] },
  sandbox: { keywordsPerDomain: 230, now: '2026-11-20' },
  settings: { WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000' },
})

beforeEach(() => edit('keywords', ['from: 2024-01', 'from: 2026-08'], ['page_size: 1000', 'page_size: 50']))

test('a month that is unchanged at the source costs one request instead of its pages, and the run says how many it skipped', async () => {
  const run = (...more: string[]) => millrace('run', 'keywords', '--only', 'country=us', ...more)
  const pages = 5
  const first = await run('--json')
  expect(summaryOf(first)).toMatchObject({ units: { loaded: 3 }, requests: 3 * pages })
  // The look-back is the two newest months.
  const second = await run('--json')
  expect(summaryOf(second)).toMatchObject({ units: { unchanged: 2 }, requests: 2 })
  sandbox.restate('2026-10')
  const third = await run()
  expect(third.stdout).toContain('Skipped, unchanged at the source: 1 unit')
})

test('a restated month is bought once for two pipelines that ask the same, also where each runs by itself', async () => {
  const file = join(folder, 'pipelines', 'keywords.yaml')
  const text = readFileSync(file, 'utf8').replace(/country: \[.*\]/, 'country: [us]')
  writeFileSync(file, text)
  writeFileSync(join(folder, 'pipelines', 'others.yaml'), text.replace('pipeline: keywords', 'pipeline: others'))
  for (const args of [['new', 'migration', 'others'], ['migrate']]) await succeeded(millrace(...args))
  const run = async (pipeline: string) => summaryOf(await millrace('run', pipeline, '--json'))
  await run('keywords')
  expect(await run('others')).toMatchObject({ units: { loaded: 3 }, requests: 0 })
  sandbox.restate('2026-10')
  // A look at each month, and the pages of the one that is restated.
  expect(await run('keywords')).toMatchObject({ units: { loaded: 1 } })
  const others = await run('others')
  expect(others).toMatchObject({ units: { loaded: 1 }, requests: 2 })
  expect(others.rows.updated).toBeGreaterThan(0)
  // What comes later is bought by who sees it first.
  sandbox.restate('2026-10')
  expect((await run('others')).requests).toBeGreaterThan(2)
  expect(await run('keywords')).toMatchObject({ units: { loaded: 1 }, requests: 2 })
  // Asked for on the very day of the release, the answer may be of before the last of it.
  sandbox.restate('2026-10')
  await run('keywords')
  await db.database.pool.query(
    `update etl.answer_rows set asked_at = (source_last_updated || ' 12:00Z')::timestamptz where answer_id = (select max(answer_id) from etl.answer_rows)`,
  )
  expect((await run('others')).requests).toBeGreaterThan(2)
})

test('a field that every answer has and the definition does not name is told once a run, not once a unit', async () => {
  const text = readFileSync(join(folder, 'pipelines', 'keywords.yaml'), 'utf8')
  writeFileSync(
    join(folder, 'pipelines', 'words.yaml'),
    text
      .replace('pipeline: keywords', 'pipeline: words')
      .replace(/^ +zero_clicks_share: .*\n/m, '')
      .replace(/^tests:\n(?: .*\n)+/m, ''),
  )
  for (const args of [['new', 'migration', 'words'], ['migrate']]) await succeeded(millrace(...args))
  const ran = await succeeded(millrace('run', 'words', '--json'))
  expect(summaryOf(ran).units.loaded).toBeGreaterThan(3)
  expect(ran.stdout.split('\n').filter((line) => line.includes('"DRIFT"'))).toEqual([
    expect.stringMatching(
      /words\/v1\/.*: the answer has zero_clicks_share, which the definition does not name .*Reported once per run/,
    ),
  ])
})
