// The real command against a server that follows the interface to the letter and offers nothing else.
import { gzipSync } from 'node:zlib'
import { beforeEach, describe, expect, test } from 'vitest'
import { startCommand, summaryOf } from '../support/command.ts'
import {
  type KeywordRecord,
  monthsAsked,
  type StrictOptions,
  type StrictService,
  startStrictService,
} from '../support/strict-service.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const key = 'strict-key-0123456789'

const { folder, serve, edit, environment, millrace, query } = testWorld<StrictService>({
  each: true,
  lists: { domains: ['a.com', 'b.com'] },
  settings: { WEB_ANALYTICS_API_KEY: key },
  json: true,
})

beforeEach(() => edit('traffic_and_engagement', ['poll_every: 5s', 'poll_every: 1s']))

const records = (domain: string, count = 25): KeywordRecord[] =>
  Array.from({ length: count }, (_, index) => ({
    keyword: `${domain} keyword ${index}`,
    top_url: `${domain}/page`,
    clicks: 1000 - index,
    traffic_share: 0.01,
    difficulty: index % 3 === 0 ? null : index,
    primary_intent: 'Informational',
    secondary_intent: null,
    volume: 10,
    cpc: 1.25,
    cpc_low_bid: 0.5,
    cpc_high_bid: 2.5,
    zero_clicks_share: 0.3,
    position: index + 1,
    serp_features: ['news', 'video'],
  }))

const reportCsv: StrictOptions['report'] = (request, kind) => {
  const table =
    kind === 'report' ? (request as { report_query: { tables: [Record<string, unknown>] } }).report_query.tables[0] : request
  const metrics = table['metrics'] as string[]
  const filters = (table['filters'] ?? {}) as Record<string, string[]>
  const domains = filters['domains'] ?? (table['domains'] as string[])
  const others = kind === 'report' ? (filters['countries'] ?? []) : (table['category_ids'] as number[]).map(String)
  const figures = metrics.map((_, index) => (index === 1 ? '' : `${index}.50`))
  const lines = monthsAsked(table).flatMap((month) =>
    domains.flatMap((domain) => others.map((other) => [domain, other, `${month}-01`, ...figures].join(','))),
  )
  return [['domain', kind === 'report' ? 'country' : 'category_id', 'date', ...metrics].join(','), ...lines, ''].join('\n')
}

const start = (options: Partial<StrictOptions> = {}): Promise<StrictService> =>
  serve(startStrictService({ key, keywords: (domain) => records(domain), report: reportCsv, ...options }))

const publish = async (): Promise<void> => {
  const result = await millrace('migrate')
  expect(result.stderr).toBe('')
  expect(result.code).toBe(0)
}

const all = ['keywords', 'traffic_and_engagement', 'shopper_category_performance']

describe('an outside server with only the endpoints of the interface', () => {
  test('every pipeline is loaded into its bi view, and loading again asks for nothing and writes nothing', async () => {
    const strict = await start()
    await publish()
    const first = await succeeded(millrace('backfill', ...all, '--from', '2026-08', '--to', '2026-09'))
    expect(summaryOf(first).units).toMatchObject({ failed: 0, held: 0, waiting: 0 })
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 200 }])
    expect(
      await query(
        `select all_traffic_visits, mobile_visits from bi.traffic_and_engagement where domain = 'a.com' and country = 'world' and date = '2026-08-01'`,
      ),
    ).toEqual([{ all_traffic_visits: '0.50', mobile_visits: null }])
    expect(await query(`select date, count(*)::int as n from bi.traffic_and_engagement group by 1 order by 1`)).toEqual([
      { date: '2026-08-01', n: 6 },
      { date: '2026-09-01', n: 6 },
    ])
    expect((await query('select distinct category_id from bi.shopper_category_performance')).length).toBeGreaterThan(1)
    const bought = strict.bought.length
    const requests = strict.requests.length
    const second = await succeeded(millrace('backfill', ...all, '--from', '2026-08', '--to', '2026-09'))
    expect(summaryOf(second)).toMatchObject({ requests: 0, reports_submitted: 0, rows: { read: 0, inserted: 0, updated: 0 } })
    expect([strict.bought.length, strict.requests.length]).toEqual([bought, requests])
  })

  test('the key goes with no download and stands in no landing file, log or table', async () => {
    const strict = await start()
    await publish()
    const result = await millrace('backfill', ...all, '--from', '2026-09', '--to', '2026-09')
    expect(strict.requests.filter((request) => request.path.startsWith('/files/')).length).toBeGreaterThan(0)
    expect(strict.requests.some((request) => request.keyAtDownload)).toBe(false)
    expect(result.stdout + result.stderr).not.toContain(key)
    for (const table of ['processes', 'runs', 'pipelines', 'jobs', 'reports', 'answers', 'requests', 'loads', 'events']) {
      expect(await query(`select * from etl.${table} t where t::text like '%${key}%'`)).toEqual([])
    }
  })

  test.each([
    ['gzip that calls itself identity', 'identity', (text: string) => gzipSync(text)],
    ['UTF-16', 'identity', (text: string) => Buffer.from(text, 'utf16le')],
  ])('a page in %s is bought once: its words, with the NUL taken out, stand in the ledger', async (_, encoding, packed) => {
    const strict = await start({
      intercept: (request, response) => {
        if (!/keywords.*URL=a\.com.*offset=1000\b/.test(request.url ?? '')) return false
        const bytes = packed(JSON.stringify({ meta: {}, keywords: [], keywords_count: 0 }))
        response.writeHead(200, {
          ...{ 'content-type': 'application/json', 'content-encoding': encoding },
          'content-length': bytes.length,
        })
        response.end(bytes)
        return true
      },
      keywords: (domain) => records(domain, domain === 'a.com' ? 1500 : 5),
    })
    await publish()
    const args = ['backfill', 'keywords', '--from', '2026-09', '--to', '2026-09', '--only', 'domain=a.com,b.com;country=us']
    expect((await millrace(...args)).code).toBe(1)
    await millrace(...args)
    expect(strict.requests.filter(({ search }) => search.includes('URL=a.com'))).toHaveLength(2)
    expect(
      await query(
        `select error_code, error_message like '%did not answer with keywords%' as told from etl.jobs where state = 'held'`,
      ),
    ).toEqual([{ error_code: 'UNUSABLE', told: true }])
  })

  test('a NUL in what the service says of its data is no reason to buy it again', async () => {
    const strict = await start({ lastUpdated: () => '2026-11\0-10' })
    await publish()
    const args = ['backfill', 'keywords', '--from', '2026-09', '--to', '2026-09', '--only', 'domain=a.com;country=us']
    await succeeded(millrace(...args))
    expect(strict.requests.filter(({ search }) => search.includes('URL=a.com'))).toHaveLength(1)
  })

  const pageOf =
    (
      offset: number,
      status: number,
      change: (page: Record<string, unknown>) => unknown,
    ): NonNullable<StrictOptions['intercept']> =>
    (request, response) => {
      if (!request.url?.includes(`offset=${offset}&`)) return false
      const page = {
        meta: { last_updated: '2026-11-10' },
        keywords: records('a.com', 2500).slice(offset, offset + 1000),
        keywords_count: 2500,
      }
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(change(page)))
      return true
    }

  test.each([
    [
      'refused as not published',
      0,
      pageOf(1000, 400, () => ({ meta: { error_code: 101, error_message: 'Dates out of range' } })),
    ],
    ['whole, with the status of a proxy', 1000, pageOf(1000, 203, (page) => page)],
  ])('where the second page is %s, that from %i on is paid for once', async (_, offset, intercept) => {
    const strict = await start({ intercept, keywords: (domain) => records(domain, 2500) })
    await publish()
    const args = ['backfill', 'keywords', '--from', '2026-09', '--to', '2026-09', '--only', 'domain=a.com;country=us']
    for (const _ of [1, 2]) await millrace(...args)
    expect(strict.requests.filter(({ search }) => search.includes(`offset=${offset}&`))).toHaveLength(1)
  })

  test('pages are walked to the end and a domain of several pages is whole', async () => {
    await start({ keywords: (domain) => records(domain, 2345) })
    await publish()
    const result = await succeeded(
      millrace('backfill', 'keywords', '--from', '2026-09', '--to', '2026-09', '--only', 'domain=a.com;country=us'),
    )
    expect(summaryOf(result)).toMatchObject({ requests: 3, rows: { read: 2345, inserted: 2345 } })
  })

  test('a restated month is seen by the next run, and the old value stays readable', async () => {
    let clicks = 1000
    let updated = '2026-11-10'
    await start({
      keywords: (domain) => [{ ...records(domain, 1)[0], keyword: 'k', top_url: 'u', clicks }],
      lastUpdated: () => updated,
    })
    await publish()
    await millrace('backfill', 'keywords', '--from', '2026-10', '--to', '2026-10', '--only', 'domain=a.com;country=us')
    clicks = 7
    updated = '2026-11-15'
    // The months before it are no night's: they need the word.
    await succeeded(millrace('run', 'keywords', '--only', 'domain=a.com;country=us', '--yes'))
    expect(
      await query(`select clicks, _revision from bi.keywords_history where month = '2026-10-01' order by _revision`),
    ).toEqual([
      { clicks: '1000', _revision: 1 },
      { clicks: '7', _revision: 2 },
    ])
  })

  test('a run that is killed while its report is made goes on without buying again', async () => {
    const strict = await start({ pendingPolls: 6 })
    await publish()
    const args = ['backfill', 'traffic_and_engagement', '--from', '2026-09', '--to', '2026-09', '--only', 'country=us', '--json']
    const running = startCommand(args, environment(), folder)
    while (strict.bought.length === 0 || (strict.bought[0]?.polls ?? 0) < 2)
      await new Promise((resolve) => setTimeout(resolve, 50))
    running.child.kill('SIGKILL')
    await running.result
    await succeeded(millrace(...args.slice(0, -1)))
    expect(strict.bought).toHaveLength(1)
    expect(await query('select count(*)::int as n from bi.traffic_and_engagement')).toEqual([{ n: 2 }])
  })

  test('a submission whose answer is lost is held, shown, and sent again only with consent', async () => {
    let drop = true
    const strict = await start({
      intercept: (request) => {
        if (!drop || !(request.url ?? '').includes('request-report')) return false
        request.socket.destroy()
        return true
      },
    })
    await publish()
    const args = ['backfill', 'traffic_and_engagement', '--from', '2026-09', '--to', '2026-09', '--only', 'country=us']
    const lost = await millrace(...args)
    expect(lost.code).toBe(1)
    // One purchase of two domains.
    expect(summaryOf(lost).units).toMatchObject({ planned: 2, held: 2 })
    drop = false
    const again = await millrace(...args)
    expect(again.code).toBe(1)
    expect(strict.bought).toHaveLength(0)
    expect(await query(`select distinct job_id is null as over, error_code from etl.unit_list where state = 'held'`)).toEqual([
      { over: false, error_code: 'REPORT_UNCERTAIN' },
    ])
    await succeeded(millrace(...args, '--resubmit-uncertain'))
    expect(strict.bought).toHaveLength(1)
  })

  test('replay loads from the landing with no call at all', async () => {
    const strict = await start()
    await publish()
    await millrace('backfill', 'keywords', '--from', '2026-09', '--to', '2026-09')
    const requests = strict.requests.length
    await query('delete from data.keywords_v1')
    await succeeded(millrace('replay', 'keywords', '--from', '2026-09', '--to', '2026-09'))
    expect(strict.requests).toHaveLength(requests)
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 100 }])
  })
})
