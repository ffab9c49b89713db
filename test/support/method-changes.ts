// A service that changes its method under a warehouse of the three shipped tables, night by night.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository, summaryOf } from './command.ts'
import { createTestDatabase } from './postgres.ts'
import { runWarm } from './warm-command.ts'

const randomOf = (seed: number): (() => number) => {
  let state = (seed * 2_654_435_761) | 0
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) | 0
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32
  }
}

export const tables = ['keywords', 'shopper_category_performance', 'traffic_and_engagement'] as const

const domains = Array.from({ length: 12 }, (_, at) => `d${at}.com`)

const writePipelines = (folder: string): void => {
  const pipelines = join(folder, 'pipelines')
  mkdirSync(pipelines)
  for (const name of tables)
    writeFileSync(
      join(pipelines, `${name}.yaml`),
      readFileSync(join(pipelinesOfRepository, `${name}.yaml`), 'utf8')
        .replace(/country: \[.*\]/, name === 'keywords' ? 'country: [world]' : 'country: [us, gb, world]')
        .replace(/from: 20\d\d-\d\d/, 'from: 2026-07')
        .replace('poll_every: 5s', 'poll_every: 1s'),
    )
  cpSync(join(pipelinesOfRepository, 'schema.json'), join(pipelines, 'schema.json'))
  writeFileSync(join(pipelines, 'domains.txt'), domains.join('\n'))
  writeFileSync(join(pipelines, 'shop_domains.txt'), domains.slice(0, 3).join('\n'))
  writeFileSync(join(pipelines, 'category_ids.txt'), domains.map((_, at) => 1_001 + at).join('\n'))
  // What a test reads of bi.
  mkdirSync(join(folder, 'marts'))
  cpSync(join(pipelinesOfRepository, '..', 'marts', 'breaks.sql'), join(folder, 'marts', 'breaks.sql'))
}

/** Four months of all tables, loaded 80 days ago. */
export const openChangingWorld = async (seed: number, options: SandboxOptions = {}) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-breaks-'))
  writePipelines(folder)
  const sandbox = await startSandbox({ seed, requestsPerSecond: null, keywordsPerDomain: 25, reportDurationMs: 0, ...options })
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
        MILLRACE_GUARD: 'off',
      },
      folder,
    )
    // The service ends a row now and then: a unit of one row is held then.
    expect(args[0] === 'run' ? 0 : run.code, run.stderr).toBe(0)
    return run
  }
  /** So many days go by. */
  const wait = async (days: number): Promise<void> => {
    for (const [table, columns] of Object.entries(moments))
      await query(`update etl.${table} set ${columns.map((name) => `${name} = ${name} - interval '${days} days'`).join(', ')}`)
  }
  const restate = (): void => {
    for (const month of ['2026-09', '2026-10']) sandbox.restate(month)
  }
  const night = async () => {
    await wait(30)
    return summaryOf(await millrace('run'))
  }
  const close = async (): Promise<void> => {
    await sandbox.close()
    await db.drop()
    rmSync(folder, { recursive: true, force: true })
  }
  await millrace('migrate')
  await millrace('backfill', ...tables, '--from', '2026-07', '--to', '2026-10', '--yes')
  await wait(80)
  return { sandbox, query, millrace, restate, night, close }
}

const moments = {
  pipelines: ['known_since'],
  answer_rows: ['asked_at', 'stood_at', 'loaded_at'],
  load_rows: ['loaded_at'],
  windows: ['looked_at', 'closed_at'],
  restated: ['seen_at'],
}

/** Two quiet nights, then one of a new method: a change of 3 to 40 % from one of the last two months on. Returns the world as it is then. */
export const playChange = async (seed: number) => {
  const world = await openChangingWorld(seed)
  const { sandbox, query, restate, night } = world
  const random = randomOf(seed)
  const change = (0.03 + 0.37 * random()) * (random() < 0.3 ? -1 : 1)
  const since = random() < 0.5 ? '2026-09' : '2026-10'
  const about = `seed ${seed}: ${change} from ${since}`
  const quiet: Awaited<ReturnType<typeof night>>[] = []
  for (let at = 0; at < 2; at += 1) {
    restate()
    quiet.push(await night())
  }
  expect(await query('select * from etl.breaks'), about).toEqual([])
  expect(
    await query('select distinct pipeline from etl.restated join etl.pipelines using (pipeline_id) order by 1'),
    about,
  ).toEqual(tables.map((pipeline) => ({ pipeline })))
  // Of such a table the first month may pass for another ordinary night; the break is noticed by the next one.
  const wild = (
    await query<{ pipeline: string }>(
      'select distinct pipeline from etl.restated join etl.pipelines using (pipeline_id) where share > 0.75',
    )
  ).map(({ pipeline }) => pipeline)
  sandbox.changeMethod(since, change)
  restate()
  const first = await night()
  const found = await query<{ pipeline: string; starts_on: string; change: number }>(
    'select pipeline, starts_on::text, kind, change::float8 as change from bi.breaks order by pipeline',
  )
  expect(found, about).toMatchObject(
    tables.map((pipeline) => ({ pipeline, kind: 'method', ...(wild.includes(pipeline) ? {} : { starts_on: `${since}-01` }) })),
  )
  for (const one of found) expect(Math.abs(one.change - change), about).toBeLessThan(0.03 + 0.15 * Math.abs(change))
  // Noticing buys nothing: the night cost what the nights before did.
  expect(first.quota_used, about).toBeLessThanOrEqual(Math.max(...quiet.map(({ quota_used }) => quota_used)))
  return { ...world, since }
}
