// A service that changes its method under a warehouse: the first run that loads it notices, asks for nothing more than on any night, and plan offers the months before.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository, summaryOf } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

/** Seeded changes; more by the variable. */
const changes = Number(process.env['MILLRACE_METHOD_CHANGES'] ?? 3)

const randomOf = (seed: number): (() => number) => {
  let state = (seed * 2_654_435_761) | 0
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) | 0
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32
  }
}

const months = ['2026-07', '2026-08', '2026-09', '2026-10'] as const

const openWorld = async (seed: number) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-breaks-'))
  const pipelines = join(folder, 'pipelines')
  mkdirSync(pipelines)
  const yaml = readFileSync(join(pipelinesOfRepository, 'keywords.yaml'), 'utf8')
  writeFileSync(
    join(pipelines, 'keywords.yaml'),
    yaml.replace(/country: \[.*\]/, 'country: [world]').replace(/from: 20\d\d-\d\d/, 'from: 2026-07'),
  )
  cpSync(join(pipelinesOfRepository, 'schema.json'), join(pipelines, 'schema.json'))
  writeFileSync(join(pipelines, 'domains.txt'), 'a.com\nb.com\nc.com\n')
  const sandbox = await startSandbox({ seed, requestsPerSecond: null, keywordsPerDomain: 60 })
  const db = await createTestDatabase()
  const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
    (await db.database.pool.query<T>(text)).rows
  const millrace = async (...args: string[]) => {
    const run = await runWarm(
      [...args, '--json'],
      {
        WEB_ANALYTICS_BASE_URL: sandbox.url,
        WEB_ANALYTICS_API_KEY: sandbox.apiKey,
        WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
        DATABASE_URL: db.url,
        MILLRACE_HOME: join(folder, 'home'),
      },
      folder,
    )
    expect(run.code, run.stderr).toBe(0)
    return run
  }
  const close = async (): Promise<void> => {
    await sandbox.close()
    await db.drop()
    rmSync(folder, { recursive: true, force: true })
  }
  return { sandbox, query, millrace, close }
}

test('is noticed by the first run that loads it, for no request more than ordinary restatements cost, and never before', async () => {
  for (let seed = 1; seed <= changes; seed += 1) {
    const { sandbox, query, millrace, close } = await openWorld(seed)
    const random = randomOf(seed)
    const change = (0.03 + 0.37 * random()) * (random() < 0.3 ? -1 : 1)
    const since = random() < 0.5 ? '2026-09' : '2026-10'
    await millrace('migrate')
    await millrace('backfill', 'keywords', '--from', '2026-07', '--to', '2026-10', '--yes')
    for (const table of ['answer_rows', 'load_rows'])
      await query(`update etl.${table} set loaded_at = loaded_at - interval '80 days' where loaded_at is not null`)
    const nights: number[] = []
    for (let night = 0; night < 2; night += 1) {
      for (const month of months.slice(2)) sandbox.restate(month)
      nights.push(summaryOf(await millrace('run')).requests)
    }
    expect(await query('select * from etl.breaks'), `seed ${seed}`).toEqual([])
    expect((await query('select * from etl.restated')).length, `seed ${seed}`).toBeGreaterThan(0)
    sandbox.changeMethod(since, change)
    const night = summaryOf(await millrace('run')).requests
    const found = await query<{ starts_on: string; columns: string[]; change: number }>(
      'select starts_on::text, columns, change::float8 as change from bi.breaks',
    )
    expect(found, `seed ${seed}: ${change} from ${since}`).toMatchObject([
      { starts_on: `${since}-01`, columns: expect.arrayContaining(['clicks']) },
    ])
    expect(Math.abs((found[0]?.change ?? 0) - change)).toBeLessThan(0.02 + 0.15 * Math.abs(change))
    expect(night, `seed ${seed}`).toBeLessThanOrEqual(Math.max(...nights))
    const plan = await millrace('plan', 'keywords')
    const { older } = plan.events.find(({ event }) => event === 'pipeline') as {
      older: { sample: { command: string; units: number } }[]
    }
    expect(older).toMatchObject([{ startsOn: `${since}-01`, sample: { command: expect.stringContaining('--only') } }])
    // The sample, as it is offered: three months of one cell, of which none changed.
    const words = older[0]?.sample.command.replaceAll("'", '').split(' ').slice(1) ?? []
    await millrace(...words, '--yes')
    expect(await query('select starts_on::text, seen_back_to::text from etl.breaks')).toEqual([
      { starts_on: `${since}-01`, seen_back_to: `${since}-01` },
    ])
    await close()
  }
}, 600_000)
