// The sandbox behind a service that means harm: it drips, names reports oddly, lies about dates, says the key back, refuses in storms, cuts, resets and
// sends the client elsewhere. A mix says which of it, how often and where; everything drawn follows from the seed.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { bodyOf, ownHeaders, pick, type Random, sayInCsv, sayInJson } from '../support/echoing-service.ts'

export const trickNames = [
  'drip',
  'odd-id',
  'wrong-dates',
  'retry-after',
  'echo',
  'storm-400',
  'storm-5xx',
  'html-200',
  'html-after',
  'cut',
  'reset',
  'reset-after',
  'elsewhere',
  'no-json',
] as const
export type TrickName = (typeof trickNames)[number]

export interface Trick {
  readonly name: TrickName
  /** Share of the requests it is for. */
  readonly often: number
  /** Paths it is for. */
  readonly where: RegExp
}

/** Places a trick may be for. */
export const places: Readonly<Record<string, RegExp>> = {
  all: /./,
  keywords: /website-analysis/,
  submit: /request-report/,
  status: /request-status/,
  download: /^\/downloads/,
  capabilities: /capabilities|credits|describe|validate|history/,
}

export interface HostileService {
  readonly url: string
  /** How often each trick was played. */
  readonly played: Readonly<Record<string, number>>
  /** From now on; an empty list is an honest service. */
  play(tricks: readonly Trick[]): void
  /** What came to the host it sent clients to: nothing there may hold the key. */
  readonly elsewhere: readonly string[]
  close(): Promise<void>
}

export interface HostileOptions {
  /** Address of the sandbox. */
  readonly upstream: string
  readonly key: string
  readonly random: Random
  /** Whether the key may also stand where data should be: what is loaded then differs from the truth, and nobody can see it. */
  readonly spoilsData: boolean
}

interface Exchange {
  readonly path: string
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly options: HostileOptions
  readonly plays: (name: TrickName) => boolean
  readonly elsewhere: string
  /** Ids it gave so far. */
  readonly ids: string[]
}

const listenOn = async (server: ReturnType<typeof createServer>): Promise<string> => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}

export const startHostileService = async (options: HostileOptions): Promise<HostileService> => {
  const { random } = options
  let tricks: readonly Trick[] = []
  const played: Record<string, number> = {}
  const elsewhere: string[] = []
  const ids: string[] = []
  const other = createServer((request, response) => {
    elsewhere.push(`${request.method} ${request.url} ${JSON.stringify(request.rawHeaders)}`)
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  const otherUrl = await listenOn(other)
  let url = ''
  const server = createServer((request, response) => {
    response.on('error', () => response.destroy())
    const path = (request.url ?? '').replace(/\?.*/, '')
    const plays = (name: TrickName): boolean => {
      const does = tricks.some((trick) => trick.name === name && trick.where.test(path) && random() < trick.often)
      if (does) played[name] = (played[name] ?? 0) + 1
      return does
    }
    answer({ path, request, response, options, plays, elsewhere: otherUrl, ids }, url).catch(() => response.destroy())
  })
  url = await listenOn(server)
  return {
    url,
    played,
    elsewhere,
    play: (list) => {
      tricks = list
    },
    close: async () => {
      for (const one of [server, other]) {
        one.closeAllConnections()
        await new Promise<void>((resolve) => one.close(() => resolve()))
      }
    },
  }
}

const answer = async (exchange: Exchange, url: string): Promise<void> => {
  const { request, response, options, plays } = exchange
  const body = await bodyOf(request)
  if (refuses(exchange)) return
  const sent = Object.fromEntries(Object.entries(request.headers).filter(([name]) => name !== 'host' && name !== 'connection'))
  const real = await fetch(`${options.upstream}${request.url}`, {
    method: request.method ?? 'GET',
    headers: sent as Record<string, string>,
    ...(body.length === 0 ? {} : { body: new Uint8Array(body) }),
    redirect: 'manual',
  })
  const headers = Object.fromEntries([...real.headers].filter(([name]) => !ownHeaders.includes(name)))
  const text = Buffer.from(await real.arrayBuffer())
    .toString('utf8')
    .replaceAll(options.upstream, url)
  if (plays('reset-after')) return void request.socket.resetAndDestroy()
  if (plays('html-after')) return void html(response)
  spoilHeaders(exchange, headers)
  send(exchange, real.status, headers, spoilBody(exchange, text))
}

const html = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Sign in</title><p>Please sign in again.')

const storm400 = [400, 400, 400, 400, 404, 409, 422]
const storm500 = [500, 502, 503, 503, 429]
export const oddRetryAfter = [
  '31536000',
  '999999999999999999999',
  'Fri, 01 Jan 2199 00:00:00 GMT',
  'Thu, 01 Jan 1970 00:00:00 GMT',
  '-5',
  'soon',
  'NaN',
  '1e9',
  '',
]

/** Answers without asking the sandbox: the request takes no effect. */
const refuses = ({ request, response, options, plays, elsewhere }: Exchange): boolean => {
  const { random, key } = options
  const json = { 'content-type': 'application/json' }
  if (plays('reset')) request.socket.resetAndDestroy()
  else if (plays('html-200')) html(response)
  else if (plays('elsewhere'))
    response.writeHead(pick([301, 302, 307, 308], random), { location: `${elsewhere}${request.url}` }).end()
  else if (plays('storm-400'))
    response.writeHead(pick(storm400, random), json).end(JSON.stringify({ error: `no: ${random() < 0.5 ? key : 'never'}` }))
  else if (plays('storm-5xx')) response.writeHead(pick(storm500, random), json).end('{"error":"too busy"}')
  else if (plays('retry-after'))
    response.writeHead(pick([429, 503], random), { ...json, 'retry-after': pick(oddRetryAfter, random) }).end('{"error":"wait"}')
  else if (plays('no-json')) response.writeHead(200, json).end(pick(['', 'null', '[]', '"x"', '{', '{"a":1e999}', '{}'], random))
  else return false
  return true
}

const spoilHeaders = ({ options: { key, random }, plays }: Exchange, headers: Record<string, string>): void => {
  if (plays('echo')) headers[pick(['x-request-id', 'server', 'etag', 'content-disposition'], random)] = encodeURIComponent(key)
  if (!plays('wrong-dates')) return
  const far = pick(['4102444800', '-1', '1e300', 'never', '99999999999999'], random)
  for (const name of ['x-ratelimit-reset', 'ratelimit-reset', 'x-rate-limit-reset', 'x-ratelimit-remaining', 'retry-after'])
    headers[name] = far
  headers['last-modified'] = 'Fri, 31 Feb 2199 25:61:00 GMT'
}

const isData = ({ path }: Exchange): boolean =>
  (places['keywords']?.test(path) ?? false) || (places['download']?.test(path) ?? false)

const spoilBody = (exchange: Exchange, text: string): string => {
  const { options, plays, path } = exchange
  const { random, key, spoilsData } = options
  let spoiled = text
  if (places['submit']?.test(path)) spoiled = renamed(exchange, spoiled)
  if (plays('wrong-dates') && !isData(exchange)) spoiled = misdated(spoiled, random)
  else if (places['keywords']?.test(path) && plays('wrong-dates'))
    spoiled = spoiled.replace(
      /("last_updated":)"[^"]*"/,
      `$1${pick(['"9999-99-99"', '"2199-01-01"', '""', '-1', 'null', '"yesterday"'], random)}`,
    )
  if (spoiled !== '' && (!isData(exchange) || spoilsData) && plays('echo'))
    spoiled = /^\s*[[{]/.test(spoiled) ? sayInJson(spoiled, key, random, []) : sayInCsv(spoiled, key, random, [])
  return spoiled
}

const wrongDays = ['2199-01-31', '9999-12-31', '0000-00-00', '1969-12-31', 'tomorrow', '2026-13-45', '']

const misdated = (text: string, random: Random): string =>
  text.replaceAll(/"\d{4}-\d{2}(-\d{2})?"/g, (date) => (random() < 0.7 ? `"${pick(wrongDays, random)}"` : date))

/** The id of a submission's answer, as no service should give it. */
const renamed = ({ options: { key, random }, plays, ids }: Exchange, text: string): string => {
  const found = /"(?:report_id|id)":"([^"]*)"/.exec(text)?.[1]
  if (found === undefined) return text
  const earlier = ids.at(-1)
  ids.push(found)
  if (!plays('odd-id')) return text
  const odd = [
    'a\u0000b',
    'x'.repeat(16_000),
    'two words',
    key,
    '',
    '../../etc/passwd',
    '-'.repeat(201),
    ...(earlier === undefined ? [] : [earlier]),
  ]
  return text.replace(`"${found}"`, JSON.stringify(pick(odd, random)))
}

/** Between two bytes of a body that drips. */
const dripMs = 200

const send = (
  { request, response, options, plays }: Exchange,
  status: number,
  headers: Record<string, string>,
  text: string,
): void => {
  const bytes = Buffer.from(text)
  const half = bytes.subarray(0, Math.floor(bytes.length / 2))
  if (plays('drip')) drip(response, status, headers, bytes)
  else if (!plays('cut')) response.writeHead(status, headers).end(bytes)
  else if (options.random() < 0.3) response.writeHead(status, headers).end(half)
  else {
    response.writeHead(status, { ...headers, 'content-length': String(bytes.length) }).write(half)
    setTimeout(() => request.socket.destroy(), 20)
  }
}

/** A byte each 200 ms until the client has had enough. */
const drip = (response: ServerResponse, status: number, headers: Record<string, string>, bytes: Buffer): void => {
  response.writeHead(status, headers).flushHeaders()
  let at = 0
  const timer = setInterval(() => {
    if (response.destroyed || at >= bytes.length) {
      clearInterval(timer)
      response.end()
      return
    }
    response.write(bytes.subarray(at, at + 1))
    at += 1
  }, dripMs)
  response.on('close', () => clearInterval(timer))
}
