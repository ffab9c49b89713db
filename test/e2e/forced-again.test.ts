// `backfill --force` that did not finish: the same command goes on with it. What it asked for and loaded is not bought again; a forced run that finished begins anew.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { startVendorSandbox, type VendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { type CommandResult, runCommand, startCommand, summaryOf } from '../support/command.ts'
import { type CopiedDatabase, copyDatabase } from '../support/copied-database.ts'
import { definitionsIn, succeeded, testFolder } from '../support/test-world.ts'

const domains = ['a.com', 'b.com', 'c.com', 'd.com', 'e.com', 'f.com']
const folder = testFolder({ each: true, copied: ['pipelines'] })
const { edit, list } = definitionsIn(folder)
let db: CopiedDatabase
let service: VendorSandbox

/** One job at a time, a domain a report: whatever is bought twice is counted. */
const oneByOne = (pipeline: string): void =>
  edit(
    pipeline,
    [/concurrency: \d+/, 'concurrency: 1'],
    (text) => text.replace('poll_every: 5s', 'poll_every: 200ms'),
    ['domain: { file: domains.txt }', `domain: { file: domains.txt${pipeline === 'keywords' ? '' : ', bucket: 1'} }`],
    [/country: \[.*\]/, 'country: [us]'],
  )

beforeEach(async () => {
  list('domains', domains)
  for (const pipeline of ['keywords', 'traffic_and_engagement']) oneByOne(pipeline)
  db = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  service = await startVendorSandbox({ requestsPerSecond: null, keywords: 50, reportMs: 100 })
})

afterEach(async () => {
  await service.close()
  await db.drop()
})

const environment = (perSecond: number, url = db.url): Record<string, string> => ({
  WEB_ANALYTICS_BASE_URL: service.url,
  WEB_ANALYTICS_API_KEY: service.apiKey,
  WEB_ANALYTICS_REQUESTS_PER_SECOND: String(perSecond),
  MILLRACE_GUARD: 'off',
  DATABASE_URL: url,
  MILLRACE_HOME: join(folder, `home${new URL(url).pathname.replaceAll('/', '-')}`),
  MILLRACE_LANDING: join(folder, 'landing'),
})

const month = (pipeline: string): string[] => ['backfill', pipeline, '--from', '2026-08', '--to', '2026-08', '--json']
const whole = (args: readonly string[], url?: string): Promise<CommandResult> => runCommand(args, environment(500, url), folder)

/** What was bought so far. */
const bought = (): number => service.books.charges.length
/** Pages that were bought, reports that were downloaded. A kill while a report is submitted would leave it in doubt, which is another matter. */
const progressOf = (pipeline: string): number =>
  pipeline === 'keywords' ? bought() : [...service.books.reports.values()].reduce((sum, { downloads }) => sum + downloads, 0)

/** The same command, killed as soon as so much more was bought. */
const killedAfter = async (args: readonly string[], more: number): Promise<void> => {
  const [, pipeline = ''] = args
  const until = progressOf(pipeline) + more
  const running = startCommand(args, environment(8), folder)
  while (progressOf(pipeline) < until && running.child.exitCode === null) await sleep(2)
  running.child.kill('SIGKILL')
  expect((await running.result).signal).toBe('SIGKILL')
}

describe.each(['keywords', 'traffic_and_engagement'])('%s by force', (pipeline) => {
  test('killed twice and run again, buys each unit once; a run after the finished one buys all of them anew', async () => {
    const forced = [...month(pipeline), '--force']
    expect((await whole(month(pipeline))).code).toBe(0)
    const before = bought()
    await killedAfter(forced, 3)
    await killedAfter(forced, 2)
    const last = await succeeded(whole(forced))
    expect(last.stderr).toMatch(/Resumes run \d+: .* has not finished.*not bought again/)
    // A page whose answer was on its way at the kill is asked for again; a report never is.
    const lost = pipeline === 'keywords' ? 2 : 0
    expect(bought() - before).toBeGreaterThanOrEqual(domains.length)
    expect(bought() - before).toBeLessThanOrEqual(domains.length + lost)
    const { rows } = await db.pool.query(
      `select count(*)::int as units, count(*) filter (where j.forced)::int as forced from etl.units u join etl.answers a using (answer_id)
        join etl.jobs j on j.job_id = a.job_id`,
    )
    expect(rows).toEqual([{ units: domains.length, forced: domains.length }])
    const done = bought()
    const anew = await whole(forced)
    expect(summaryOf(anew).units.loaded).toBe(domains.length)
    expect(anew.stderr).not.toContain('Resumes')
    expect(bought() - done).toBe(domains.length)
  })

  test('with other values or months begins anew, and so does what was asked for otherwise; a dry run says the same', async () => {
    const forced = [...month(pipeline), '--force']
    expect((await whole(month(pipeline))).code).toBe(0)
    await killedAfter(forced, 4)
    const dry = await whole([...forced, '--dry-run'])
    const { planned, unchanged } = summaryOf(dry).units
    expect(planned - unchanged).toBeLessThanOrEqual(domains.length - 3)
    expect(dry.stderr).toMatch(/Resumes run \d+: .* has not finished/)
    const other = await whole([...forced, '--only', `domain=${domains.join(',')}`, '--dry-run'])
    expect(summaryOf(other).units.planned).toBe(domains.length)
    if (pipeline !== 'keywords') return
    const file = join(folder, 'pipelines', 'keywords.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace('traffic_source: All', 'traffic_source: All, top: 20'))
    expect(summaryOf(await whole([...forced, '--dry-run'])).units.planned).toBe(domains.length)
  })

  test('in two terminals at once buys each unit once', async () => {
    const forced = [...month(pipeline), '--force']
    expect((await whole(month(pipeline))).code).toBe(0)
    const before = bought()
    const first = startCommand(forced, environment(3), folder)
    while (bought() === before && first.child.exitCode === null) await sleep(2)
    const second = await whole(forced)
    expect(second.stderr).toMatch(/Resumes run \d+: .* has not finished/)
    expect([(await first.result).code, second.code]).toEqual([0, 0])
    expect(bought() - before).toBe(domains.length)
  })

  test('goes on in a ledger that was restored from a backup of the interruption', async () => {
    const forced = [...month(pipeline), '--force']
    expect((await whole(month(pipeline))).code).toBe(0)
    const before = bought()
    await killedAfter(forced, 3)
    const restored = await db.copy()
    try {
      await killedAfter(forced, 2)
      expect((await whole(['migrate', '--as', 'restored'], restored.url)).code).toBe(0)
      await succeeded(whole(forced, restored.url))
      // A page on its way at each kill, and the one that the backup still waits for.
      expect(bought() - before).toBeLessThanOrEqual(domains.length + (pipeline === 'keywords' ? 3 : 0))
    } finally {
      await restored.drop()
    }
  })
})

test('whatever the clock of the database said when the interrupted run began, what it bought is not bought again', async () => {
  const forced = [...month('keywords'), '--force']
  expect((await whole(month('keywords'))).code).toBe(0)
  const before = bought()
  await killedAfter(forced, 3)
  // Its clock was two days ahead then, and was set right.
  await db.pool.query(`update etl.runs set started_at = started_at + interval '2 days' where arguments ->> 'force' = 'true'`)
  const last = await succeeded(whole(forced))
  expect(last.stderr).toMatch(/Resumes run \d+/)
  expect(bought() - before).toBeLessThanOrEqual(domains.length + 1)
})

test('whatever the order in which its pipelines are named, it goes on', async () => {
  const forced = (...pipelines: string[]): string[] => ['backfill', ...pipelines, ...month('keywords').slice(2), '--force']
  service.configure({ replies: [{ endpoint: 'keywords', match: ['c.com'], status: 400, body: '{"error":"bad"}' }] })
  expect((await whole(forced('keywords', 'traffic_and_engagement'))).code).toBe(1)
  expect((await whole(forced('traffic_and_engagement', 'keywords'))).stderr).toMatch(/Resumes run \d+/)
})

test('a unit that failed in a forced run is asked for again by the next, those that loaded are not', async () => {
  const forced = [...month('keywords'), '--force']
  expect((await whole(month('keywords'))).code).toBe(0)
  service.configure({ replies: [{ endpoint: 'keywords', match: ['c.com'], status: 400, body: '{"error":"bad"}' }] })
  expect((await whole(forced)).code).toBe(1)
  service.configure({ replies: [] })
  const before = bought()
  await succeeded(whole(forced))
  expect(bought() - before).toBe(1)
})

const toBuy = async (args: readonly string[]): Promise<number> => {
  const { planned, unchanged } = summaryOf(await whole([...args, '--dry-run'])).units
  return planned - unchanged
}

test('what was held in a forced run holds the others back until a person has released it', async () => {
  const file = join(folder, 'pipelines', 'traffic_and_engagement.yaml')
  const shipped = readFileSync(file, 'utf8')
  const holding = (...held: string[]): void => {
    const known = `{ column: domain, accepted: [${domains.filter((one) => !held.includes(one)).join(', ')}], on_failure: hold }`
    writeFileSync(file, shipped.replace(/\ntests:\n/, `\ntests:\n  known: ${known}\n`))
  }
  holding('a.com')
  const args = [...month('traffic_and_engagement'), '--force']
  expect(summaryOf(await whole(args)).units).toMatchObject({ loaded: domains.length - 1, held: 1 })
  expect(await toBuy(args)).toBeLessThanOrEqual(1)
  // Held again, by another answer: nobody has released anything.
  expect(summaryOf(await whole(args)).units).toMatchObject({ held: 1, unchanged: domains.length - 1 })
  expect(await toBuy(args)).toBeLessThanOrEqual(1)
  // It loads; a new one is held.
  holding()
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), `${[...domains, 'new.com'].join('\n')}\n`)
  expect(summaryOf(await whole(args)).units).toMatchObject({ loaded: 1, held: 1, unchanged: domains.length - 1 })
  expect(await toBuy(args)).toBeLessThanOrEqual(1)
  const { rows } = await db.pool.query<{ unit: string }>('select unit_id as unit from etl.units where held_answer_id is not null')
  expect((await whole(['release', ...rows.map(({ unit }) => unit)])).code).toBe(0)
  expect(await toBuy(args)).toBe(domains.length + 1)
})

test('a pipeline whose list could not be read keeps the others of a forced run from being bought again', async () => {
  const file = join(folder, 'pipelines', 'keywords.yaml')
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace(/domain: \{ file: domains.txt \}/, 'domain: { query: "select (1 / 0)::text" }'))
  const args = ['backfill', 'keywords', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--json', '--force']
  const first = await whole(args)
  expect([first.code, summaryOf(first).units.loaded]).toEqual([1, domains.length])
  writeFileSync(file, text)
  expect(await toBuy(args)).toBe(domains.length)
})

test('a unit that fails for good holds the others back for a week, then the same command buys them anew', async () => {
  const forced = [...month('keywords'), '--force']
  service.configure({ replies: [{ endpoint: 'keywords', match: ['c.com'], status: 400, body: '{"error":"bad"}' }] })
  expect((await whole(forced)).code).toBe(1)
  const before = bought()
  expect((await whole(forced)).stderr).toMatch(/Resumes run \d+/)
  expect(bought() - before).toBe(0)
  await db.pool.query(`update etl.runs set started_at = started_at - interval '8 days'`)
  expect((await whole(forced)).stderr).not.toContain('Resumes')
  expect(bought() - before).toBe(domains.length - 1)
})
