// A long backfill of all pipelines, interrupted five times by three signals, ends equal to one nobody disturbed and buys each report once.
// `LONG_BACKFILL=whole npx vitest run test/e2e/long-backfill.test.ts` takes 36 months of 50 domains and writes its figures into docs/internals/reliability.md; the sample here takes 6 of 6.
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { uncertainReports } from '../crash-matrix/warehouse.ts'
import { type Books, longBackfillSection } from '../storm/long-backfill-section.ts'
import { writeSection } from '../storm/reliability-page.ts'
import { uncertainUnits } from '../storm/warehouse-digest.ts'
import { type CommandResult, runCommand, startCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { definitionsIn, succeeded, testFolder } from '../support/test-world.ts'

const whole = process.env['LONG_BACKFILL'] === 'whole'
const size = whole
  ? { from: '2023-10', months: 36, domains: 50, bucket: 10, keywords: 6 }
  : { from: '2026-04', months: 6, domains: 6, bucket: 2, keywords: 6 }
const to = '2026-09'
const pipelines = ['traffic_and_engagement', 'shopper_category_performance', 'keywords']
const command = ['backfill', ...pipelines, '--from', size.from, '--to', to, '--json']
/** Two countries of traffic and of keywords and three categories, for each month and domain. */
const expectedUnits = size.months * size.domains * (2 + 2 + 3)
const signals = ['SIGINT', 'SIGKILL', 'SIGTERM', 'SIGKILL', 'SIGINT'] as const

const folder = testFolder({ copied: ['pipelines'] })
const { edit, list } = definitionsIn(folder)

beforeAll(() => {
  const domains = Array.from({ length: size.domains }, (_, index) => `site-${index + 1}.example`)
  for (const name of ['domains', 'shop_domains']) list(name, domains)
  edit('keywords', ['from: 2024-01', 'from: 2023-10'])
  for (const pipeline of pipelines.slice(0, 2))
    edit(
      pipeline,
      ['from: 2024-01', 'from: 2023-10'],
      ['poll_every: 5s', 'poll_every: 200ms'],
      (text) => text.replace('[us, gb, world]', '[us, gb]'),
      [/domain: \{ file: (\w+\.txt) \}/, `domain: { file: $1, bucket: ${size.bucket} }`],
    )
})

const newSandbox = (): Promise<Sandbox> =>
  startSandbox({ seed: 36, keywordsPerDomain: size.keywords, requestsPerSecond: null, reportDurationMs: 300, now: '2026-11-20' })

const environment = (sandbox: Sandbox, db: TestDatabase, home: string): Record<string, string> => ({
  WEB_ANALYTICS_BASE_URL: sandbox.url,
  WEB_ANALYTICS_API_KEY: sandbox.apiKey,
  WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000',
  MILLRACE_GUARD: 'off',
  DATABASE_URL: db.url,
  MILLRACE_HOME: join(folder, home),
})

interface TableDigest {
  readonly digest: string | null
  readonly rows: string
}

/** A digest and a count of each table and history, without what names the run and the moment. */
const contents = async (db: TestDatabase): Promise<Record<string, TableDigest>> => {
  const found: Record<string, TableDigest> = {}
  for (const pipeline of pipelines) {
    for (const table of [`data.${pipeline}_v1`, `data.${pipeline}_v1_history`]) {
      const rows = await db.query<TableDigest>(
        `select md5(string_agg(line, chr(10) order by line collate "C")) as digest, count(*) as rows from (
           select (to_jsonb(t) - array['_unit_id', '_run_id', '_loaded_at', '_valid_from', '_valid_to', '_ended_run_id'])::text as line from ${table} t) l`,
      )
      found[table] = rows[0] ?? { digest: null, rows: '0' }
    }
  }
  return found
}

const count = async (db: TestDatabase, query: string): Promise<number> => {
  const rows = await db.query<{ n: number }>(`select count(*)::int as n from ${query}`)
  return rows[0]?.n ?? 0
}

const loadedUnits = `etl.units where answer_id is not null`

/** Sends `signal` once `threshold` units are loaded and this process has done some of its own work: in the first a purchase, later a load. */
const interruptAt = async (
  threshold: number,
  signal: NodeJS.Signals,
  db: TestDatabase,
  sandbox: Sandbox,
): Promise<CommandResult> => {
  const target = threshold === 0 ? 0 : Math.max(threshold, (await count(db, loadedUnits)) + 1)
  const running = startCommand(command, environment(sandbox, db, 'stormy'), folder)
  const reached = async (): Promise<boolean> => sandbox.books().submissions.length > 0 && (await count(db, loadedUnits)) >= target
  while (running.child.exitCode === null && !(await reached())) await new Promise((resolve) => setTimeout(resolve, 20))
  running.child.kill(signal)
  return running.result
}

const bodies = (sandbox: Sandbox): string[] =>
  sandbox
    .books()
    .submissions.map(({ body }) => JSON.stringify(body))
    .sort()

const booksOf = (sandbox: Sandbox, seconds: number): Books => {
  const { submissions, quotaUsed, counts } = sandbox.books()
  return { submissions: submissions.length, quotaUsed, counts, seconds }
}

/** Each progress line after the first quarter: what it foretold of the whole time against what it took, as a fraction. */
const timeLeftErrors = (stderr: string, seconds: number): readonly number[] =>
  [...stderr.matchAll(/(\d+)\/(\d+) units.* time left (?:(\d+) min )?(\d+(?:\.\d+)?) s/g)].flatMap(
    ([, done, of, minutes, rest], line) => {
      const foretold = (line + 1) * lineEverySeconds + Number(minutes ?? 0) * 60 + Number(rest)
      return Number(done) * 4 < Number(of) || done === of ? [] : [Number((foretold / seconds - 1).toFixed(3))]
    },
  )
const lineEverySeconds = 10

test(`${size.months} months of ${size.domains} domains in two countries, interrupted ${signals.length} times, equal one calm run and buy each report once`, {
  timeout: whole ? 3_600_000 : 180_000,
}, async () => {
  const calm = await newSandbox()
  const undisturbed = await createTestDatabase()
  const calmStart = Date.now()
  const reference = await succeeded(runCommand(command, environment(calm, undisturbed, 'calm'), folder))
  expect(summaryOf(reference).units.loaded).toBe(expectedUnits)
  const calmSeconds = (Date.now() - calmStart) / 1000

  const stormy = await newSandbox()
  const db = await createTestDatabase()
  const stormStart = Date.now()
  for (const [index, signal] of signals.entries()) {
    const ended = await interruptAt(Math.floor((expectedUnits * index) / (signals.length + 1)), signal, db, stormy)
    expect([ended.code, ended.signal], ended.stderr).toEqual(signal === 'SIGKILL' ? [null, 'SIGKILL'] : [130, null])
  }
  const last = await runCommand(command, environment(stormy, db, 'stormy'), folder)
  // Only a kill between a submission and its answer leaves a question; it is held, and bought again only with consent.
  const uncertain = await uncertainReports(db.database.pool)
  expect(summaryOf(last).units.held, last.stderr).toBe(await uncertainUnits(db.database.pool))
  if (uncertain > 0) {
    await succeeded(runCommand([...command, '--resubmit-uncertain'], environment(stormy, db, 'stormy'), folder))
  } else {
    expect(last.code, last.stderr).toBe(0)
    expect(bodies(stormy)).toEqual(bodies(calm))
  }
  const stormSeconds = (Date.now() - stormStart) / 1000
  expect(new Set(bodies(calm)).size).toBe(bodies(calm).length)
  expect([...new Set(bodies(stormy))]).toEqual(bodies(calm))
  expect(bodies(stormy).length).toBeLessThanOrEqual(bodies(calm).length + uncertain)
  const expected = await contents(undisturbed)
  expect(await contents(db)).toEqual(expected)
  if (whole) {
    const section = longBackfillSection({
      months: { from: size.from, to, count: size.months },
      domains: size.domains,
      signals,
      units: expectedUnits,
      rows: Object.fromEntries(Object.entries(expected).map(([table, { rows }]) => [table, Number(rows)])),
      uncertain,
      timeLeftErrors: timeLeftErrors(reference.stderr, calmSeconds),
      calm: booksOf(calm, calmSeconds),
      stormy: booksOf(stormy, stormSeconds),
    })
    writeSection('Long backfill', section)
  }
  await Promise.all([calm.close(), stormy.close()])
  await undisturbed.drop()
  await db.drop()
})
