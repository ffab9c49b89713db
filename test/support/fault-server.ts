// A small HTTP server on 127.0.0.1 whose every answer a test writes itself, and a client bound to it.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { afterEach } from 'vitest'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { secret } from '../../src/core/redact.ts'
import { createService } from '../../src/extract/http.ts'
import type { SentRequest } from '../../src/core/sent-request.ts'
import type { HttpClient, HttpRequest, ServiceOptions, UnitHttpOptions } from '../../src/extract/http-types.ts'
import type { RateBudget } from '../../src/extract/rate.ts'

export type Answer = (request: IncomingMessage, response: ServerResponse, hit: number) => unknown

export interface FaultServer {
  readonly url: URL
  /** Every request that reached the server, in order. */
  readonly hits: {
    readonly method: string
    readonly url: string
    readonly headers: IncomingMessage['headers']
    readonly body: string
  }[]
  close(): Promise<void>
}

export const startFaultServer = async (answer: Answer): Promise<FaultServer> => {
  const hits: FaultServer['hits'] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      hits.push({
        method: request.method ?? '',
        url: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks).toString('utf8'),
      })
      answer(request, response, hits.length)
    })
    request.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    url: new URL(`http://127.0.0.1:${address.port}/`),
    hits,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

/** Sleeps are remembered and over at once. */
export interface JumpClock extends Clock {
  readonly slept: number[]
}

export const jumpClock = (start = Date.parse('2026-11-20T00:00:00Z')): JumpClock => {
  let now = start
  const slept: number[] = []
  return {
    slept,
    now: () => now,
    random: () => 0.5,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted()
      slept.push(ms)
      now += ms
    },
  }
}

export const openRate: RateBudget = {
  take: async (signal) => {
    signal.throwIfAborted()
    return () => undefined
  },
}

export const testKey = 'canary-key-0123456789'
const queryKey = secret('key of the query', testKey)
const headerKey = secret('key of the header', testKey)

export interface TestClient {
  readonly http: HttpClient
  readonly recorded: SentRequest[]
  readonly stop: AbortController
}

export const testClient = (url: URL, service: Partial<ServiceOptions> = {}, unit: Partial<UnitHttpOptions> = {}): TestClient => {
  const recorded: SentRequest[] = []
  const stop = new AbortController()
  const http = createService({
    baseUrl: url,
    addressSetting: 'TEST_ADDRESS',
    authenticate: ({ method }) =>
      method === 'GET' ? { query: { key_of_test: queryKey } } : { headers: { 'x-key-of-test': headerKey } },
    rate: openRate,
    log: silentLog,
    clock: jumpClock(),
    ...service,
  }).forUnit({
    account: 'default',
    signal: stop.signal,
    timeoutMs: 2_000,
    attempts: 5,
    maxBodyBytes: 100_000_000,
    record: (request) => recorded.push(request),
    ...unit,
  })
  return { http, recorded, stop }
}

/** For a file: servers that are closed after the test, and clients of them. Called at its beginning. */
export const faultServers = () => {
  const servers: FaultServer[] = []
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()))
  })
  const serve = async (answer: Answer): Promise<FaultServer> => {
    const server = await startFaultServer(answer)
    servers.push(server)
    return server
  }
  const served = async (answer: Answer, service?: Partial<ServiceOptions>, unit?: Partial<UnitHttpOptions>) => {
    const server = await serve(answer)
    return { server, ...testClient(server.url, service, unit) }
  }
  return { serve, served }
}

export const realClock = systemClock

export const get = (http: HttpClient, path = '/v1/things', more: Partial<HttpRequest> = {}): HttpRequest => ({
  method: 'GET',
  endpoint: path,
  url: http.url('things', path),
  idempotent: true,
  ...more,
})

export const post = (http: HttpClient, path = '/v1/submit', more: Partial<HttpRequest> = {}): HttpRequest => ({
  method: 'POST',
  endpoint: path,
  url: http.url('submit', path),
  idempotent: false,
  body: { what: 1 },
  ...more,
})
