// Filters of the keyword service as things a pipeline runs for: one definition asks for each, and no mart adds what overlaps. And attributes, which each run applies.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { loadMarts } from '../../src/definition/marts.ts'
import { summaryOf } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const world = sandboxWorld({
  lists: { domains: ['a.example', 'b.example'] },
  sandbox: { keywordsPerDomain: 200, now: '2026-03-20' },
  json: true,
})
const { folder, edit, query } = world
const command = world.millrace

beforeAll(async () => {
  edit(
    'keywords',
    ['params: { traffic_source: All, web_source: Total, branded_type: All }\n', ''],
    [
      '  country: [us, gb]',
      '  country: [us]\n  branded_type: [Branded, NonBranded, All]\n  web_source: [Desktop, Total]\n  traffic_source: [Organic, All]',
    ],
  )
  await succeeded(command('migrate'))
  expect(summaryOf(await succeeded(backfill())).units).toMatchObject({ loaded: 24, failed: 0 })
}, 120_000)

const backfill = (...more: string[]) => command('backfill', 'keywords', '--from', '2026-01', '--to', '2026-01', ...more)

test('each value is a unit of its own, the split is the service’s own, and no mart has fewer lines than there are filters', async () => {
  // The service counts whole clicks of each keyword, once by its class and once among all.
  const split = await query<{ branded: string; others: string; whole: string; share: number }>(
    `select clicks_branded as branded, clicks_non_branded as others, clicks_all as whole, share_branded::float8 as share
    from bi.keyword_brand_split order by domain, web_source, traffic_source`,
  )
  expect(split).toHaveLength(8)
  for (const { branded, others, whole, share } of split) {
    expect(Number(branded) + Number(others)).toBe(Number(whole))
    expect(share).toBeCloseTo(Number(branded) / Number(whole), 5)
  }
  const truth = await query(
    `select domain, web_source, traffic_source, branded_type, sum(clicks)::text as clicks from bi.keywords group by 1, 2, 3, 4 order by 1, 2, 3, 4`,
  )
  const summed =
    'select domain, web_source, traffic_source, branded_type, clicks::text from bi.keyword_months order by 1, 2, 3, 4'
  expect(await query(summed)).toEqual(truth)
  const reading = (await loadMarts([])).filter(({ reads }) =>
    reads.some((name) => name === 'keywords' || name === 'keyword_months'),
  )
  for (const { name } of reading.filter((mart) => mart.name !== 'keyword_brand_split')) {
    const columns = (
      await query<{ name: string }>(`select attname as name from pg_attribute where attrelid = 'bi.${name}'::regclass`)
    ).map((column) => column.name)
    expect(columns, name).toEqual(expect.arrayContaining(['traffic_source', 'web_source', 'branded_type']))
  }
})

test('a run renews statistics of what changed enough', async () => {
  // Sessions say what they wrote by the time they end.
  const live = `select coalesce(sum(n_live_tup), 0)::int as rows from pg_stat_all_tables where schemaname = 'data' and relname like 'keywords_v1_p%'`
  await expect.poll(async () => (await query<{ rows: number }>(live))[0]?.rows, { timeout: 60_000 }).toBeGreaterThan(1_000)
  await succeeded(backfill('--force'))
  expect(
    await query(`select count(*) > 5 as known from pg_stats where schemaname = 'data' and tablename = 'keywords_v1'`),
  ).toEqual([{ known: true }])
})

test('a run applies attributes that changed, also one that loads nothing, and stays with those it had where a file has a mistake', async () => {
  const groups = () => query<{ domain: string; group: string }>(`select domain, domain_group as group from bi.domains order by 1`)
  const write = (text: string): void => writeFileSync(join(folder, 'attributes', 'domains.csv'), text)
  mkdirSync(join(folder, 'attributes'))
  write('domain,group\na.example,Ours\n')
  await succeeded(backfill())
  const ours = [
    { domain: 'a.example', group: 'Ours' },
    { domain: 'b.example', group: '(none)' },
  ]
  expect(await groups()).toEqual(ours)
  write('domain,group\na.example,Ours\nb.example,Theirs,too many\n')
  const mistaken = await succeeded(backfill())
  expect(mistaken.events).toContainEqual(
    expect.objectContaining({
      event: 'notice',
      code: 'DEFINITION',
      message: expect.stringMatching(/Attributes stay as they were: .*domains\.csv:3/s),
    }),
  )
  expect(await groups()).toEqual(ours)
  // A machine without the folder takes nothing away; `migrate` does.
  rmSync(join(folder, 'attributes'), { recursive: true })
  await succeeded(backfill())
  expect(await groups()).toEqual(ours)
  await succeeded(command('migrate'))
  expect(await groups()).toMatchObject([{ group: '(none)' }, { group: '(none)' }])
})
