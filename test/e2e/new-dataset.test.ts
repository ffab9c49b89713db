// One more vtable is two files and no TypeScript of ours: made, migrated, loaded and read like the shipped ones.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { pipelinesOfRepository, runCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { type StrictService, startStrictService } from '../support/strict-service.ts'

let folder: string
let db: TestDatabase
let service: StrictService
const key = 'dataset-key-0123456789'

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-dataset-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  db = await createTestDatabase()
  service = await startStrictService({
    key,
    keywords: () => [],
    report: (request) => {
      const [table] = (
        request as {
          report_query: {
            tables: [{ metrics: string[]; filters: { domains: string[]; countries: string[] }; start_date: string }]
          }
        }
      ).report_query.tables
      const lines = table.filters.domains.flatMap((domain) =>
        table.filters.countries.map((country) =>
          [domain, country, table.start_date, ...table.metrics.map((_, index) => String(index + 0.5))].join(','),
        ),
      )
      return [['domain', 'country', 'date', ...table.metrics].join(','), ...lines, ''].join('\n')
    },
  })
})
afterEach(async () => {
  await service.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const millrace = (...args: string[]) =>
  runCommand(
    [...args, '--json'],
    {
      WEB_ANALYTICS_BASE_URL: service.url,
      WEB_ANALYTICS_API_KEY: key,
      DATABASE_URL: db.url,
      MILLRACE_HOME: join(folder, 'home'),
    },
    folder,
  )

describe('a fourth dataset', () => {
  test('is written, filled in, migrated, loaded and published with two files', async () => {
    const made = await millrace('new', 'dataset', 'traffic_sources')
    expect(made.code, made.stderr).toBe(0)
    const files = made.events.at(-1)?.['files'] as string[]
    expect(files).toHaveLength(2)
    const [yaml = '', migration = ''] = files.map((file) => join(folder, file))
    expect(readFileSync(yaml, 'utf8')).toContain('pipeline: traffic_sources')
    expect(readFileSync(migration, 'utf8')).toContain('data.traffic_sources_v1')
    expect((await millrace('backfill', 'traffic_sources', '--from', '2026-09', '--to', '2026-09')).code).toBe(2)
    const migrated = await millrace('migrate')
    expect(migrated.code, migrated.stderr).toBe(0)
    expect((await millrace('check', '--offline')).code).toBe(0)
    const loaded = await millrace('backfill', 'traffic_sources', '--from', '2026-09', '--to', '2026-09')
    expect(loaded.code, loaded.stderr).toBe(0)
    expect(summaryOf(loaded).rows.inserted).toBeGreaterThan(0)
    const { rows } = await db.database.pool.query<{ n: number }>('select count(*)::int as n from bi.traffic_sources')
    expect(rows[0]?.n).toBe(summaryOf(loaded).rows.inserted)
  })

  test('is refused, with nothing written, where the name is taken', async () => {
    const before = readFileSync(join(folder, 'pipelines', 'keywords.yaml'), 'utf8')
    const result = await millrace('new', 'dataset', 'keywords')
    expect(result.code).toBe(2)
    expect(result.stderr).toMatch(/exists already/)
    expect(readFileSync(join(folder, 'pipelines', 'keywords.yaml'), 'utf8')).toBe(before)
  })

  test('that is filled in wrongly is named by file, line and column before anything is called', async () => {
    await millrace('new', 'dataset', 'traffic_sources')
    const file = join(folder, 'pipelines', 'traffic_sources.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^window:/m, 'windw:'))
    const result = await millrace('run')
    expect(result.code).toBe(2)
    expect(result.stderr).toMatch(/traffic_sources\.yaml:\d+:\d+/)
    expect(result.stderr).toMatch(/window/)
    expect(service.requests).toHaveLength(0)
  })
})
