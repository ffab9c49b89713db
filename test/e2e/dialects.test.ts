// The real command against a service with two faces, switched while a backfill is under way: nothing is asked for twice, rows and keys are the same.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Route, startVendorSandbox, type VendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { pipelinesOfRepository, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { succeeded } from '../support/test-world.ts'
import { v5Routes } from '../support/vendor-v5.ts'
import { runWarm } from '../support/warm-command.ts'

type Dialect = 'v4' | 'v5'

/** So many in `npm test`; more by the variable. */
const switches = Number(process.env['MILLRACE_DIALECT_SWITCHES'] ?? 1)
const pageCredits = 130
const pages = 2 * 2 * 2

/** A warehouse of its own, and the service it asks. */
interface World {
  readonly folder: string
  readonly db: TestDatabase
  readonly service: VendorSandbox
  close(): Promise<void>
}

const openWorld = async (routes: readonly Route[] = v5Routes): Promise<World> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-dialects-'))
  const pipelines = join(folder, 'pipelines')
  mkdirSync(pipelines)
  for (const name of ['keywords', 'traffic_and_engagement']) {
    const yaml = readFileSync(join(pipelinesOfRepository, `${name}.yaml`), 'utf8')
    // A report that is not there at once waits for the next command, which may speak otherwise.
    writeFileSync(join(pipelines, `${name}.yaml`), yaml.replace(/deadline: \w+/, 'deadline: 1s'))
  }
  cpSync(join(pipelinesOfRepository, 'schema.json'), join(pipelines, 'schema.json'))
  writeFileSync(join(pipelines, 'domains.txt'), 'a.com\nb.com\n')
  mkdirSync(join(folder, 'marts'))
  cpSync(join(pipelinesOfRepository, '..', 'marts', 'restatements.sql'), join(folder, 'marts', 'restatements.sql'))
  const service = await startVendorSandbox({ requestsPerSecond: null, keywords: 30 }, routes)
  const db = await createTestDatabase()
  const close = async (): Promise<void> => {
    await service.close()
    await db.drop()
    rmSync(folder, { recursive: true, force: true })
  }
  return { folder, db, service, close }
}

const range = ['--from', '2026-07', '--to', '2026-08']

const backfill = (world: World, dialect: Dialect, ...more: string[]) =>
  millrace(world, dialect, 'backfill', 'keywords', 'traffic_and_engagement', ...range, '--yes', ...more)

const millrace = ({ folder, db, service }: World, dialect: Dialect, ...args: string[]) =>
  runWarm(
    [...args, '--json'],
    {
      WEB_ANALYTICS_BASE_URL: service.url,
      WEB_ANALYTICS_API_KEY: service.apiKey,
      WEB_ANALYTICS_DIALECT: dialect,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
      DATABASE_URL: db.url,
      MILLRACE_HOME: join(folder, 'home'),
    },
    folder,
  )

const shared =
  'month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, traffic_share, difficulty, competition, volume, cpc, zero_clicks_share, position, serp_features'
const traffic = 'date, granularity, domain, country, include_subdomains, all_traffic_visits, mobile_visits, all_page_views'

const rowsOf = async ({ db }: World): Promise<unknown> => {
  const read = (text: string): Promise<unknown> => db.query(text)
  return [
    await read(
      `select md5(string_agg(t::text, '|' order by t::text)) as digest, count(*) as n from (select ${shared} from data.keywords_v1) t`,
    ),
    await read(
      `select md5(string_agg(t::text, '|' order by t::text)) as digest, count(*) as n from (select ${traffic} from data.traffic_and_engagement_v1) t`,
    ),
  ]
}

const spent = ({ service }: World): unknown => ({
  rest: service.books.charges
    .filter(({ purse }) => purse === 'rest')
    .map(({ what }) => what)
    .sort(),
  batch: service.books.charges.filter(({ purse }) => purse === 'batch').reduce((sum, { credits }) => sum + credits, 0),
  reports: service.books.reports.size,
})

/** Repeatable. */
const numbers = (seed: number): (() => number) => {
  let state = seed * 2_654_435_761
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) | 0
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32
  }
}

/** Dialects that answers were asked for in, over all seeds. */
const spoken = new Set<string>()

let truth: { readonly rows: unknown; readonly spent: unknown }

/** Asked in V4 alone. */
let calm: World

beforeAll(async () => {
  calm = await openWorld()
  await succeeded(backfill(calm, 'v4'))
  truth = { rows: await rowsOf(calm), spent: spent(calm) }
  expect(truth.spent).toMatchObject({ rest: expect.objectContaining({ length: pages }), reports: 1 })
})
afterAll(() => calm.close())

describe('a switch of the dialect', () => {
  test('in the middle of a backfill asks for nothing twice: the same rows in what both have, the same credits, no key in an address of V5', async () => {
    for (let seed = 1; seed <= switches; seed += 1) {
      const random = numbers(seed)
      const world = await openWorld()
      const { service } = world
      let bought = 0
      let dialect: Dialect = random() < 0.5 ? 'v4' : 'v5'
      for (let leg = 1; leg <= 12; leg += 1) {
        bought = Math.min(pages, bought + Math.floor(random() * 4))
        const isLast = leg === 12 || bought === pages
        service.configure({
          purses: { rest: isLast ? null : bought * pageCredits, batch: null },
          reportMs: leg === 1 ? 2_500 : 0,
        })
        const before = service.books.keysInUrls
        const run = await backfill(world, dialect)
        if (dialect === 'v5') expect(service.books.keysInUrls, `seed ${seed}`).toBe(before)
        dialect = dialect === 'v4' ? 'v5' : 'v4'
        if (run.code === 0 && isLast && summaryOf(run).units.waiting === 0) break
      }
      const { rows } = await world.db.database.pool.query<{ spoken: string }>(
        `select string_agg(distinct dialect, ' ' order by dialect) as spoken from etl.answers`,
      )
      for (const row of rows) spoken.add(row.spoken)
      expect(await rowsOf(world), `seed ${seed}`).toEqual(truth.rows)
      expect(spent(world), `seed ${seed}`).toEqual(truth.spent)
      await world.close()
    }
    expect([...spoken]).toContain('v4 v5')
  }, 3_600_000)
})

describe('a field that the other dialect lacks', () => {
  const bids = async (): Promise<unknown> =>
    (
      await calm.db.database.pool.query(
        'select count(*)::int as n, count(cpc_low_bid)::int as low, count(cpc)::int as cpc, max(_revision) as revision from data.keywords_v1',
      )
    ).rows[0]

  test('is absent and not 0, is no drift, and the revision it makes says why', async () => {
    expect(await bids()).toEqual({ n: 240, low: 240, cpc: 240, revision: 1 })
    const run = await succeeded(backfill(calm, 'v5', '--force'))
    expect(summaryOf(run).units).toMatchObject({ held: 0, failed: 0 })
    expect(await bids()).toEqual({ n: 240, low: 0, cpc: 240, revision: 2 })
    await millrace(calm, 'v4', 'migrate')
    const { rows } = await calm.db.database.pool.query('select distinct pipeline, cause from bi.restatements order by 1, 2')
    expect(rows).toEqual([{ pipeline: 'keywords', cause: 'dialect' }])
    // Parsed again as it was asked for, whatever is spoken now.
    await succeeded(millrace(calm, 'v4', 'replay', 'keywords', ...range))
    expect(await bids()).toEqual({ n: 240, low: 0, cpc: 240, revision: 2 })
  })
})

/** Some pages of V5 take an offset for the number of a page (api-facts 35). */
const byPageNumber = v5Routes.map(
  ([method, path, endpoint, hasKey, answer]): Route => [
    ...([method, path, endpoint, hasKey] as const),
    (of, asked, id) => {
      const url = new URL(asked.url)
      const [offset, limit] = ['offset', 'limit'].map((name) => Number(url.searchParams.get(name) ?? 0))
      if (endpoint === 'keywords') url.searchParams.set('offset', String((offset ?? 0) * (limit ?? 0)))
      return answer(of, { ...asked, url }, id)
    },
  ],
)

test('a service that takes an offset for the number of a page loads no first page as the whole, and is paid for two pages', async () => {
  const world = await openWorld(byPageNumber)
  const file = join(world.folder, 'pipelines', 'keywords.yaml')
  writeFileSync(file, readFileSync(file, 'utf8').replace('page_size: 1000', 'page_size: 10'))
  const month = ['--from', '2026-08', '--to', '2026-08', '--only', 'domain=a.com;country=us', '--yes']
  const run = await millrace(world, 'v5', 'backfill', 'keywords', ...month)
  expect(summaryOf(run).units).toMatchObject({ loaded: 0, held: 1 })
  expect(run.stderr).toMatch(/the first page is full and the next one is empty.*page_size/)
  expect(world.service.books.counts['keywords']).toBe(2)
  const again = await millrace(world, 'v5', 'backfill', 'keywords', ...month)
  expect([summaryOf(again).units['loaded'], world.service.books.counts['keywords']]).toEqual([0, 2])
  await world.close()
})
