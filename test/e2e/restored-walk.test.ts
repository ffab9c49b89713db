// A backup restored while the original goes on, in the middle of a walk whose pages are paid for one by one: half a walk is nobody's answer.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, inject, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { pipelinesOfRepository, startCommand } from '../support/command.ts'
import { type CopiedDatabase, copyDatabase } from '../support/copied-database.ts'
import { runWarm } from '../support/warm-command.ts'

test('a restored ledger takes no pages of a walk that was killed for an answer', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-restored-walk-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\n')
  const service = await startVendorSandbox({
    ...{ requestsPerSecond: null, keywords: 5_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } },
  })
  const original = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  const charged = (): number => service.books.charges.reduce((sum, { credits }) => sum + credits, 0)
  const environment = (database: CopiedDatabase) => ({
    WEB_ANALYTICS_BASE_URL: service.url,
    WEB_ANALYTICS_API_KEY: service.apiKey,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
    DATABASE_URL: database.url,
    MILLRACE_HOME: join(folder, `home${new URL(database.url).pathname.replaceAll('/', '-')}`),
    MILLRACE_LANDING: join(folder, 'landing'),
  })
  const walk = (month: string): string[] => [
    'backfill',
    'keywords',
    '--from',
    month,
    '--to',
    month,
    '--only',
    'country=us',
    '--yes',
    '--json',
  ]
  const first = await runWarm(walk('2026-07'), environment(original), folder)
  expect([first.code, charged()], first.stdout + first.stderr).toEqual([0, 500])
  const restored = await original.copy()
  try {
    service.configure({
      replies: [{ endpoint: 'keywords', match: ['offset=4000'], times: 1, status: 503, headers: { 'retry-after': '60' } }],
    })
    const killed = startCommand(walk('2026-08'), environment(original), folder)
    while (charged() < 900) await setTimeout(20)
    await setTimeout(2_500)
    killed.child.kill('SIGKILL')
    await killed.result
    service.configure({ replies: [] })
    const decided = await runWarm(['migrate', '--as', 'restored', '--json'], environment(restored), folder)
    expect(decided.code, decided.stderr).toBe(0)
    const again = await runWarm(walk('2026-08'), environment(restored), folder)
    expect(again.code, again.stdout + again.stderr).toBe(0)
    const { rows } = await restored.pool.query(
      `select (select count(*) from data.keywords_v1)::int as rows, (select count(*) from etl.jobs where state = 'held')::int as held`,
    )
    expect(rows).toEqual([{ rows: 10_000, held: 0 }])
    expect(charged()).toBe(500 + 400 + 500)
  } finally {
    await service.close()
    await restored.drop()
    await original.drop()
    rmSync(folder, { recursive: true, force: true })
  }
})
