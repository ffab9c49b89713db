// One more vtable is two files and no TypeScript of ours: made, migrated, loaded and read like the shipped ones.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { startStrictService } from '../support/strict-service.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const key = 'dataset-key-0123456789'
const world = testWorld({
  each: true,
  service: () =>
    startStrictService({
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
    }),
})
const { folder, db, service } = world

const millrace = (...args: string[]) => withKey(key, ...args)

const withKey = (apiKey: string, ...args: string[]) => world.start([...args, '--json'], { WEB_ANALYTICS_API_KEY: apiKey }).result

const edit = (file: string, from: RegExp, to: string): void => writeFileSync(file, readFileSync(file, 'utf8').replace(from, to))
const fillIn = (yaml: string): void => edit(yaml, /FILL IN:.*(?=")/g, 'Visits by channel')

describe('a fourth dataset', () => {
  test('is written, filled in, migrated, loaded and published with two files, and changed with a third', async () => {
    const made = await succeeded(millrace('new', 'dataset', 'traffic_sources'))
    const yaml = join(folder, String((made.events.at(-1)?.['files'] as unknown[] | undefined)?.[0]))
    // This service describes nothing: what has to be filled in is named, and nothing goes on before.
    expect(made.stderr).toContain('Fill them in, unless its source declares them.')
    expect((await millrace('new', 'migration', 'traffic_sources')).stderr).toMatch(
      /traffic_sources\.yaml:\d+:\d+: .* is a placeholder/,
    )
    fillIn(yaml)
    const migration = await succeeded(millrace('new', 'migration', 'traffic_sources'))
    const file = String((migration.events.at(-1)?.['files'] as unknown[] | undefined)?.[0])
    expect(readFileSync(join(folder, file), 'utf8')).toContain('data.traffic_sources_v1')
    expect((await millrace('backfill', 'traffic_sources', '--from', '2026-09', '--to', '2026-09')).code).toBe(2)
    await succeeded(millrace('migrate'))
    await succeeded(millrace('check', '--offline'))
    const loaded = await succeeded(millrace('backfill', 'traffic_sources', '--from', '2026-09', '--to', '2026-09'))
    expect(summaryOf(loaded).rows.inserted).toBeGreaterThan(0)
    const rows = await db.query<{ n: number }>('select count(*)::int as n from bi.traffic_sources')
    expect(rows[0]?.n).toBe(summaryOf(loaded).rows.inserted)

    expect((await millrace('new', 'migration', 'traffic_sources')).events.at(-1)).toMatchObject({ kind: 'none', files: [] })
    edit(yaml, /^ {4}my_metric:.*$/m, '$&\n    bounce_rate: { type: numeric, description: Bounce rate }')
    const change = await millrace('new', 'migration', 'traffic_sources')
    expect(change.events.at(-1)).toMatchObject({ kind: 'change', files: [expect.stringMatching(/_v1_add_bounce_rate\.ts$/)] })
    // Not applied yet, and counted all the same.
    expect((await millrace('new', 'migration', 'traffic_sources')).events.at(-1)).toMatchObject({ kind: 'none' })
    await succeeded(millrace('migrate'))
    await succeeded(millrace('backfill', 'traffic_sources', '--from', '2026-09', '--to', '2026-09', '--force'))
    const filled = await db.database.pool.query<{ n: number }>('select count(bounce_rate)::int as n from bi.traffic_sources')
    expect(filled.rows[0]?.n).toBe(summaryOf(loaded).rows.inserted)
  }, 150_000)

  test('whose table cannot become what its definition says is refused by name, and no migration is written', async () => {
    await millrace('new', 'dataset', 'traffic_sources')
    const yaml = join(folder, 'pipelines', 'traffic_sources.yaml')
    fillIn(yaml)
    await millrace('new', 'migration', 'traffic_sources')
    const before = readdirSync(join(folder, 'migrations'))
    edit(yaml, /my_metric: \{ type: numeric/, 'my_metric: { type: bigint')
    edit(yaml, /^ {4}my_metric:.*$/m, '$&\n    sure: { type: numeric, nullable: false, description: Always there }')
    const result = await millrace('new', 'migration', 'traffic_sources')
    expect(result.code).toBe(2)
    expect(result.stderr).toContain(
      'data.traffic_sources_v1.my_metric is numeric, the definition says bigint; a changed type is a new version.',
    )
    expect(result.stderr).toContain('data.traffic_sources_v1.sure is new and not nullable')
    expect(result.stderr).toMatch(/Migration \d{4}_traffic_sources_v1 is not applied here yet: delete its file/)
    expect(readdirSync(join(folder, 'migrations'))).toEqual(before)
  })

  test('whose table comes with the program is told to take another name: its migration is nobody’s to delete', async () => {
    edit(join(folder, 'pipelines', 'keywords.yaml'), /volume: \{ type: numeric/, 'volume: { type: bigint')
    const { code, stderr } = await millrace('new', 'migration', 'keywords')
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('Its table comes with Millrace: give the pipeline another name, or a new version.'),
    ])
    expect(stderr).not.toContain('delete')
  })

  test('is refused, with nothing written, where the name is taken', async () => {
    const before = readFileSync(join(folder, 'pipelines', 'keywords.yaml'), 'utf8')
    const result = await millrace('new', 'dataset', 'keywords')
    expect(result.code).toBe(2)
    expect(result.stderr).toMatch(/exists already/)
    expect(readFileSync(join(folder, 'pipelines', 'keywords.yaml'), 'utf8')).toBe(before)
  })

  test.each([
    ['wrong-key-0123456789', 1, 'KEY_REFUSED'],
    ['', 2, 'CONFIGURATION'],
  ])('is not written half, which would stop every command, where the key is %j', async (apiKey, code, named) => {
    const before = readdirSync(join(folder, 'pipelines'))
    const refused = await withKey(apiKey, 'new', 'dataset', 'traffic_sources')
    expect([refused.code, refused.events.at(-2)]).toEqual([
      code,
      expect.objectContaining({ code: named, message: expect.stringContaining('--offline') }),
    ])
    expect(readdirSync(join(folder, 'pipelines'))).toEqual(before)
  })

  test('that is filled in wrongly is named by file, line and column before anything is called', async () => {
    await millrace('new', 'dataset', 'traffic_sources', '--offline')
    const file = join(folder, 'pipelines', 'traffic_sources.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^window:/m, 'windw:'))
    const result = await millrace('run')
    expect(result.code).toBe(2)
    expect(result.stderr).toMatch(/traffic_sources\.yaml:\d+:\d+/)
    expect(result.stderr).toMatch(/window/)
    const problem = { file, line: expect.any(Number), column: 1, message: expect.stringContaining("'windw' is not known") }
    expect(result.events.at(-2)).toMatchObject({
      event: 'error',
      code: 'DEFINITION',
      problems: expect.arrayContaining([problem]),
    })
    expect(service.requests).toHaveLength(0)
  })
})
