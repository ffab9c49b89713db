// The sandbox over a real socket: every endpoint of the interface, and what can be switched.
import { get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { afterEach, describe, expect, test } from 'vitest'
import { type Sandbox, startSandbox, usageOf } from '../../src/sandbox/sandbox-server.ts'
import {
  askKeywords,
  buy,
  call,
  closeAll,
  download,
  keywordQuery,
  linkOf,
  objectOf,
  raw,
  reportBody,
  shopperBody,
  start,
  statusOf,
} from './sandbox-client.ts'

const bulk = reportBody({ vtable: 'referrals', metrics: ['referral_visits', 'referral_share'] })

afterEach(closeAll)

describe('keyword research', () => {
  test('answers with the envelope of the interface', async () => {
    const answer = await askKeywords(await start(), { limit: '2' })
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
    const { keywords, ...rest } = objectOf(answer.text)
    expect(keywords).toHaveLength(2)
    expect(rest).toEqual({
      keywords_count: 400,
      meta: {
        query: { limit: 2, offset: 0, asc: null, sort: null },
        request: {
          traffic_source: 'All',
          branded_type: 'All',
          web_source: 'Total',
          page_search_type: 'Domain',
          domain: 'example.com',
          format: 'json',
          start_date: '2026-01-01',
          end_date: '2026-01-31',
          country: 'us',
        },
        status: 'Success',
        data_credits_charged: 1,
        last_updated: '2026-02-14',
      },
    })
  })

  test('pages fit together, and a page beyond the end is empty', async () => {
    const sandbox = await start({ keywordsByDomain: { 'example.com': 250 } })
    const rowsOf = async (query: Record<string, string>): Promise<unknown> =>
      objectOf((await askKeywords(sandbox, query)).text)['keywords']
    const pages = await Promise.all(['0', '100', '200'].map((offset) => rowsOf({ offset })))
    expect(pages.flat()).toEqual(await rowsOf({ limit: '2000' }))
    expect(pages.flat()).toHaveLength(250)
    expect(await rowsOf({ offset: '250' })).toEqual([])
  })

  test("a refused request says which field, in the service's error envelope", async () => {
    const answer = await askKeywords(await start(), { limit: '5000' })
    expect(answer.status).toBe(400)
    expect(objectOf(answer.text)).toEqual({
      meta: { status: 'Error', error_code: 100, error_message: "limit: '5000'; expected a whole number from 1 to 2000" },
    })
  })

  test("a month not yet published is code 101, the world's other spelling 103", async () => {
    const sandbox = await start({ now: '2026-02-09' })
    expect((await askKeywords(sandbox)).text).toContain('"error_code":101')
    expect((await askKeywords(sandbox, { country: 'WW' })).text).toContain('"error_code":103')
    sandbox.configure({ now: '2026-02-10' })
    expect((await askKeywords(sandbox)).status).toBe(200)
  })

  test('401 means a wrong key as plain text, and no data as JSON', async () => {
    const sandbox = await start({ keywordsByDomain: { 'example.com': 0 } })
    const wrongKey = await askKeywords({ url: sandbox.url, apiKey: 'nonsense' })
    expect([wrongKey.status, wrongKey.headers.get('content-type'), wrongKey.text]).toEqual([
      401,
      'text/plain; charset=utf-8',
      'invalid API key',
    ])
    const noData = await askKeywords(sandbox)
    expect([noData.status, objectOf(noData.text)]).toEqual([
      401,
      { meta: { status: 'Error', error_code: 401, error_message: 'Data not found' } },
    ])
  })

  test('volume and last_updated change on the 14th, the keywords do not', async () => {
    const sandbox = await start({ now: '2026-02-11' })
    const early = objectOf((await askKeywords(sandbox)).text)
    sandbox.configure({ now: '2026-02-14' })
    const settled = objectOf((await askKeywords(sandbox)).text)
    expect(early['meta']).toMatchObject({ last_updated: '2026-02-10' })
    expect(settled['meta']).toMatchObject({ last_updated: '2026-02-14' })
    expect(settled['keywords']).not.toEqual(early['keywords'])
    expect(settled['keywords_count']).toBe(early['keywords_count'])
  })

  test('a restatement changes the month and its date, and no other month', async () => {
    const sandbox = await start()
    const february = { start_date: '2026-02', end_date: '2026-02' }
    const [before, other] = [await askKeywords(sandbox), await askKeywords(sandbox, february)]
    sandbox.restate('2026-01')
    const after = await askKeywords(sandbox)
    expect(after.text).not.toBe(before.text)
    expect(objectOf(after.text)['meta']).toMatchObject({ last_updated: '2026-06-20' })
    expect((await askKeywords(sandbox, february)).text).toBe(other.text)
  })

  test('two sandboxes of one seed answer with the same bytes', async () => {
    const [one, two] = [await start(), await start()]
    expect((await askKeywords(one, { limit: '2000' })).text).toBe((await askKeywords(two, { limit: '2000' })).text)
  })
})

describe('batch reports', () => {
  test('are submitted, polled and downloaded, with the fields of the interface', async () => {
    const sandbox = await start({ reportDurationMs: 3_600_000 })
    const submitted = await call(sandbox, 'POST', '/batch/v4/request-report', reportBody())
    expect(objectOf(submitted.text)).toEqual({ report_id: expect.stringMatching(/^[0-9a-f-]{36}$/), status: 'pending' })
    const id = String(objectOf(submitted.text)['report_id'])
    expect(await statusOf(sandbox, id)).toEqual({ status: 'pending' })
    sandbox.configure({ reportDurationMs: 0 })
    const status = await statusOf(sandbox, id)
    const report = await download(String(status['download_url']))
    const rows = report.text.trimEnd().split('\n').length - 1
    expect(status).toEqual({
      data_points_count: rows * 2,
      download_url: expect.any(String),
      status: 'completed',
      used_quota: 4 * 2 * 3 * 2,
    })
    expect(report.headers.get('content-type')).toMatch(/^text\/csv/)
    expect(report.headers.get('content-length')).toBe(String(Buffer.byteLength(report.text)))
    expect(report.text).toMatch(/^domain,country,date,all_traffic_visits,mobile_visits\nexample\.com,WW,2026-01-01,/)
  })

  test('a shopper report goes the same way, its id spelled as wished', async () => {
    const sandbox = await start({ shopperReply: 'id', finalWord: 'complete' })
    const reply = objectOf((await call(sandbox, 'POST', '/v3/batch/shopper/request-report', shopperBody)).text)
    expect(Object.keys(reply)).toEqual(['id', 'status'])
    expect(await statusOf(sandbox, String(reply['id']))).toMatchObject({ status: 'complete', used_quota: 4 })
    expect((await download(await linkOf(sandbox, String(reply['id'])))).text).toMatch(/^domain,category_id,date,/)
  })

  test('JSON is one object a line', async () => {
    const sandbox = await start()
    const report = await download(await linkOf(sandbox, await buy(sandbox, reportBody({}, 'json'))))
    expect(report.headers.get('content-type')).toBe('application/x-ndjson')
    expect(Object.keys(objectOf(report.text.split('\n')[0] ?? ''))).toEqual([
      'domain',
      'country',
      'date',
      'all_traffic_visits',
      'mobile_visits',
    ])
  })

  test('the same body again is another paid report', async () => {
    const sandbox = await start()
    expect(await buy(sandbox)).not.toBe(await buy(sandbox))
    expect(sandbox.books().submissions).toHaveLength(2)
    expect(sandbox.books().quotaUsed).toBe(96)
  })

  test('a refused body names every field and buys nothing', async () => {
    const sandbox = await start()
    const answer = await call(
      sandbox,
      'POST',
      '/batch/v4/request-report',
      reportBody({ metrics: ['visits'], end_date: '2026-06' }),
    )
    expect(answer.status).toBe(400)
    expect(objectOf(answer.text)['errors']).toEqual([
      expect.stringMatching(/^report_query\.tables\[0\]\.metrics: unknown metric 'visits'/),
      expect.stringMatching(/^report_query\.tables\[0\]\.end_date: 2026-06 is out of range/),
    ])
    expect((await call(sandbox, 'POST', '/batch/v4/request-report', reportBody(), { 'content-type': 'text/plain' })).status).toBe(
      400,
    )
    expect(sandbox.books().submissions).toEqual([])
  })

  test('the key belongs in the header, and batch may have its own', async () => {
    const sandbox = await start({ batchApiKey: 'batch-key' })
    const refused = await call(sandbox, 'POST', '/batch/v4/request-report', reportBody())
    expect([refused.status, objectOf(refused.text)]).toEqual([401, { errors: ['Invalid API key or inactive account'] }])
    expect((await call({ ...sandbox, apiKey: 'batch-key' }, 'POST', '/batch/v4/request-report', reportBody())).status).toBe(200)
    expect((await askKeywords(sandbox)).status).toBe(200)
  })

  test('an unknown id is 404', async () => {
    expect((await call(await start(), 'GET', '/v3/batch/request-status/7')).status).toBe(404)
  })

  test('what was submitted before a restatement has the values from before', async () => {
    const sandbox = await start()
    const id = await buy(sandbox)
    const before = (await download(await linkOf(sandbox, id))).text
    sandbox.restate('2026-01')
    expect((await download(await linkOf(sandbox, id))).text).toBe(before)
    expect((await download(await linkOf(sandbox, await buy(sandbox)))).text).not.toBe(before)
  })

  test('at most so many reports are open at once', async () => {
    const sandbox = await start({ openReports: 2, reportDurationMs: 60_000, retryAfter: 'seconds' })
    await Promise.all([buy(sandbox), buy(sandbox)])
    const third = await call(sandbox, 'POST', '/batch/v4/request-report', reportBody())
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '60'])
    sandbox.configure({ reportDurationMs: 0 })
    expect((await call(sandbox, 'POST', '/batch/v4/request-report', reportBody())).status).toBe(200)
  })

  test.each([
    ['encoding', 'text/csv; charset=utf-8', 'gzip'],
    ['file', 'application/gzip', undefined],
  ] as const)('a download can be gzip as %s', async (gzip, type, encoding) => {
    const sandbox = await start()
    const link = await linkOf(sandbox, await buy(sandbox))
    const plain = (await download(link)).text
    sandbox.configure({ gzip })
    const zipped = await raw(link, { 'accept-encoding': 'gzip' })
    expect([zipped.headers['content-type'], zipped.headers['content-encoding']]).toEqual([type, encoding])
    expect(gunzipSync(zipped.bytes).toString()).toBe(plain)
  })

  test('a report of 100,000 rows arrives whole', async () => {
    const sandbox = await start({ reportRows: 100_000 })
    const link = await linkOf(sandbox, await buy(sandbox, bulk))
    const response = await fetch(link)
    let lines = 0
    for await (const chunk of response.body ?? []) for (const byte of chunk) if (byte === 10) lines += 1
    expect(lines).toBe(100_001)
  })

  test.each(['off', 'file'] as const)('rows are made only as fast as the client takes them (gzip %s)', async (gzip) => {
    const sandbox = await start({ reportRows: 10_000_000, gzip })
    const link = await linkOf(sandbox, await buy(sandbox, bulk))
    const before = process.memoryUsage()
    const asked = get(link)
    const response = await new Promise<IncomingMessage>((resolve) => asked.on('response', resolve))
    response.pause()
    await sleep(1000)
    const after = process.memoryUsage()
    asked.destroy()
    expect(after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed).toBeLessThan(60e6)
  })
})

describe('limits', () => {
  test('ten requests a second, then 429 without Retry-After', async () => {
    const sandbox = await start({ requestsPerSecond: 10 })
    const started = performance.now()
    const answers = await Promise.all(Array.from({ length: 60 }, () => askKeywords(sandbox, { limit: '1' })))
    // However long the machine takes: ten for the second that was there, and ten for each that went by.
    const allowed = 10 + Math.ceil((performance.now() - started) / 100)
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused.length).toBeGreaterThanOrEqual(60 - allowed)
    expect(answers.length - refused.length).toBeGreaterThanOrEqual(10)
    expect(refused.every(({ headers }) => headers.get('retry-after') === null)).toBe(true)
  })

  test('429 with Retry-After as a date', async () => {
    const sandbox = await start({ retryAfter: 'date', requestsPerSecond: 0.001 })
    await askKeywords(sandbox)
    expect(Date.parse((await askKeywords(sandbox)).headers.get('retry-after') ?? '')).toBeGreaterThan(Date.now())
  })

  test('credits run out with 403, and failed reports give theirs back', async () => {
    const sandbox = await start({ quota: 49, faults: [{ kind: 'report-failed', nth: 1 }] })
    const failed = await buy(sandbox)
    expect(await statusOf(sandbox, failed)).toEqual({ status: 'internal_error', errors: ['The report could not be made'] })
    await buy(sandbox)
    expect(sandbox.books()).toMatchObject({ quotaUsed: 48, quotaRemaining: 1 })
    expect((await call(sandbox, 'POST', '/batch/v4/request-report', reportBody())).status).toBe(403)
    expect((await askKeywords(sandbox)).status).toBe(200)
    const exhausted = await askKeywords(sandbox)
    expect([exhausted.status, exhausted.text]).toEqual([403, expect.stringContaining('"error_code":403')])
  })
})

describe('extensions', () => {
  const header = ['/v3/batch/credits', '/v3/batch/tables/describe', '/batch/v4/report-history']

  test('are there by default', async () => {
    const sandbox = await start({ quota: 1000 })
    const get = async (path: string): Promise<unknown> => JSON.parse((await call(sandbox, 'GET', path)).text)
    expect(await get(`/capabilities?api_key=${sandbox.apiKey}`)).toMatchObject({
      remaining_hits: 1000,
      web_desktop_data: {
        snapshot_interval: { start_date: '2021-05-01', end_date: '2026-05-31' },
        countries: expect.arrayContaining([{ code: 'us', name: 'United States' }]),
      },
    })
    expect(await get(`/user-capabilities?api_key=${sandbox.apiKey}`)).toEqual({ allowance: 1000, user_remaining: 1000 })
    expect(await get('/v3/batch/credits')).toEqual({ remaining_credits: 1000 })
    expect(await get('/v3/batch/tables/describe')).toContainEqual(
      expect.objectContaining({ table: 'traffic_and_engagement', table_metrics: expect.arrayContaining(['all_traffic_visits']) }),
    )
    expect(await get('/batch/v4/report-history')).toEqual({ reports: [] })
    expect(sandbox.books().quotaUsed).toBe(0)
  })

  test('validation tells the price of exactly what a submission then costs, and what is wrong', async () => {
    const sandbox = await start({ quota: 40 })
    const validate = async (body: unknown): Promise<unknown> =>
      JSON.parse((await call(sandbox, 'POST', '/batch/v4/request-validate', body)).text)
    expect(await validate(reportBody())).toEqual({
      is_valid: true,
      estimated_credits: 48,
      warnings: ['The report costs 48 credits, 40 are left'],
    })
    expect(await validate(reportBody({ metrics: [] }))).toMatchObject({
      is_valid: false,
      errors: [expect.stringContaining('metrics')],
    })
    expect(sandbox.books().submissions).toEqual([])
  })

  test('a failed report is retried for free, others are not', async () => {
    const sandbox = await start({ faults: [{ kind: 'report-failed', nth: 1 }] })
    const [failed, fine] = [await buy(sandbox), await buy(sandbox)]
    expect(objectOf((await call(sandbox, 'POST', `/v3/batch/retry/${failed}`)).text)).toEqual({
      report_id: failed,
      status: 'pending',
    })
    expect(await statusOf(sandbox, failed)).toMatchObject({ status: 'completed' })
    expect((await call(sandbox, 'POST', `/v3/batch/retry/${fine}`)).status).toBe(400)
  })

  test('can be switched off together: then only the interface is there', async () => {
    const sandbox = await start({ extensions: false })
    const gone = await Promise.all([
      ...['/capabilities', '/user-capabilities'].map((path) => call(sandbox, 'GET', `${path}?api_key=${sandbox.apiKey}`)),
      ...header.map((path) => call(sandbox, 'GET', path)),
      call(sandbox, 'POST', '/batch/v4/request-validate', reportBody()),
      call(sandbox, 'POST', '/v3/batch/retry/7'),
    ])
    expect(gone.map(({ status }) => status)).toEqual(gone.map(() => 404))
    expect((await askKeywords(sandbox)).status).toBe(200)
    expect(await statusOf(sandbox, await buy(sandbox))).toMatchObject({ status: 'completed' })
    expect(sandbox.books().keysAstray).toBe(0)
  })
})

describe('without extensions', () => {
  test('parameters that the interface does not show are unknown, with their names', async () => {
    const [ours, exact] = [await start(), await start({ extensions: false })]
    for (const [name, value] of Object.entries({ sort: 'clicks', asc: 'true', format: 'json' })) {
      expect((await askKeywords(ours, { [name]: value })).status).toBe(200)
      const refused = await askKeywords(exact, { [name]: value })
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(`${name}: unknown parameter`)])
    }
  })

  test('fields that the interface does not show are refused, with their names, and nothing is bought', async () => {
    const [ours, exact] = [await start(), await start({ extensions: false })]
    const { delivery_information } = reportBody()
    const more = {
      report_name: { report_name: 'mine' },
      webhook_url: { webhook_url: 'http://127.0.0.1:9/' },
      delivery_method_params: {
        delivery_information: { ...Object(delivery_information), delivery_method_params: { retention_days: 30 } },
      },
    }
    for (const [name, field] of Object.entries(more)) {
      const body = { ...reportBody(), ...field }
      expect((await call(ours, 'POST', '/batch/v4/request-report', body)).status).toBe(200)
      const refused = await call(exact, 'POST', '/batch/v4/request-report', body)
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(name)])
    }
    expect(exact.books().submissions).toEqual([])
  })

  test('there are no limits but those that are set', async () => {
    const [ours, exact] = await Promise.all(
      [true, false].map((extensions) => startSandbox({ extensions, reportDurationMs: 60_000, now: '2026-06-20' })),
    )
    if (ours === undefined || exact === undefined) throw new Error('no sandbox')
    try {
      const statuses = async (sandbox: Sandbox, ask: (sandbox: Sandbox) => Promise<{ status: number }>, times: number) =>
        new Set((await Promise.all(Array.from({ length: times }, () => ask(sandbox)))).map(({ status }) => status))
      const wide = { start_date: '2025-01', end_date: '2025-12' }
      expect((await askKeywords(ours, wide)).text).toContain('at most 3 months')
      expect((await askKeywords(exact, wide)).status).toBe(200)
      expect((await askKeywords(ours, { limit: '50000' })).status).toBe(400)
      expect((await askKeywords(exact, { limit: '50000' })).status).toBe(200)
      expect(await statuses(ours, askKeywords, 30)).toEqual(new Set([200, 429]))
      expect(await statuses(exact, askKeywords, 30)).toEqual(new Set([200]))
      const submit = (sandbox: Sandbox) => call(sandbox, 'POST', '/batch/v4/request-report', reportBody())
      ours.configure({ requestsPerSecond: null })
      expect(await statuses(ours, submit, 101)).toEqual(new Set([200, 429]))
      expect(await statuses(exact, submit, 101)).toEqual(new Set([200]))
      exact.configure({ maxLimit: 10, requestsPerSecond: 1, openReports: 101 })
      expect((await askKeywords(exact, { limit: '11' })).status).toBe(400)
    } finally {
      await Promise.all([ours.close(), exact.close()])
    }
  })
})

describe('reports of a sparse service', () => {
  test('have a third of the rows, and a count of those', async () => {
    const [full, sparse] = [await start({ dataPoints: 'rows' }), await start({ dataPoints: 'rows', sparse: true })]
    const body = reportBody({ start_date: '2025-01', end_date: '2025-12' })
    const [all, few] = await Promise.all(
      [full, sparse].map(async (sandbox) => {
        const id = await buy(sandbox, body)
        const lines = (await download(await linkOf(sandbox, id))).text.trimEnd().split('\n')
        expect((await statusOf(sandbox, id))['data_points_count']).toBe(lines.length - 1)
        return lines
      }),
    )
    expect(few?.every((line) => all?.includes(line))).toBe(true)
    expect((few?.length ?? 0) / (all?.length ?? 1)).toBeLessThan(0.5)
    expect(few?.length).toBeGreaterThan(10)
  })
})

describe('the books', () => {
  test('show each submission, its price and its downloads', async () => {
    const sandbox = await start()
    const id = await buy(sandbox)
    await download(await linkOf(sandbox, id))
    expect(sandbox.books().submissions).toEqual([
      expect.objectContaining({
        id,
        kind: 'report',
        body: reportBody(),
        key: 'right',
        estimatedQuota: 48,
        chargedQuota: 48,
        downloads: 1,
        statusRequests: 1,
      }),
    ])
    expect(sandbox.books().counts).toEqual({ 'submit-report': 1, status: 1, download: 1 })
  })

  test('never hold the key, and notice where it does not belong', async () => {
    const sandbox = await start({ downloadHost: true })
    await askKeywords(sandbox)
    const link = await linkOf(sandbox, await buy(sandbox))
    expect(new URL(link).port).not.toBe(String(sandbox.port))
    await download(link)
    expect(sandbox.books().keysAstray).toBe(0)
    await fetch(link, { headers: { 'api-key': sandbox.apiKey } })
    await fetch(`${link}&api_key=${sandbox.apiKey}`)
    await call(sandbox, 'GET', `/v3/batch/credits?api_key=${sandbox.apiKey}`)
    expect(sandbox.books().keysAstray).toBe(3)
    expect(JSON.stringify(sandbox.books())).not.toContain(sandbox.apiKey)
    expect(sandbox.books().requests[0]).toMatchObject({
      path: '/v4/website-analysis/keywords',
      key: 'right',
      query: { api_key: '[key]', ...keywordQuery },
      status: 200,
    })
  })

  test('a download host serves downloads and nothing else', async () => {
    const sandbox = await start({ downloadHost: true })
    expect((await fetch(`${sandbox.downloadUrl}/v4/website-analysis/keywords`)).status).toBe(404)
    expect((await fetch(`${sandbox.downloadUrl}/_sandbox/books`)).status).toBe(404)
    const link = new URL(await linkOf(sandbox, await buy(sandbox)))
    expect((await fetch(sandbox.url + link.pathname + link.search)).status).toBe(404)
  })
})

describe('control over HTTP', () => {
  test('reads the books, changes options, restates and sets faults', async () => {
    const sandbox = await start()
    const control = async (method: string, path: string, body?: unknown): Promise<unknown> =>
      JSON.parse((await call(sandbox, method, `/_sandbox${path}`, body)).text)
    expect(await control('PATCH', '/options', { keywordsPerDomain: 7, now: '2026-02-20' })).toMatchObject({
      keywordsPerDomain: 7,
      now: '2026-02-20',
    })
    expect(objectOf((await askKeywords(sandbox)).text)['keywords_count']).toBe(7)
    expect(await control('POST', '/restate', { month: '2026-01' })).toEqual({
      month: '2026-01',
      domain: 'every domain',
      last_updated: '2026-02-20',
    })
    expect(await control('PUT', '/faults', [{ kind: 'status-500', times: 1 }])).toEqual([{ kind: 'status-500', times: 1 }])
    expect((await askKeywords(sandbox)).status).toBe(500)
    expect((await askKeywords(sandbox)).status).toBe(200)
    expect(await control('GET', '/books')).toMatchObject({ counts: { keywords: 3 }, faultsActed: [1] })
    expect(await control('DELETE', '/books')).toMatchObject({ counts: {}, requests: [] })
    expect(await control('DELETE', '/faults')).toEqual([])
    expect(JSON.stringify(await control('GET', '/options'))).not.toContain(sandbox.apiKey)
  })

  test('a wrong option or fault is refused by name and changes nothing', async () => {
    const sandbox = await start()
    const option = await call(sandbox, 'PATCH', '/_sandbox/options', { maxLimit: -1, seed: 9 })
    expect([option.status, option.text]).toEqual([400, expect.stringContaining('maxLimit')])
    expect((await call(sandbox, 'PATCH', '/_sandbox/options', { port: 1 })).text).toContain('port')
    expect((await call(sandbox, 'PUT', '/_sandbox/faults', [{ kind: 'explode' }])).status).toBe(400)
    expect((await call(sandbox, 'POST', '/_sandbox/restate', { month: 'May' })).status).toBe(400)
    expect((await call(sandbox, 'GET', '/_sandbox/nothing')).text).toContain('GET /_sandbox/books')
    expect(objectOf((await call(sandbox, 'GET', '/_sandbox/options')).text)).toMatchObject({ seed: 1, maxLimit: 2000 })
  })
})

describe('the server', () => {
  test('listens on this machine alone and says when the port is taken', async () => {
    const sandbox = await start()
    expect(sandbox.url).toBe(`http://127.0.0.1:${sandbox.port}`)
    await expect(fetch(`http://127.0.0.2:${sandbox.port}/`, { signal: AbortSignal.timeout(1000) })).rejects.toThrow()
    await expect(startSandbox({ port: sandbox.port })).rejects.toThrow(
      `Port ${sandbox.port} on 127.0.0.1 is taken. Choose another with --port`,
    )
  })

  test('a path or method it does not have is 404 or 405', async () => {
    const sandbox = await start()
    expect((await call(sandbox, 'GET', '/nothing')).status).toBe(404)
    const wrong = await call(sandbox, 'GET', '/batch/v4/request-report')
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('the command prints an address and a request that works as printed', async () => {
    const sandbox = await startSandbox()
    const address = /curl '([^']+)'/.exec(usageOf(sandbox).join('\n'))?.[1] ?? ''
    expect((await fetch(address)).status).toBe(200)
    await sandbox.close()
    await expect(fetch(address)).rejects.toThrow()
  })
})
