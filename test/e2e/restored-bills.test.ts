// What was bought after a backup, as the ledger restored from it has it from the landings: whole answers with their bills, and no half of a walk.
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { pipelinesOfRepository, startCommand } from '../support/command.ts'
import { type CopiedDatabase, copyDatabase } from '../support/copied-database.ts'
import { succeeded } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

type Service = Parameters<typeof startVendorSandbox>[0]

/** July is loaded; then a copy of the database is made as a backup. Both databases have one place for landings. */
const openWorld = async (settings: Service) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-restored-bills-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\nb.com\n')
  const service = await startVendorSandbox({ requestsPerSecond: null, ...settings })
  const original = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  const environment = (database: CopiedDatabase) => ({
    WEB_ANALYTICS_BASE_URL: service.url,
    WEB_ANALYTICS_API_KEY: service.apiKey,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
    DATABASE_URL: database.url,
    MILLRACE_HOME: join(folder, `home${new URL(database.url).pathname.replaceAll('/', '-')}`),
    MILLRACE_LANDING: join(folder, 'landing'),
  })
  const command = (database: CopiedDatabase, ...args: string[]) => runWarm([...args, '--json'], environment(database), folder)
  const run = async (database: CopiedDatabase, ...args: string[]): Promise<void> => {
    await succeeded(command(database, ...args))
  }
  await run(original, ...walks('2026-07'))
  const restored = await original.copy()
  return {
    ...{ service, original, restored, command, run },
    /** Changes or makes a definition. */
    write: (pipeline: string, change: (yaml: string) => string): void => {
      const file = join(folder, 'pipelines', `${pipeline}.yaml`)
      writeFileSync(file, change(existsSync(file) ? readFileSync(file, 'utf8') : ''))
    },
    /** Of reports, by increasing ask number. */
    receipts: (): string[] => globSync(join(folder, 'landing', '_warehouses', '*', 'receipts', '*', '*.json')).sort(),
    charged: (): number => service.books.charges.reduce((sum, { credits }) => sum + credits, 0),
    start: (database: CopiedDatabase, ...args: string[]) => startCommand([...args, '--json'], environment(database), folder),
    /** So many requests a second, under a budget that holds them all where there is one. */
    startSlowly: (database: CopiedDatabase, budget: string, ...args: string[]) =>
      startCommand(
        [...args, '--json'],
        { ...environment(database), WEB_ANALYTICS_REQUESTS_PER_SECOND: '3', WEB_ANALYTICS_QUOTA_PER_DAY: budget },
        folder,
      ),
    close: async (): Promise<void> => {
      await service.close()
      await restored.drop()
      await original.drop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const walks = (month: string, ...more: string[]): string[] => ['backfill', 'keywords', '--from', month, '--to', month, ...more]

test('a restored ledger books the bills of pages that it takes up', async () => {
  const { original, restored, run, charged, close } = await openWorld({ keywords: 50 })
  try {
    await run(original, ...walks('2026-08'))
    const before = charged()
    await run(restored, ...walks('2026-08'))
    expect(charged(), 'nothing is bought again').toBe(before)
    const { rows } = await restored.pool.query(
      `select sum(used_quota)::float8 as used, sum(unpriced)::int as unpriced from etl.spending`,
    )
    expect(rows).toEqual([{ used: before, unpriced: 0 }])
  } finally {
    await close()
  }
})

test.each(['keywords', 'referrals'])('a restored ledger knows how many first rows were asked for: %s', async (pipeline) => {
  const { original, restored, write, run, charged, close } = await openWorld({ keywords: 50 })
  const august = ['backfill', pipeline, '--from', '2026-08', '--to', '2026-08', '--yes']
  write('referrals', () => referrals)
  write('keywords', (yaml) => yaml.replace(/params: \{ /, 'params: { top: 20, '))
  try {
    for (const args of [['new', 'migration', 'referrals'], ['migrate'], august]) await run(original, ...args)
    const before = charged()
    for (const args of [['migrate', '--as', 'restored'], august, august]) await run(restored, ...args)
    expect(charged(), 'nothing is bought again').toBe(before)
    const { rows } = await restored.pool.query(`select distinct top_rows from etl.answers where window_from = '2026-08-01'`)
    expect(rows).toEqual([{ top_rows: 20 }])
  } finally {
    await close()
  }
})

const referrals = `pipeline: referrals
version: 1
description: Sites that send visitors.
source: web-analytics.report
params: { vtable: referrals, top: 20 }
for_each:
  domain: [a.com]
  country: [us]
window: { every: month, from: 2026-01 }
table:
  key: [date, domain, country, referring_domain]
  columns:
    referring_domain: { type: text, description: The site that sends them }
    visits: { type: bigint, from: referral_visits, description: Visits that it sends }
limits: { poll_every: 1s }
`

test.each(['keywords', 'traffic_and_engagement'])(
  'a backup that is restored twice uses what was bought after the first time: %s',
  async (pipeline) => {
    const { original, restored, run, charged, close } = await openWorld({ keywords: 50 })
    const august = ['backfill', pipeline, '--from', '2026-08', '--to', '2026-08', '--yes']
    const again = await original.copy()
    const rowsOf = async (database: CopiedDatabase): Promise<unknown> =>
      (await database.pool.query(`select count(*)::int as rows from data.${pipeline}_v1`)).rows[0]
    try {
      await run(restored, 'migrate', '--as', 'restored')
      await run(restored, ...august)
      const before = charged()
      await run(again, 'migrate', '--as', 'restored')
      await run(again, ...august)
      expect(charged(), 'nothing is bought again').toBe(before)
      expect(await rowsOf(again)).toEqual(await rowsOf(restored))
    } finally {
      await again.drop()
      await close()
    }
  },
)

test('a restored ledger holds a purchase without an id also where the same units were bought before it, and buys it again with consent alone', async () => {
  const { original, restored, command, run, receipts, charged, close } = await openWorld({ keywords: 50 })
  const august = ['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08']
  try {
    await run(original, ...august, '--yes')
    await run(original, ...august, '--yes', '--force')
    const before = charged()
    // As where the process was killed while the second one's answer came.
    const last = receipts().findLast((path) => !path.endsWith('.intent.json'))
    rmSync(last ?? '')
    await run(restored, 'migrate', '--as', 'restored')
    for (const more of [[], ['--force'], ['--force']]) {
      const ended = await command(restored, ...august, '--yes', ...more)
      expect([ended.code, charged()], ended.stdout + ended.stderr).toEqual([1, before])
    }
    // The first one is loaded all the same.
    const { rows } = await restored.pool.query(
      `select bool_and(u.answer_id is not null and j.error_code = 'REPORT_UNCERTAIN') as held from etl.units u
        join etl.jobs j using (job_id) where j.kind = 'report'`,
    )
    expect(rows).toEqual([{ held: true }])
    await run(restored, ...august, '--yes', '--force', '--resubmit-uncertain')
    expect(charged()).toBeGreaterThan(before)
  } finally {
    await close()
  }
})

test.each([
  ['before it began', 'SIGKILL'],
  ['when it had stopped', 'SIGINT'],
] as const)(
  'a ledger restored from a backup that was made %s books of a walk that was ended by %s and went on what was paid for since, in pages and in credits',
  async (when, signal) => {
    const prices = { keywords: { by: 'rows-returned', credits: 0.1 } } as const
    const { service, original, restored, run, start, charged, close } = await openWorld({ keywords: 5_000, prices })
    const august = walks('2026-08', '--only', 'domain=a.com;country=us', '--yes')
    const before = charged()
    service.configure({
      replies: [{ endpoint: 'keywords', match: ['offset=4000'], times: 1, status: 503, headers: { 'retry-after': '60' } }],
    })
    const stopped = start(original, ...august)
    while (charged() < before + 400) await setTimeout(20)
    // What came is saved within a second.
    await setTimeout(2_500)
    stopped.child.kill(signal)
    await stopped.result
    service.configure({ replies: [] })
    const backup = when === 'before it began' ? restored : await original.copy()
    try {
      await run(original, ...august)
      await run(backup, 'migrate', '--as', 'restored')
      await run(backup, ...august)
      expect(charged(), 'nothing is bought again').toBe(before + 500)
      for (const { pool } of [original, backup]) {
        const { rows } = await pool.query(
          `select sum(credits)::float8 as credits, sum(uncertain)::float8 as uncertain, sum(requests)::int as pages from etl.request_credits`,
        )
        expect(rows).toEqual([{ credits: charged(), uncertain: 0, pages: service.books.charges.length }])
      }
    } finally {
      if (backup !== restored) await backup.drop()
      await close()
    }
  },
)

/** Of a ledger whose walks are at work. Somebody may come in between. */
const copyAtWork = async (database: CopiedDatabase): Promise<CopiedDatabase> => {
  for (;;) {
    const copy = await database.copy().catch(() => null)
    if (copy !== null) return copy
  }
}

test.each([
  ['', 5_000],
  ['100000', 5_000],
  // It is loaded by then, and was asked for after the other.
  ['100000', 500],
])(
  'a ledger restored from a backup that was made amid walks buys none of their pages again, and books each once (budget: %s; rows of the second: %i)',
  async (budget, rows) => {
    const prices = { keywords: { by: 'rows-returned', credits: 0.1 } } as const
    const { service, original, run, startSlowly, charged, close } = await openWorld({
      ...{ keywords: 5_000, keywordsByDomain: { 'b.com': rows }, prices },
    })
    const august = walks('2026-08', '--only', 'country=us', '--yes')
    const before = charged()
    const all = before + 500 + 0.1 * rows
    const running = startSlowly(original, budget, ...august)
    const isAmid = async (): Promise<boolean> => {
      const amid = `select from etl.requests q join etl.jobs j using (job_id) where j.state = 'open'
        and ($1 or exists (select from etl.jobs d where d.state = 'done' and d.run_id = j.run_id)) limit 1`
      return (await original.pool.query(amid, [rows === 5_000])).rows.length > 0
    }
    while (charged() < before + 300 || !(await isAmid())) await setTimeout(20)
    const backup = await copyAtWork(original)
    try {
      const { code, stderr } = await running.result
      expect(code, stderr).toBe(0)
      expect(charged()).toBe(all)
      await run(backup, 'migrate', '--as', 'restored')
      await run(backup, ...august)
      expect(charged(), 'nothing is bought again').toBe(all)
      const open = await backup.pool.query(`select from etl.jobs where state not in ('done', 'replaced')`)
      expect(open.rows).toHaveLength(0)
      const booked = await backup.pool.query(
        `select sum(credits)::float8 as credits, sum(uncertain)::float8 as uncertain, sum(requests)::int as pages from etl.request_credits`,
      )
      const pages = service.books.charges.length
      expect(booked.rows).toEqual([{ credits: charged(), uncertain: 0, pages }])
      const aside = await backup.pool.query(`select from etl.jobs where reserved_credits is not null`)
      expect(aside.rows).toHaveLength(0)
    } finally {
      await backup.drop()
      await close()
    }
  },
)

test('a restored ledger takes no pages of a walk that was killed for an answer', async () => {
  const prices = { keywords: { by: 'rows-returned', credits: 0.1 } } as const
  const { service, original, restored, run, start, charged, close } = await openWorld({ keywords: 5_000, prices })
  const august = walks('2026-08', '--only', 'domain=a.com;country=us', '--yes')
  try {
    const before = charged()
    service.configure({
      replies: [{ endpoint: 'keywords', match: ['offset=4000'], times: 1, status: 503, headers: { 'retry-after': '60' } }],
    })
    const killed = start(original, ...august)
    while (charged() < before + 400) await setTimeout(20)
    // What came is saved within a second.
    await setTimeout(2_500)
    killed.child.kill('SIGKILL')
    await killed.result
    service.configure({ replies: [] })
    await run(restored, 'migrate', '--as', 'restored')
    await run(restored, ...august)
    const { rows } = await restored.pool.query(
      `select (select count(*) from data.keywords_v1 where month = '2026-08-01')::int as rows,
        (select count(*) from etl.jobs where state = 'held')::int as held`,
    )
    expect(rows).toEqual([{ rows: 5_000, held: 0 }])
    expect(charged()).toBe(before + 400 + 500)
  } finally {
    await close()
  }
})
