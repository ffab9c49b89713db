// Every fault of the sandbox over a real socket: what a client gets to see.
import { afterEach, describe, expect, test } from 'vitest'
import type { Fault, Sandbox } from '../../src/sandbox/sandbox-server.ts'
import {
  askKeywords,
  type Body,
  buy,
  call,
  closeAll,
  download,
  keywordQuery,
  linkOf,
  objectOf,
  type Raw,
  raw,
  reportBody,
  start,
  statusOf,
} from './sandbox-client.ts'

afterEach(closeAll)

const withFaults = (...faults: Fault[]): Promise<Sandbox> => start({ faults })
const keywordUrl = ({ url, apiKey }: Sandbox, limit = '50'): string =>
  `${url}/v4/website-analysis/keywords?${new URLSearchParams({ api_key: apiKey, ...keywordQuery, limit })}`
const rawKeywords = (sandbox: Sandbox): Promise<Raw> => raw(keywordUrl(sandbox))
const page = async (sandbox: Sandbox, query: Record<string, string> = {}): Promise<Body> =>
  objectOf((await askKeywords(sandbox, query)).text)

describe('answers instead of the answer', () => {
  test.each<[Fault['kind'], number, RegExp]>([
    ['status-429', 429, /"error_code":429/],
    ['status-500', 500, /"error_code":500/],
    ['status-502', 502, /<h1>502 Bad Gateway/],
    ['status-503', 503, /"error_code":503/],
    ['html-200', 200, /^<!doctype html>/],
    ['key-refused', 401, /^invalid API key$/],
    ['quota-exhausted', 403, /Quota exceeded/],
    ['country-refused', 400, /"error_code":103/],
    ['no-data', 401, /Data not found/],
  ])('%s answers %i, once when told so', async (kind, status, text) => {
    const sandbox = await withFaults({ kind, on: 'keywords', nth: 2 })
    expect((await askKeywords(sandbox)).status).toBe(200)
    const faulty = await askKeywords(sandbox)
    expect([faulty.status, faulty.text]).toEqual([status, expect.stringMatching(text)])
    expect((await askKeywords(sandbox)).status).toBe(200)
    expect(sandbox.books().requests[1]?.fault).toBe(kind)
  })

  test('batch endpoints refuse in their own envelope and take no effect', async () => {
    const sandbox = await withFaults({ kind: 'status-503', on: 'submit', retryAfter: 'seconds', retryAfterSeconds: 7 })
    const answer = await call(sandbox, 'POST', '/batch/v4/request-report', reportBody())
    expect([answer.status, answer.headers.get('retry-after'), objectOf(answer.text)]).toEqual([
      503,
      '7',
      { errors: ['Service unavailable'] },
    ])
    expect(sandbox.books().submissions).toEqual([])
  })

  test.each([401, 402, 404, 408, 409, 410, 413, 422, 451, 503])(
    'any-status answers %i at every endpoint, with no effect',
    async (status) => {
      const sandbox = await withFaults({ kind: 'any-status', status })
      const answers = [
        await askKeywords(sandbox),
        await call(sandbox, 'POST', '/batch/v4/request-report', reportBody()),
        await call(sandbox, 'GET', '/v3/batch/request-status/7'),
        await call(sandbox, 'GET', '/v3/batch/credits'),
      ]
      expect(answers.map((answer) => answer.status)).toEqual([status, status, status, status])
      expect(sandbox.books().submissions).toEqual([])
    },
  )

  test('429 can say when as a date', async () => {
    const sandbox = await withFaults({ kind: 'status-429', retryAfter: 'date', retryAfterSeconds: 30 })
    const wait = Date.parse((await askKeywords(sandbox)).headers.get('retry-after') ?? '') - Date.now()
    expect(wait).toBeGreaterThan(28_000)
    expect(wait).toBeLessThan(32_000)
  })
})

describe('connections', () => {
  test('slow answers late and right', async () => {
    const sandbox = await withFaults({ kind: 'slow', delayMs: 200 })
    const started = performance.now()
    expect((await askKeywords(sandbox)).status).toBe(200)
    expect(performance.now() - started).toBeGreaterThan(190)
  })

  test('stall never answers', async () => {
    expect(await raw(keywordUrl(await withFaults({ kind: 'stall' })), {}, 300)).toMatchObject({ status: null, end: 'no answer' })
  })

  test('drop-before resets the connection and nothing was bought', async () => {
    const sandbox = await withFaults({ kind: 'drop-before', on: 'submit' })
    await expect(buy(sandbox)).rejects.toThrow()
    expect(sandbox.books().submissions).toHaveLength(0)
    expect(sandbox.books().requests).toMatchObject([{ status: null, fault: 'drop-before' }])
  })

  test('drop-reply resets the connection and the report was bought', async () => {
    const sandbox = await withFaults({ kind: 'drop-reply', on: 'submit', times: 1 })
    await expect(buy(sandbox)).rejects.toThrow()
    expect(sandbox.books().submissions).toHaveLength(1)
    expect(sandbox.books().quotaUsed).toBe(48)
  })

  test('reset-mid-body sends a part and resets', async () => {
    const broken = await rawKeywords(await withFaults({ kind: 'reset-mid-body', bytes: 1000 }))
    expect(broken).toMatchObject({ status: 200, end: 'ECONNRESET' })
    expect(broken.bytes).toHaveLength(1000)
  })

  test('truncate-body is shorter than its Content-Length', async () => {
    const broken = await rawKeywords(await withFaults({ kind: 'truncate-body', bytes: 500 }))
    expect(broken.end).not.toBe('whole')
    expect(broken.bytes).toHaveLength(500)
    expect(Number(broken.headers['content-length'])).toBeGreaterThan(500)
  })

  test('truncate-body can leave out the last chunk', async () => {
    const broken = await rawKeywords(await withFaults({ kind: 'truncate-body', mode: 'chunked' }))
    expect(broken.end).not.toBe('whole')
    expect(broken.headers['transfer-encoding']).toBe('chunked')
    expect(broken.bytes.length).toBeGreaterThan(100)
  })

  test('truncate-body can be silent: HTTP is whole, the content is not', async () => {
    const broken = await rawKeywords(await withFaults({ kind: 'truncate-body', mode: 'silent', bytes: 500 }))
    expect([broken.end, broken.bytes.length, broken.headers['content-length']]).toEqual(['whole', 500, '500'])
  })

  test('a large download can break off too', async () => {
    const sandbox = await start({ reportRows: 100_000 })
    const link = await linkOf(sandbox, await buy(sandbox))
    sandbox.configure({ faults: [{ kind: 'reset-mid-body', on: 'download', times: 1 }] })
    const broken = await raw(link, {}, 60_000)
    expect([broken.status, broken.end]).toEqual([200, 'ECONNRESET'])
    // A reset takes with it what the reader has not fetched yet, so how much is here depends on the machine.
    expect(broken.bytes.length).toBeGreaterThan(0)
    expect(sandbox.books().submissions[0]?.downloads).toBe(0)
    const whole = await raw(link, {}, 60_000)
    expect(whole.end).toBe('whole')
    expect(broken.bytes.length).toBeLessThan(whole.bytes.length)
    expect(sandbox.books().submissions[0]?.downloads).toBe(1)
  })

  test('malformed-json and bad-gzip are 200 and cannot be read', async () => {
    const sandbox = await withFaults({ kind: 'malformed-json', nth: 1 }, { kind: 'bad-gzip', nth: 2 })
    const answer = await askKeywords(sandbox)
    expect(answer.status).toBe(200)
    expect(() => JSON.parse(answer.text)).toThrow()
    await expect(askKeywords(sandbox)).rejects.toThrow()
  })
})

describe('keyword pages', () => {
  const offset = { limit: '100', offset: '100' }
  const keywordsOf = (body: Body): unknown[] => (Array.isArray(body['keywords']) ? body['keywords'] : [])

  test('count-drift and last-updated-drift change what is said of the whole', async () => {
    const sandbox = await withFaults({ kind: 'count-drift', nth: 2, by: -3 }, { kind: 'last-updated-drift', nth: 2 })
    expect(await page(sandbox)).toMatchObject({ keywords_count: 400, meta: { last_updated: '2026-02-14' } })
    expect(await page(sandbox)).toMatchObject({ keywords_count: 397, meta: { last_updated: '2026-02-15' } })
  })

  test.each([
    [{ kind: 'row-moves' }, 99],
    [{ kind: 'row-moves', by: -1 }, 101],
    [{ kind: 'repeated-page' }, 0],
  ] as const)('%j begins the second page at another row', async (fault, first) => {
    const sandbox = await withFaults(fault)
    const whole = keywordsOf(await page(await start(), { limit: '2000' }))
    expect(keywordsOf(await page(sandbox, offset))).toEqual(whole.slice(first, first + 100))
    expect(keywordsOf(await page(sandbox, { limit: '100' }))).toEqual(whole.slice(0, 100))
  })

  test('short-page sends fewer rows though more follow', async () => {
    const body = await page(await withFaults({ kind: 'short-page' }), offset)
    expect([keywordsOf(body).length, body['keywords_count']]).toEqual([50, 400])
  })

  test('clamped-limit lowers the limit and says so', async () => {
    const body = await page(await withFaults({ kind: 'clamped-limit', limit: 30 }), offset)
    expect(keywordsOf(body)).toHaveLength(30)
    expect(body['meta']).toMatchObject({ query: { limit: 30, offset: 100 } })
  })

  test('wrong-echo speaks of another domain', async () => {
    expect(await page(await withFaults({ kind: 'wrong-echo' }))).toMatchObject({
      meta: { request: { domain: 'other-example.com' } },
    })
  })

  test('a fault may be for one domain', async () => {
    const sandbox = await withFaults({ kind: 'status-500', domain: 'example.net' })
    expect((await askKeywords(sandbox)).status).toBe(200)
    expect((await askKeywords(sandbox, { URL: 'example.net' })).status).toBe(500)
  })
})

describe('reports', () => {
  const statusAfter = async (...faults: Fault[]): Promise<Body> => {
    const sandbox = await withFaults(...faults)
    return statusOf(sandbox, await buy(sandbox))
  }
  const textAfter = async (...faults: Fault[]): Promise<string> => {
    const sandbox = await withFaults(...faults)
    return (await download(await linkOf(sandbox, await buy(sandbox)))).text
  }

  test('may fail, be rejected, be stuck, or say words', async () => {
    expect(await statusAfter({ kind: 'report-failed' })).toMatchObject({ status: 'internal_error' })
    expect(await statusAfter({ kind: 'report-rejected' })).toMatchObject({ status: 'bad_request', errors: [expect.any(String)] })
    expect(await statusAfter({ kind: 'report-stuck' })).toEqual({ status: 'processing' })
    expect(await statusAfter({ kind: 'report-retry' })).toEqual({ status: 'retry' })
    expect(await statusAfter({ kind: 'unknown-status-word', word: 'tidying' })).toEqual({ status: 'tidying' })
    expect(await statusAfter({ kind: 'done-without-link' })).toEqual({
      status: 'completed',
      data_points_count: expect.any(Number),
      used_quota: 48,
    })
  })

  test('a word lasts as many polls as it is told to', async () => {
    const sandbox = await withFaults({ kind: 'done-without-link', times: 2 })
    const id = await buy(sandbox)
    const links = [await statusOf(sandbox, id), await statusOf(sandbox, id), await statusOf(sandbox, id)].map(
      (status) => 'download_url' in status,
    )
    expect(links).toEqual([false, false, true])
  })

  test.each([403, 404, 410] as const)('an expired link is %i until the status is asked again', async (status) => {
    const sandbox = await withFaults({ kind: 'expired-link', status, nth: 1 })
    const id = await buy(sandbox)
    const link = await linkOf(sandbox, id)
    expect((await download(link)).status).toBe(status)
    expect((await download(link)).status).toBe(status)
    expect((await download(await linkOf(sandbox, id))).status).toBe(200)
  })

  test('an empty report says so and costs nothing', async () => {
    expect(await textAfter({ kind: 'empty-report' })).toBe('No data returned\n')
    expect(await statusAfter({ kind: 'empty-report' })).toMatchObject({ data_points_count: 0, used_quota: 0 })
  })

  test('content faults reach the download', async () => {
    const text = await textAfter({ kind: 'bad-number' }, { kind: 'nul-bytes', row: 2 }, { kind: 'duplicate-rows', row: 3 })
    const lines = text.split('\n')
    expect(lines[1]).toContain('12.3x')
    expect(lines[2]).toContain('\0')
    expect(lines[3]).toBe(lines[4])
  })

  test('rows that are missing or more than counted leave the count as it was sold', async () => {
    const whole = await withFaults()
    const id = await buy(whole)
    const [points, text] = [
      Number((await statusOf(whole, id))['data_points_count']),
      (await download(await linkOf(whole, id))).text,
    ]
    const lines = text.trimEnd().split('\n')
    const damaged = async (fault: Fault): Promise<[number, string[]]> => {
      const sandbox = await withFaults(fault)
      const bought = await buy(sandbox)
      const counted = Number((await statusOf(sandbox, bought))['data_points_count'])
      return [counted, (await download(await linkOf(sandbox, bought))).text.trimEnd().split('\n')]
    }
    expect(await damaged({ kind: 'half-report' })).toEqual([points, lines.slice(0, 1 + Math.floor((lines.length - 1) / 2))])
    expect(await damaged({ kind: 'missing-row', row: 2 })).toEqual([points, lines.toSpliced(2, 1)])
    expect(await damaged({ kind: 'extra-row', row: 2 })).toEqual([points - 2, lines])
    expect(await damaged({ kind: 'duplicate-rows', row: 2 })).toEqual([points, lines.toSpliced(2, 0, lines[2] ?? '')])
    expect(await damaged({ kind: 'duplicate-rows', row: 2, counted: true })).toEqual([
      points + 2,
      lines.toSpliced(2, 0, lines[2] ?? ''),
    ])
  })

  test('a file may end within its last line end, or be called what it is not', async () => {
    const text = await textAfter()
    expect(await textAfter({ kind: 'cut-line-end' })).toBe(text.slice(0, -1))
    const sandbox = await withFaults({ kind: 'wrong-content-type' })
    const answer = await download(await linkOf(sandbox, await buy(sandbox)))
    expect([answer.headers.get('content-type'), answer.text]).toEqual([expect.stringMatching(/json/), text])
  })

  test('the key may be named in a page and in a report', async () => {
    const sandbox = await withFaults({ kind: 'key-echo' }, { kind: 'key-echo', on: 'submit' })
    expect((await askKeywords(sandbox)).text).toContain(sandbox.apiKey)
    const [header = '', first = ''] = (await download(await linkOf(sandbox, await buy(sandbox)))).text.split('\n')
    expect([header, first]).toEqual([expect.stringMatching(/,asked_with$/), expect.stringContaining(`api_key=${sandbox.apiKey}`)])
  })

  test('a fault of the n-th submission stays with that report', async () => {
    const sandbox = await withFaults({ kind: 'report-stuck', nth: 2 })
    const ids = [await buy(sandbox), await buy(sandbox), await buy(sandbox)]
    const words = await Promise.all(ids.map(async (id) => (await statusOf(sandbox, id))['status']))
    expect(words).toEqual(['completed', 'processing', 'completed'])
  })
})
