// A service that counts in its own way is held once: the message names what a person can write, and with that the held report and all later ones load.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Fault } from '../../src/sandbox/fault-kinds.ts'
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type FaultServer, startFaultServer } from '../support/fault-server.ts'
import { writeDefinition } from '../storm/whole-reports.ts'
import type { CommandResult } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

let db: TestDatabase
let folder: string
let sandbox: Sandbox

beforeEach(async () => {
  db = await createTestDatabase()
  folder = mkdtempSync(join(tmpdir(), 'millrace-counted-'))
})
afterEach(async () => {
  await sandbox.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

/** Two metrics: so that half of what was asked for, counted by cells, is as many points as all of it counted by rows. */
const open = async (service: SandboxOptions): Promise<void> => {
  sandbox = await startSandbox({
    ...{ ...service, requestsPerSecond: null, reportDurationMs: 30, now: '2026-01-20' },
  })
  mkdirSync(join(folder, 'home'))
  await writeDefinition(folder, { domains: 12, metrics: 2, seed: 3 }, { change: async (text) => void (await rows(text)) })
}

const rows = async (text: string): Promise<Record<string, unknown>[]> => (await db.database.pool.query(text)).rows

const definition = (): string => join(folder, 'pipelines', 'traffic_and_engagement.yaml')

let front: FaultServer | null = null
afterEach(async () => {
  await front?.close()
  front = null
})

const command = (...args: string[]): Promise<CommandResult> =>
  runWarm(
    args,
    {
      WEB_ANALYTICS_BASE_URL: front?.url.href ?? sandbox.url,
      WEB_ANALYTICS_API_KEY: sandbox.apiKey,
      DATABASE_URL: db.url,
      MILLRACE_HOME: join(folder, 'home'),
    },
    folder,
  )

const backfill = (month: string): Promise<CommandResult> =>
  command('backfill', 'traffic_and_engagement', '--from', month, '--to', month)

/** What a person who follows the message writes. */
const settingNamed = ({ stderr, stdout }: CommandResult): string => {
  const setting = /`(report: \{ data_points: \w+ \})`[^`]* into [^ ]*traffic_and_engagement\.yaml/.exec(
    `${stdout}\n${stderr}`,
  )?.[1]
  if (setting === undefined) throw new Error(`no setting is named:\n${stdout}\n${stderr}`)
  return setting
}

const loaded = async (month: string): Promise<number> =>
  (await rows(`select from data.traffic_and_engagement_v1 where date = '${month}-01'`)).length

const sold = (): readonly string[] => sandbox.books().submissions.map(({ id }) => id)

const repeating: Fault = { kind: 'duplicate-rows', counted: true }

describe.each<[string, SandboxOptions, string, RegExp]>([
  ['has rows only for what it has values of', { sparse: true }, 'cells', /as many rows may have been meant/],
  [
    'counts a row twice that it sends twice',
    { dataPoints: 'rows', faults: [repeating] },
    'rows_with_duplicates',
    /agrees neither with its rows nor with its cells/,
  ],
])('a service that %s', (_, service, reading, why) => {
  test('is held once; the setting that the message names loads that report and every later one, and still holds half of one', async () => {
    await open(service)
    const first = await backfill('2025-03')
    expect(first.code).toBe(1)
    expect(first.stdout + first.stderr).toMatch(why)
    expect(await loaded('2025-03')).toBe(0)
    // Nothing has changed: nothing is judged again.
    expect((await backfill('2025-03')).code).toBe(1)
    const setting = settingNamed(first)
    expect(setting).toBe(`report: { data_points: ${reading} }`)
    writeFileSync(definition(), `${readFileSync(definition(), 'utf8')}\n${setting}\n`)
    expect((await backfill('2025-03')).code).toBe(0)
    expect(await loaded('2025-03')).toBeGreaterThan(0)
    expect(sold()).toHaveLength(1)
    expect((await backfill('2025-04')).code).toBe(0)
    expect(await loaded('2025-04')).toBeGreaterThan(0)
    expect((await command('check', '--offline', '--all')).stdout).toMatch(
      new RegExp(`data_points_count counts ${reading}, says the definition`),
    )
    sandbox.configure({ faults: [{ kind: 'half-report' }] })
    expect((await backfill('2025-05')).code).toBe(1)
    expect(await loaded('2025-05')).toBe(0)
    expect(sold()).toHaveLength(3)
  })
})

test('a first report in doubt is loaded by the next run once another report has shown what is counted', async () => {
  await open({ sparse: true })
  expect((await backfill('2025-03')).code).toBe(1)
  sandbox.configure({ sparse: false })
  expect((await backfill('2025-04')).code).toBe(0)
  expect(await loaded('2025-03')).toBe(0)
  expect((await backfill('2025-03')).code).toBe(0)
  expect(await loaded('2025-03')).toBeGreaterThan(0)
  expect(sold()).toHaveLength(2)
})

test('half of a report that another one has taken the place of is not downloaded and held again by each run', async () => {
  await open({ faults: [{ kind: 'half-report' }] })
  expect((await backfill('2025-03')).code).toBe(1)
  sandbox.configure({ faults: [] })
  const forced = await command('backfill', 'traffic_and_engagement', '--from', '2025-03', '--to', '2025-03', '--force', '--json')
  expect(forced.code, forced.stderr).toBe(0)
  expect(await loaded('2025-03')).toBeGreaterThan(0)
  const downloads = (): number => sandbox.books().requests.filter(({ path }) => path.includes('download')).length
  const before = downloads()
  for (const _ of ['one night', 'another']) {
    const again = await command('backfill', 'traffic_and_engagement', '--from', '2025-03', '--to', '2025-03', '--json')
    expect(again.code, again.stdout).toBe(0)
  }
  expect(downloads()).toBe(before)
  expect(sold()).toHaveLength(2)
})

test('one that fits no setting is loaded by a person’s word, and later ones uncompared where the definition says so', async () => {
  await open({ faults: [{ kind: 'missing-row' }] })
  const first = await backfill('2025-03')
  expect(first.code).toBe(1)
  expect(settingNamed(first)).toBe('report: { data_points: ignore }')
  const [unit] = await rows('select u.unit_id from etl.units u join etl.jobs j using (job_id) where j.state = $$held$$ limit 1')
  expect((await command('release', String(unit?.['unit_id']))).code).toBe(0)
  expect((await backfill('2025-03')).code).toBe(0)
  const released = await loaded('2025-03')
  expect(released).toBeGreaterThan(0)
  expect((await backfill('2025-04')).code).toBe(1)
  writeFileSync(definition(), `${readFileSync(definition(), 'utf8')}\nreport: { data_points: ignore }\n`)
  expect((await backfill('2025-04')).code).toBe(0)
  expect((await backfill('2025-05')).code).toBe(0)
  expect(await loaded('2025-05')).toBeGreaterThan(0)
  expect(sold()).toHaveLength(3)
})

test.each(['replay', 'backfill'])(
  'one that could not be downloaded again is judged from its landing by the setting that is written then: %s',
  async (name) => {
    await open({ sparse: true })
    const setting = settingNamed(await backfill('2025-03'))
    sandbox.configure({ faults: [{ kind: 'any-status', on: 'status', status: 404 }] })
    expect((await backfill('2025-03')).stderr).toContain('downloading it again failed')
    writeFileSync(definition(), `${readFileSync(definition(), 'utf8')}\n${setting}\n`)
    // As one that is killed amid that download leaves it.
    if (name === 'replay') await rows("update etl.jobs set state = 'open', report_state = 'ready' where report_id is not null")
    const before = sandbox.books().requests.length
    const loads = await command(name, 'traffic_and_engagement', '--from', '2025-03', '--to', '2025-03')
    expect(loads.code, loads.stderr).toBe(0)
    expect(await loaded('2025-03')).toBeGreaterThan(0)
    expect(sandbox.books().requests.length).toBe(before)
  },
)

test('half a report is not loaded by the word of a person who released its units before there was anything to see', async () => {
  const lost = { kind: 'drop-reply', on: 'submit-report' } as const
  await open({ dataPoints: 'rows', faults: [lost, { kind: 'any-status', on: 'history' }, { kind: 'half-report' }] })
  expect((await backfill('2025-03')).code).toBe(1)
  const [held] = await rows(
    'select j.job_id, u.unit_id from etl.units u join etl.jobs j using (job_id) where j.state = $$held$$ limit 1',
  )
  expect((await command('release', String(held?.['unit_id']))).code).toBe(1)
  expect((await command('reports', 'adopt', String(held?.['job_id']), sold()[0] ?? '')).code).toBe(0)
  const again = await backfill('2025-03')
  expect(again.code, again.stderr).toBe(1)
  expect(again.stderr).toContain('[INCOMPLETE]')
  expect(await loaded('2025-03')).toBe(0)
})

describe('a report whose download always names another checksum', () => {
  let named: string | null
  beforeEach(async () => {
    named = 'AAAAAAAAAAAAAAAAAAAAAA=='
    await open({})
    front = await startFaultServer(async ({ method = 'GET', url = '', headers }, response, hit) => {
      const body = front?.hits[hit - 1]?.body
      const key = { 'api-key': sandbox.apiKey, authorization: headers.authorization ?? '' }
      const sent = await fetch(`${sandbox.url}${url}`, {
        method,
        headers: { ...key, 'content-type': 'application/json' },
        ...(method === 'POST' ? { body: body ?? '' } : {}),
      })
      const text = (await sent.text()).replaceAll(`${sandbox.url}/`, front?.url.href ?? '')
      const isFile = !(sent.headers.get('content-type') ?? '').includes('json')
      response.writeHead(sent.status, {
        'content-type': sent.headers.get('content-type') ?? '',
        ...(isFile && named !== null ? { 'content-md5': named } : {}),
      })
      response.end(text)
    })
  })
  const downloads = async (): Promise<number> => (await rows("select from etl.requests where error_code = 'TRUNCATED'")).length

  test('is held after it came so twice, downloaded once more by each run, and loaded by a person’s word', async () => {
    const first = await backfill('2025-03')
    expect([first.code, await downloads()], first.stderr).toEqual([1, 2])
    expect(first.stderr).toMatch(/content-md5.*millrace release UNIT.*\[INCOMPLETE\]/)
    expect((await backfill('2025-03')).code).toBe(1)
    expect([await downloads(), await loaded('2025-03')]).toEqual([3, 0])
    const [unit] = await rows('select unit_id from etl.units u join etl.jobs j using (job_id) where j.state = $$held$$ limit 1')
    expect((await command('release', String(unit?.['unit_id']))).code).toBe(0)
    expect(await loaded('2025-03')).toBeGreaterThan(0)
    const again = await command('replay', 'traffic_and_engagement', '--from', '2025-03', '--to', '2025-03')
    expect([again.code, await downloads()], again.stderr).toEqual([0, 3])
    expect(sold()).toHaveLength(1)
  })

  test('is held by the second run where each run tries once', async () => {
    writeFileSync(definition(), readFileSync(definition(), 'utf8').replace(/attempts: \d+/, 'attempts: 1'))
    expect((await backfill('2025-03')).stderr).toContain('[TRUNCATED]')
    const second = await backfill('2025-03')
    expect([second.code, await downloads(), sold().length], second.stderr).toEqual([1, 2, 1])
    expect(second.stderr).toMatch(/content-md5.*millrace release UNIT.*\[INCOMPLETE\]/)
  })

  test('is loaded by the next run where the service has mended it', async () => {
    expect((await backfill('2025-03')).code).toBe(1)
    named = null
    const next = await backfill('2025-03')
    expect(next.code, next.stderr).toBe(0)
    expect(await loaded('2025-03')).toBeGreaterThan(0)
    expect(sold()).toHaveLength(1)
  })
})
