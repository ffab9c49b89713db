// Another number of first rows is wanted: every loaded month is planned again, those too that are closed because nothing asks about them any more.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { pipelinesOfRepository, summaryOf } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

test('months older than the look-back are loaded with the new number, once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-other-top-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\nb.com\n')
  const file = join(folder, 'pipelines', 'keywords.yaml')
  const yaml = readFileSync(file, 'utf8').replace('country: [us, gb]', 'country: [us]')
  const topped = (top: number): void => writeFileSync(file, yaml.replace(/params: \{ /, `params: { top: ${top}, `))
  const db = await createTestDatabase()
  const service = await startVendorSandbox({ requestsPerSecond: null, keywords: 80 })
  const backfill = async () => {
    const ended = await runWarm(
      ['backfill', 'keywords', '--from', '2026-05', '--to', '2026-05', '--json'],
      {
        WEB_ANALYTICS_BASE_URL: service.url,
        WEB_ANALYTICS_API_KEY: service.apiKey,
        WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
        DATABASE_URL: db.url,
        MILLRACE_HOME: join(folder, 'home'),
      },
      folder,
    )
    expect(ended.code, ended.stdout + ended.stderr).toBe(0)
    return summaryOf(ended).units
  }
  const rows = async (): Promise<unknown> =>
    (await db.database.pool.query('select domain, count(*)::int as n from data.keywords_v1 group by 1 order by 1')).rows
  try {
    writeFileSync(file, yaml)
    expect(await backfill()).toMatchObject({ planned: 2, loaded: 2 })
    expect(await backfill()).toMatchObject({ loaded: 0, unchanged: 2 })
    // All rows are another number than 20, too.
    topped(20)
    expect(await backfill()).toMatchObject({ planned: 2, loaded: 2 })
    expect(await backfill()).toMatchObject({ loaded: 0, unchanged: 2 })
    topped(40)
    expect(await backfill()).toMatchObject({ loaded: 2 })
    expect(await rows()).toEqual([
      { domain: 'a.com', n: 40 },
      { domain: 'b.com', n: 40 },
    ])
    expect(await backfill()).toMatchObject({ loaded: 0, unchanged: 2 })
  } finally {
    await service.close()
    await db.drop()
    rmSync(folder, { recursive: true, force: true })
  }
})
