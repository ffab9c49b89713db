// The client against real servers on 127.0.0.1: what is sent again, what never is, and where the key goes.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { EtlError } from '../../../src/core/errors.ts'
import type { ServiceOptions } from '../../../src/extract/http-types.ts'
import type { RateBudget } from '../../../src/extract/rate.ts'
import {
  type Answer,
  faultServers,
  get,
  jumpClock,
  openRate,
  post,
  realClock,
  startFaultServer,
  testClient,
  testKey,
} from '../../support/fault-server.ts'

const { serve, served } = faultServers()

const failure = async (work: Promise<unknown>): Promise<EtlError> => {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof EtlError)) throw new Error(`expected an EtlError, got ${String(error)}`)
  return error
}

const json: Answer = (_, response) => response.end('{"ok":true}')

const isFinal = (error: EtlError | undefined): boolean => error?.follows?.next === 'wait for the service' && error.follows.isFinal

describe('a harmless request', () => {
  test.each([500, 502, 503])('is sent again after %i', async (status) => {
    const { http, recorded } = await served((_, response, hit) => {
      response.statusCode = hit < 3 ? status : 200
      response.end('{}')
    })
    expect((await http.read(get(http))).status).toBe(200)
    expect(recorded.map((request) => [request.attempt, request.status, request.errorCode])).toEqual([
      [1, status, 'SERVICE_ERROR'],
      [2, status, 'SERVICE_ERROR'],
      [3, 200, null],
    ])
  })

  test('is sent again after a connection was reset', async () => {
    const { server, http } = await served((request, response, hit) => (hit === 1 ? request.socket.destroy() : response.end('{}')))
    expect((await http.read(get(http))).status).toBe(200)
    expect(server.hits).toHaveLength(2)
  })

  test('is given up after three tries, with the last answer', async () => {
    const { server, http } = await served((_, response) => {
      response.statusCode = 500
      response.end('{"message":"broken"}')
    })
    expect((await http.read(get(http))).status).toBe(500)
    expect(server.hits).toHaveLength(3)
  })

  test.each([400, 401, 403, 404, 501])('is not sent again after %i', async (status) => {
    const { server, http } = await served((_, response) => {
      response.statusCode = status
      response.end('{}')
    })
    await http.read(get(http))
    expect(server.hits).toHaveLength(1)
  })

  test.each([
    ['in seconds', '7', null, 7_000],
    ['as a date', 'Fri, 20 Nov 2026 00:00:09 GMT', null, 9_000],
    ['as a date by a clock that is hours ahead', 'Fri, 20 Nov 2026 05:00:09 GMT', 'Fri, 20 Nov 2026 05:00:04 GMT', 5_000],
    ['as a date by a clock that is behind', 'Thu, 19 Nov 2026 23:00:09 GMT', 'Thu, 19 Nov 2026 23:00:00 GMT', 9_000],
  ])('waits as long as Retry-After says %s, not its own backoff', async (_, header, date, ms) => {
    const server = await serve((request, response, hit) => {
      response.sendDate = false
      if (hit === 1) response.writeHead(429, { 'retry-after': header, ...(date === null ? {} : { date }) })
      json(request, response, hit)
    })
    const clock = jumpClock()
    const penalties: number[] = []
    const { http } = testClient(server.url, {
      clock,
      rate: { take: async () => (refusedForMs) => refusedForMs !== null && penalties.push(refusedForMs) },
    })
    await http.read(get(http))
    expect(clock.slept).toEqual([ms])
    expect(penalties).toEqual([ms])
  })

  test('waits as long as a 429 says whose body is cut; of other refusals the words count, so that they are asked for again', async () => {
    const server = await serve((_, response, hit) => {
      if (hit === 3) return response.end('{}')
      response.writeHead(hit === 1 ? 429 : 401, { 'retry-after': '7', 'content-length': '1000' })
      response.write('{"mess')
      return setTimeout(() => response.socket?.destroy(), 20)
    })
    const clock = jumpClock()
    const { http, recorded } = testClient(server.url, { clock })
    expect((await http.read(get(http))).status).toBe(200)
    expect(clock.slept[0]).toBeGreaterThanOrEqual(7_000)
    expect(recorded.map(({ errorCode }) => errorCode)).toEqual(['RATE_LIMITED', 'TRUNCATED', null])
  })

  test('waits its turn in the lane of its job, each try of it; without one, with all others that have none', async () => {
    const server = await serve((_, response, hit) => {
      response.statusCode = hit === 1 ? 500 : 200
      response.end('{}')
    })
    const lanes: string[] = []
    const rate: RateBudget = {
      ...openRate,
      take: async (signal, lane) => {
        lanes.push(lane)
        return openRate.take(signal, lane)
      },
    }
    const laned = testClient(server.url, { rate }, { lane: '17' })
    await laned.http.read(get(laned.http))
    const others = testClient(server.url, { rate })
    await others.http.read(get(others.http))
    expect(lanes).toEqual(['17', '17', 'others'])
  })

  test.each([429, 503])('parks the unit when %i asks for a long pause', async (status) => {
    const server = await serve((_, response) => {
      response.writeHead(status, { 'retry-after': '600' })
      response.end()
    })
    const clock = jumpClock()
    const { http } = testClient(server.url, { clock })
    const error = await failure(http.read(get(http)))
    expect([error.code, (error.notBefore ?? 0) - clock.now()]).toEqual(['RATE_LIMITED', 600_000])
    expect(server.hits).toHaveLength(1)
  })

  test.each(['31536000', '999999999999999999999', 'Fri, 01 Jan 2199 00:00:00 GMT'])(
    'takes a pause of more than a day for one of a day: %s',
    async (header) => {
      const server = await serve((_, response) => {
        response.writeHead(503, { 'retry-after': header })
        response.end()
      })
      const clock = jumpClock()
      const { http } = testClient(server.url, { clock })
      const error = await failure(http.read(get(http)))
      expect([error.code, (error.notBefore ?? 0) - clock.now()]).toEqual(['RATE_LIMITED', 86_400_000])
    },
  )

  test('backs off longer from try to try where the service names no time', async () => {
    const server = await serve((_, response) => {
      response.statusCode = 429
      response.end()
    })
    const clock = jumpClock()
    const { http } = testClient(server.url, { clock })
    expect((await failure(http.read(get(http)))).code).toBe('RATE_LIMITED')
    expect(clock.slept).toEqual([1_000, 3_000])
  })

  test('does not wait for an address where nobody listens', async () => {
    const server = await startFaultServer(json)
    await server.close()
    const { http, recorded } = testClient(server.url)
    const error = await failure(http.read(get(http)))
    expect(error.code).toBe('SERVICE_UNREACHABLE')
    expect(error.message).toContain('TEST_ADDRESS')
    expect(recorded.map((request) => request.errorCode)).toEqual(Array(3).fill('SERVICE_UNREACHABLE'))
  })

  test('is stopped at once by the signal, also while it waits for an answer', async () => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
    const { server, http, stop } = await served(() => arrive())
    const reading = failure(http.read(get(http)))
    await arrived
    const started = performance.now()
    stop.abort()
    expect((await reading).code).toBe('INTERRUPTED')
    expect(performance.now() - started).toBeLessThan(5_000)
    expect(server.hits).toHaveLength(1)
  })

  test('times out when no answer begins', async () => {
    const { http } = await served(() => undefined, {}, { timeoutMs: 100, attempts: 1 })
    expect((await failure(http.read(get(http)))).code).toBe('SERVICE_TIMEOUT')
  })
})

describe('a submission', () => {
  const sent = (error: EtlError): unknown => error.sent

  test.each([
    [500, '1'],
    [502, '1'],
    [503, null],
  ] as const)('is not sent again after %i (retry-after %s); the answer is the caller’s to judge', async (status, pause) => {
    const { server, http } = await served((_, response) => {
      response.writeHead(status, pause === null ? {} : { 'retry-after': pause })
      response.end()
    })
    expect((await http.read(post(http))).status).toBe(status)
    expect(server.hits).toHaveLength(1)
  })

  test('was certainly not taken where 503 names a time to come back: it waits and is no lost answer', async () => {
    const { server, http } = await served((_, response) => {
      response.writeHead(503, { 'retry-after': '1' })
      response.end()
    })
    const error = await failure(http.read(post(http)))
    expect([error.code, sent(error), typeof error.notBefore]).toEqual(['RATE_LIMITED', false, 'number'])
    expect(server.hits).toHaveLength(1)
  })

  test('may have arrived when the connection is reset after it was sent', async () => {
    const { server, http } = await served((request) => request.socket.destroy())
    const error = await failure(http.read(post(http)))
    expect([error.code, sent(error)]).toEqual(['SERVICE_UNREACHABLE', true])
    expect(server.hits).toHaveLength(1)
  })

  test('may have arrived when no answer comes in time', async () => {
    const { server, http } = await served(() => undefined, {}, { timeoutMs: 100 })
    const error = await failure(http.read(post(http)))
    expect([error.code, sent(error)]).toEqual(['SERVICE_TIMEOUT', true])
    expect(server.hits).toHaveLength(1)
  })

  test('may have arrived when its answer is cut off', async () => {
    const { http } = await served((_, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write('{"report_id":')
      setTimeout(() => response.socket?.destroy(), 20)
    })
    const error = await failure(http.read(post(http)))
    expect([error.code, sent(error)]).toEqual(['TRUNCATED', true])
  })

  test('certainly did not arrive where nobody listens', async () => {
    const server = await startFaultServer(json)
    await server.close()
    const { http } = testClient(server.url)
    const error = await failure(http.read(post(http)))
    expect([error.code, sent(error)]).toEqual(['SERVICE_UNREACHABLE', false])
  })

  test('certainly did not arrive at a name nobody knows', async () => {
    const { http } = testClient(new URL('http://no-such-host.invalid/'))
    expect(sent(await failure(http.read(post(http))))).toBe(false)
  })

  test('certainly did not arrive when encryption could not be agreed', async () => {
    const plain = createServer((socket) => socket.end('this is no TLS\r\n\r\n'))
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
    const address = plain.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const { http } = testClient(new URL(`https://127.0.0.1:${port}/`))
    const error = await failure(http.read(post(http)))
    plain.close()
    expect([error.code, sent(error)]).toEqual(['SERVICE_UNREACHABLE', false])
  })

  test.each([
    ['cut', { 'content-length': '1000' }, '{"mess'],
    ['empty and called gzip', { 'content-encoding': 'gzip', 'content-length': '0' }, ''],
    ['plain and called gzip', { 'content-encoding': 'gzip' }, '{"message":"no"}'],
  ])('is refused by the status line alone: the body may be %s', async (_, headers, body) => {
    const server = await serve((_request, response, hit) => {
      response.writeHead([429, 403, 400][hit - 1] ?? 404, headers)
      response.write(body)
      setTimeout(() => response.socket?.destroy(), 20)
    })
    const waiting = testClient(server.url)
    const error = await failure(waiting.http.read(post(waiting.http)))
    expect([error.code, sent(error)]).toEqual(['RATE_LIMITED', false])
    const { http, recorded } = testClient(server.url)
    for (const status of [403, 400]) expect((await http.read(post(http))).status).toBe(status)
    expect(recorded.map(({ status, errorCode }) => [status, errorCode])).toEqual([
      [403, null],
      [400, null],
    ])
  })

  test.each([
    ['harmless', get],
    ['paid', post],
  ])(
    'that is %s and waits for its turn is not sent into a pause of an hour that another one is told meanwhile',
    async (_, request) => {
      const server = await serve((_, response) => {
        response.writeHead(429, { 'retry-after': '3600' })
        response.end()
      })
      const clock = jumpClock()
      let taken = 0
      const rate: RateBudget = {
        take: (signal) => {
          taken += 1
          if (taken === 1) return Promise.resolve(() => undefined)
          return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        },
      }
      const { http } = testClient(server.url, { clock, rate }, { lane: '7', patience: { attempts: 5, deadlineMs: 15_000 } })
      const [told, waiting] = await Promise.all([failure(http.read(get(http))), failure(http.read(request(http, '/v1/other')))])
      expect([told.code, waiting.code, waiting.sent]).toEqual(['RATE_LIMITED', 'RATE_LIMITED', false])
      expect((waiting.notBefore ?? 0) - clock.now()).toBeGreaterThan(3_500_000)
      expect(server.hits).toHaveLength(1)
    },
  )

  test('was not taken when the service answers 429, and the unit comes back', async () => {
    const { server, http } = await served((_, response) => {
      response.statusCode = 429
      response.end()
    })
    const error = await failure(http.read(post(http)))
    expect([error.code, sent(error), error.notBefore !== null]).toEqual(['RATE_LIMITED', false, true])
    expect(server.hits).toHaveLength(1)
  })

  test('that alone is answered 429 again and again is said to be in trouble, and ends with the deadline of its run', async () => {
    const server = await serve((request, response) => {
      response.statusCode = request.method === 'POST' ? 429 : 200
      response.end('{}')
    })
    const clock = jumpClock()
    const said: (string | null)[] = []
    const tellTrouble: ServiceOptions['tellTrouble'] = (place, trouble) => said.push(trouble === null ? null : place)
    const patience = { attempts: 100, deadlineMs: 20_000 }
    const { http } = testClient(server.url, { clock, tellTrouble }, { lane: '7', patience })
    const began = clock.now()
    const errors: EtlError[] = []
    while (clock.now() < began + 60_000 && !isFinal(errors.at(-1))) {
      await http.read(get(http))
      errors.push(await failure(http.read(post(http))))
      await clock.sleep(Math.max(1_000, (errors.at(-1)?.notBefore ?? 0) - clock.now()))
    }
    // The account as a whole is well: others are answered.
    expect(new Set(said)).toEqual(new Set(['/v1/submit']))
    expect(errors.every(({ code }) => code === 'RATE_LIMITED')).toBe(true)
    expect(errors.at(-1)).toMatchObject({ follows: { next: 'wait for the service', isFinal: true }, sent: false })
    expect(clock.now() - began).toBeLessThan(45_000)
    expect(server.hits.filter(({ method }) => method === 'POST').length).toBeLessThan(8)
  })

  test('that is answered 429 without a word for minutes waits for room at the service, and for nothing else', async () => {
    const clock = jumpClock()
    const began = clock.now()
    const server = await serve((request, response) => {
      response.statusCode = request.method === 'POST' && clock.now() - began < 150_000 ? 429 : 200
      response.end('{}')
    })
    const told: string[] = []
    const { http } = testClient(
      server.url,
      { clock, tellTrouble: (place) => told.push(place) },
      { lane: '7', patience: { attempts: 2, deadlineMs: 3_600_000 } },
    )
    const errors: EtlError[] = []
    for (let tries = 0; tries < 50; tries += 1) {
      const answer = await http.read({ ...post(http), isAboutOpenWork: true }).catch((error: EtlError) => void errors.push(error))
      if (answer !== undefined) break
      await http.read(get(http))
      await clock.sleep(Math.max(1_000, (errors.at(-1)?.notBefore ?? 0) - clock.now()))
    }
    expect(errors.length).toBeGreaterThan(2)
    // Neither a try of the job nor the end of its wait.
    expect(
      errors.filter(
        ({ follows }) => follows?.next === 'count the try' || (follows?.next === 'wait for the service' && follows.isFinal),
      ),
    ).toEqual([])
    expect(new Set(told)).toEqual(new Set(['/v1/submit']))
    expect(clock.now() - began).toBeLessThan(250_000)
  })

  test.each([429, 503])('that is refused for good leaves its turn to another one: %i', async (status) => {
    const clock = jumpClock()
    const server = await serve((_, response, hit) => {
      if (server.hits[hit - 1]?.body.includes('bad.com') === true) response.writeHead(status, { 'retry-after': '1' })
      response.end('{}')
    })
    const { http } = testClient(server.url, { clock }, { lane: '7', patience: { attempts: 2, deadlineMs: 3_600_000 } })
    const submit = (domain: string) => http.read({ ...post(http), body: { domain }, isAboutOpenWork: true })
    // The one that is refused is always the first to come again.
    await failure(submit('bad.com'))
    expect((await failure(submit('good.com'))).sent).toBe(false)
    await clock.sleep(1_200)
    expect((await failure(submit('bad.com'))).sent).toBe(false)
    expect((await submit('good.com')).status).toBe(200)
  })

  test('a download that is refused for good leaves its turn to another one', async () => {
    const clock = jumpClock()
    const { server, http } = await served(
      ({ url }, response) => {
        response.statusCode = url?.startsWith('/files/bad.csv') === true ? 429 : 200
        response.end('a\n')
      },
      { clock },
      { lane: '7', patience: { attempts: 2, deadlineMs: 3_600_000 } },
    )
    // Each time with a fresh link.
    const download = (file: string) => http.download(new URL(`/files/${file}.csv?signed=${server.hits.length}`, server.url).href)
    expect((await failure(download('bad'))).code).toBe('RATE_LIMITED')
    expect((await failure(download('bad'))).code).toBe('RATE_LIMITED')
    expect((await download('good')).status).toBe(200)
  })

  test('a download that is asked to wait is one file’s: others are asked for, until several in a row are told the same', async () => {
    const clock = jumpClock()
    const server = await serve(({ url }, response) => {
      const pause =
        url?.includes('bad') === true ? '3600' : url?.includes('slow') === true && clock.slept.length < 2 ? '20' : null
      if (pause !== null) response.writeHead(503, { 'retry-after': pause })
      response.end('a\n')
    })
    const told: string[] = []
    const { http } = testClient(
      server.url,
      { clock, tellTrouble: (place) => told.push(place) },
      { lane: '7', patience: { attempts: 2, deadlineMs: 21_600_000 } },
    )
    const download = (file: string) => http.download(`${server.url.href}files/${file}.csv`)
    const begun = clock.now()
    const first = await failure(download('bad-1'))
    expect([first.code, first.follows?.next, (first.notBefore ?? 0) - begun]).toEqual([
      'RATE_LIMITED',
      'count the try',
      3_600_000,
    ])
    expect((await download('good')).status).toBe(200)
    expect([clock.slept, told]).toEqual([[], []])
    expect([(await download('slow')).status, clock.slept, told]).toEqual([200, [20_000, 20_000], []])
    for (const file of ['bad-1', 'bad-2', 'bad-3']) expect((await failure(download(file))).code).toBe('RATE_LIMITED')
    const hits = server.hits.length
    const last = await failure(download('good'))
    expect([last.follows?.next, (last.notBefore ?? 0) - clock.now()]).toEqual(['wait for the service', 3_600_000])
    expect(server.hits).toHaveLength(hits)
  })

  test('was not sent when the run is stopped while it waits for the rate', async () => {
    const { server, http, stop } = await served(json, {
      rate: {
        take: (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      },
    })
    const submitting = failure(http.read(post(http)))
    stop.abort()
    const error = await submitting
    expect([error.code, sent(error)]).toEqual(['INTERRUPTED', false])
    expect(server.hits).toHaveLength(0)
  })

  test('was not sent when the account’s rate could not be asked for, because the database is away', async () => {
    const server = await serve(json)
    const away = new EtlError('DATABASE_UNREACHABLE', 'refused', { context: { tried: 1 } })
    const { http } = testClient(server.url, { rate: { take: () => Promise.reject(away) } })
    const error = await failure(http.read(post(http)))
    expect([error.code, error.context, error.sent]).toEqual(['DATABASE_UNREACHABLE', { tried: 1 }, false])
    // Whatever was thrown: an error of the driver, which nobody has put into words, is no submission either.
    const raw = { take: () => Promise.reject(new Error('connect ECONNREFUSED')) }
    const unknown = testClient(server.url, { rate: raw })
    expect(sent(await failure(unknown.http.read(post(unknown.http))))).toBe(false)
    expect(server.hits).toHaveLength(0)
  })

  test('that is on its way when the run is stopped is heard out, and a harmless request is not', async () => {
    const { server, http, stop } = await served(
      (_, response) => void setTimeout(() => response.end('{"report_id":"r-1"}'), 300),
      { clock: realClock },
    )
    const [submitting, reading] = [http.read(post(http)), failure(http.read(get(http)))]
    while (server.hits.length < 2) await new Promise((resolve) => setTimeout(resolve, 5))
    stop.abort()
    expect((await reading).code).toBe('INTERRUPTED')
    const { status, bytes } = await submitting
    expect([status, String(bytes)]).toEqual([200, '{"report_id":"r-1"}'])
  })

  test('is not sent where the run was stopped before', async () => {
    const { server, http, stop } = await served(json, {
      clock: realClock,
      // The run is stopped between the place in the row and the connection.
      rate: {
        take: async () => {
          stop.abort()
          return () => undefined
        },
      },
    })
    expect(sent(await failure(http.read(post(http))))).toBe(false)
    expect(server.hits).toHaveLength(0)
  })

  test('may have arrived when the run is stopped while its answer is awaited', async () => {
    const { server, http, stop } = await served(() => undefined)
    const submitting = failure(http.read(post(http)))
    while (server.hits.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    stop.abort()
    expect(sent(await submitting)).toBe(true)
  })

  test.each([
    [307, false],
    [308, false],
    [302, true],
    [303, true],
  ])('is not sent on by a redirect %i (may have been taken: %s)', async (status, taken) => {
    const { server, http } = await served((_, response) => {
      response.writeHead(status, { location: '/elsewhere' })
      response.end()
    })
    const error = await failure(http.read(post(http)))
    expect([error.code, sent(error)]).toEqual(['BAD_RESPONSE', taken])
    expect(server.hits).toHaveLength(1)
  })

  test('uses a connection of its own, which no earlier answer can close under it', async () => {
    const ports: (number | undefined)[] = []
    const { http } = await served((request, response) => {
      ports.push(request.socket.remotePort)
      response.end('{}')
    })
    await http.read(get(http))
    await http.read(post(http))
    expect(new Set(ports).size).toBe(2)
  })
})

describe('the key', () => {
  test('goes in the query or in the header, as the endpoint wants it, and not into the record', async () => {
    const { server, http, recorded } = await served(json)
    await http.read(get(http, '/v1/things', { url: new URL('/v1/things?a=1', server.url) }))
    await http.read(post(http))
    expect(server.hits.map((hit) => [hit.url, hit.headers['x-key-of-test']])).toEqual([
      [`/v1/things?a=1&key_of_test=${testKey}`, undefined],
      ['/v1/submit', testKey],
    ])
    expect(JSON.stringify(recorded)).not.toContain(testKey)
    expect(recorded.map((request) => request.parameters)).toEqual([{ a: '1' }, { body: { what: 1 } }])
  })

  test('is not given to another origin, whatever a source asks for', async () => {
    const other = await serve(json)
    const { http } = await served(json)
    expect((await failure(http.read(get(http, '/x', { url: new URL('/x', other.url) })))).code).toBe('INTERNAL')
    expect(other.hits).toHaveLength(0)
  })

  test('does not follow a redirect to another origin', async () => {
    const other = await serve(json)
    const { http } = await served((_, response) => {
      response.writeHead(302, { location: `${other.url.href}?key_of_test=${testKey}` })
      response.end()
    })
    const error = await failure(http.read(get(http)))
    expect(error.code).toBe('BAD_RESPONSE')
    expect(error.message).toContain(other.url.origin)
    expect(error.message).not.toContain(testKey)
    expect(other.hits).toHaveLength(0)
  })

  test.each([
    [undefined, 'redirects to no address (301)'],
    ['file:///etc/passwd', 'redirects to a file: address (301), which was not followed: it is not http'],
    ['data:application/json,{}', 'redirects to a data: address (301)'],
    ['http://%zz/', 'redirects to something that is no address (301)'],
  ])('is given to no redirect that leads nowhere (%s), and the error says so', async (location, words) => {
    const { server, http } = await served((_, response) => {
      response.writeHead(301, location === undefined ? {} : { location })
      response.end()
    })
    const error = await failure(http.read(get(http)))
    expect([error.code, error.message]).toEqual(['BAD_RESPONSE', expect.stringContaining(words)])
    expect(server.hits).toHaveLength(1)
  })

  test('follows a redirect within the service, three times and no more', async () => {
    const { server, http } = await served((_, response, hit) => {
      response.writeHead(301, { location: `/step${hit}` })
      response.end()
    })
    expect((await failure(http.read(get(http)))).code).toBe('BAD_RESPONSE')
    expect(server.hits.map((hit) => hit.url.split('?')[0])).toEqual(['/v1/things', '/step1', '/step2', '/step3'])
    expect(server.hits.every((hit) => hit.url.includes(testKey))).toBe(true)
  })

  test('stands once in an address that the service redirects to, also where the service names it itself', async () => {
    const { server, http, recorded } = await served((request, response, hit) => {
      if (hit === 1) response.writeHead(307, { location: `/next?a=1&key_of_test=old&key_of_test=${testKey}` })
      json(request, response, hit)
    })
    await http.read(get(http))
    expect(server.hits[1]?.url).toBe(`/next?a=1&key_of_test=${testKey}`)
    expect(JSON.stringify(recorded)).not.toContain(testKey)
  })

  test('is in no record of an address that the service redirects to, whatever it is called there', async () => {
    const { http, recorded } = await served((request, response, hit) => {
      const spelled = encodeURIComponent(testKey)
      if (hit === 1) response.writeHead(302, { location: `/next/?token=${spelled}&${spelled}=b` })
      json(request, response, hit)
    })
    expect((await http.read(get(http))).status).toBe(200)
    expect(recorded[1]?.parameters).toEqual({ token: '[secret]', '[secret]': 'b' })
  })

  test('stands in no error, whatever the service does with it', async () => {
    const { http } = await served((request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' })
      response.end(`<html>your request was ${request.url}</html>`)
    })
    const { parseJson } = await import('../../../src/extract/http-answer.ts')
    const answer = await http.read(get(http))
    const thrown = await failure(Promise.resolve().then(() => parseJson(answer, '/v1/things', 'TEST_ADDRESS')))
    expect(thrown.code).toBe('BAD_RESPONSE')
    expect(thrown.message).toContain('text/html')
    expect(thrown.message).toContain('<html>your request was')
    expect(thrown.message).not.toContain(testKey.slice(0, 12))
  })
})

test('the record has what the ledger keeps of a request', async () => {
  const { http, recorded } = await served(json)
  await http.read(get(http, '/v1/things', { part: 3 }))
  expect(recorded).toEqual([
    {
      account: 'default',
      method: 'GET',
      endpoint: '/v1/things',
      parameters: {},
      part: 3,
      attempt: 1,
      status: 200,
      errorCode: null,
      bytes: 11,
      sha256: '4062edaf750fb8074e7e83e0c9028c94e32468a8b6f1614774328ef045150f93',
      credits: null,
      isUncertain: false,
      isOpen: false,
      paidFor: null,
      saidIn: null,
      startedAt: expect.stringMatching(/^\d{4}-/),
      milliseconds: expect.any(Number),
    },
  ])
})

test('a page that a refused certificate kept here cost nothing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-certificate-'))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost']
  execFileSync('openssl', [...request, '-keyout', key, '-out', cert], { stdio: 'ignore' })
  const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  try {
    const { http, recorded } = testClient(new URL(`https://localhost:${(server.address() as AddressInfo).port}`))
    const refused = await failure(
      http.read(get(http, '/v1/things', { paidFor: { rowsAsked: 100, rows: null, metrics: 1, values: 1 } })),
    )
    expect([refused.code, refused.network]).toEqual(['SERVICE_UNREACHABLE', 'DEPTH_ZERO_SELF_SIGNED_CERT'])
    expect(new Set(recorded.map(({ credits, isUncertain }) => `${credits} ${isUncertain}`))).toEqual(new Set(['0 false']))
  } finally {
    server.close()
    rmSync(folder, { recursive: true })
  }
})

test('a page asked for by https of a port that speaks http cost nothing: no connection stood', async () => {
  const server = await serve(json)
  const { http, recorded } = testClient(new URL(String(server.url).replace('http:', 'https:')))
  const paidFor = { rowsAsked: 100, rows: null, metrics: 1, values: 1 }
  expect((await failure(http.read(get(http, '/v1/things', { paidFor })))).code).toBe('SERVICE_UNREACHABLE')
  expect(new Set(recorded.map(({ credits, isUncertain }) => `${credits} ${isUncertain}`))).toEqual(new Set(['0 false']))
})

test('paths are set below the base address, and can be set in an endpoint’s place', () => {
  const { http } = testClient(new URL('https://api.example.com/proxy/'), { paths: new Map([['things', '/v9/other']]) })
  expect(http.url('things', '/v1/things').href).toBe('https://api.example.com/proxy/v9/other')
  expect(http.url('more', '/v1/more').href).toBe('https://api.example.com/proxy/v1/more')
})
