// Pages that were bought after a backup: the ledger that is restored from it has their bills from the landings, so that budgets and the service's books agree.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { pipelinesOfRepository } from '../support/command.ts'
import { type CopiedDatabase, copyDatabase } from '../support/copied-database.ts'
import { runWarm } from '../support/warm-command.ts'

test('a restored ledger books the bills of pages that it takes up', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-restored-bills-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\nb.com\n')
  const service = await startVendorSandbox({ requestsPerSecond: null, keywords: 50 })
  const original = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  const charged = (): number => service.books.charges.reduce((sum, { credits }) => sum + credits, 0)
  const backfill = async (database: CopiedDatabase, month: string) => {
    const ended = await runWarm(
      ['backfill', 'keywords', '--from', month, '--to', month, '--json'],
      {
        WEB_ANALYTICS_BASE_URL: service.url,
        WEB_ANALYTICS_API_KEY: service.apiKey,
        WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
        DATABASE_URL: database.url,
        MILLRACE_HOME: join(folder, `home${new URL(database.url).pathname.replaceAll('/', '-')}`),
        MILLRACE_LANDING: join(folder, 'landing'),
      },
      folder,
    )
    expect(ended.code, ended.stdout + ended.stderr).toBe(0)
  }
  await backfill(original, '2026-07')
  const restored = await original.copy()
  try {
    await backfill(original, '2026-08')
    const before = charged()
    await backfill(restored, '2026-08')
    expect(charged(), 'nothing is bought again').toBe(before)
    const { rows } = await restored.pool.query(
      `select sum(used_quota)::float8 as used, sum(unpriced)::int as unpriced from etl.spending`,
    )
    expect(rows).toEqual([{ used: before, unpriced: 0 }])
  } finally {
    await service.close()
    await restored.drop()
    await original.drop()
    rmSync(folder, { recursive: true, force: true })
  }
})
