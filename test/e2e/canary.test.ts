// The key is looked for in every sink after every kind of success and failure: output, log, tables, files, page, metrics, traces, process
// list, and what reached another host. The service does its worst: it says the key back in errors, redirects, links and statuses.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { anySpellingIn, canaryBatchKey, canaryKey, leaksIn } from '../support/canary.ts'
import { startCommand } from '../support/command.ts'
import { everyPage, everyTable, filesBelow, processList } from '../support/every-sink.ts'
import { type Listening, listen } from '../support/listen.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { definitionsIn, testFolder } from '../support/test-world.ts'

type Handle = (request: IncomingMessage, response: ServerResponse, body: string) => void

interface Path {
  readonly name: string

  readonly args: readonly string[]
  readonly handle: Handle
}

const folder = testFolder({ copied: ['pipelines'] })
const { edit, list } = definitionsIn(folder)
let elsewhere: Listening
let collector: Listening
const astray: string[] = []
const traces: string[] = []

const json = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

beforeAll(async () => {
  list('domains', ['a.com'])
  // One try of a unit says as much as five, and leaves out the pauses between them.
  edit('keywords', ['attempts: 5', 'attempts: 1'])
  edit('traffic_and_engagement', ['attempts: 5', 'attempts: 1'], ['poll_every: 5s', 'poll_every: 1s'])

  elsewhere = await listen((request, response, body) => {
    astray.push(`${request.url} ${JSON.stringify(request.headers)} ${body}`)
    json(response, 200, {})
  })
  collector = await listen((_request, response, body) => {
    traces.push(body)
    json(response, 200, {})
  })
})
afterAll(async () => {
  for (const server of [elsewhere, collector]) await server.close()
})

const patienceMs = 8_000

const said = `refused for ${canaryKey}, ${encodeURIComponent(canaryKey)}, ${Buffer.from(canaryKey).toString('base64')} and ${canaryBatchKey}`

const page = (request: IncomingMessage) => {
  const query = new URL(request.url ?? '/', 'http://service').searchParams
  return {
    meta: {
      request: {
        domain: query.get('URL'),
        country: query.get('country'),
        start_date: `${query.get('start_date')}-01`,
        format: 'json',
      },
      status: 'Success',
      last_updated: `2026-11-10 ${canaryKey}`,
      data_version: `v ${canaryKey}`,
    },
    keywords: [{ keyword: 'a word', top_url: 'a.com/x', clicks: 5 }],
    keywords_count: 1,
  }
}

/** A report service whose status says `status`. */
const reports =
  (status: unknown): Handle =>
  (request, response) => {
    const path = request.url ?? ''
    if (request.method === 'POST') return json(response, 200, { report_id: randomUUID(), status: 'pending' })
    if (path.includes('/request-status/')) return json(response, 200, status)
    response.writeHead(200, { 'content-type': 'text/csv' }).end('domain,country,date,all_traffic_visits\na.com,US,2026-09-01,5\n')
  }

const keywords = (...more: string[]) => [
  'backfill',
  'keywords',
  '--from',
  '2026-09',
  '--to',
  '2026-09',
  '--only',
  'country=us',
  '--force',
  ...more,
]
const traffic = () => [
  'backfill',
  'traffic_and_engagement',
  '--from',
  '2026-09',
  '--to',
  '2026-09',
  '--only',
  'country=us',
  '--resubmit-uncertain',
]

const paths: readonly Path[] = [
  { name: 'a loaded unit', args: keywords(), handle: (request, response) => json(response, 200, page(request)) },
  { name: 'a loaded unit, for machines', args: keywords('--json'), handle: (request, response) => json(response, 200, page(request)) },
  { name: 'a replay', args: ['replay', 'keywords', '--from', '2026-09', '--to', '2026-09'], handle: (_request, response) => json(response, 500, {}) },
  { name: 'the key refused as text', args: keywords(), handle: (_request, response) => response.writeHead(401).end(said) },
  { name: 'the key refused as JSON', args: keywords('--json'), handle: (_request, response) => json(response, 403, { errors: [said], message: said }) },
  { name: 'a bad request that says everything back', args: keywords(), handle: (request, response) => json(response, 400, { message: said, url: request.url }) },
  { name: 'HTML as 200', args: keywords(), handle: (request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(`<html>${request.url} ${said}</html>`) },
  { name: 'JSON that breaks off behind the key', args: keywords('--json'), handle: (_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(`{"message":"${said}`) },
  { name: 'a field of another type', args: keywords(), handle: (_request, response) => json(response, 200, { meta: said, keywords: said, keywords_count: said }) },
  { name: 'a redirect to another host with the key in it', args: keywords(), handle: (request, response) => response.writeHead(302, { location: `${elsewhere.url}${request.url}` }).end() },
  { name: 'a server error', args: keywords(), handle: (_request, response) => response.writeHead(500).end(said) },
  { name: 'a cut connection', args: keywords('--json'), handle: (request) => request.socket.destroy() },
  { name: 'a rejected row that holds the key', args: keywords(), handle: (request, response) => json(response, 200, { ...page(request), keywords: [{ keyword: 'k', top_url: 'u', clicks: 'not a number' }] }) },
  { name: 'a loaded report', args: traffic(), handle: reports({ status: 'completed', download_url: 'HERE', used_quota: 1, data_version: `v ${canaryBatchKey}` }) },
  { name: 'a failed report', args: traffic(), handle: reports({ status: 'internal_error', message: said, error: said }) },
  { name: 'a status word nobody knows', args: traffic(), handle: reports({ status: said }) },
  { name: 'a download link to another host', args: traffic(), handle: reports({ status: 'completed', download_url: `${'ELSEWHERE'}/x.csv?api_key=${encodeURIComponent(canaryBatchKey)}` }) },
  { name: 'a download link that is none', args: traffic(), handle: reports({ status: 'completed', download_url: `not a link ${said}` }) },
  { name: 'a refused submission', args: traffic(), handle: (_request, response) => json(response, 400, { errors: [{ message: said }] }) },
  { name: 'a submission without an answer', args: traffic(), handle: (request) => request.socket.destroy() },
  { name: 'a dry run', args: [...traffic().slice(0, 5), '--dry-run', '--json'], handle: (_request, response) => json(response, 400, { errors: [said] }) },
  { name: 'check', args: ['check'], handle: (_request, response) => json(response, 401, { message: said }) },
  { name: 'capabilities', args: ['capabilities'], handle: (_request, response) => response.writeHead(500).end(said) },
  { name: 'quota', args: ['quota', '--json'], handle: (_request, response) => json(response, 200, { remaining_credits: said }) },
  { name: 'status', args: ['status', '--json'], handle: (_request, response) => json(response, 200, {}) },
] // biome-ignore format: a table reads best by line

/** The addresses of the servers, which a table of paths cannot know. */
const filledIn = (response: ServerResponse, own: () => string): ServerResponse => {
  const end = response.end.bind(response) as (text?: string) => ServerResponse
  response.end = ((text?: string) =>
    end(text?.replace('"HERE"', `"${own()}/file.csv"`).replace('ELSEWHERE', elsewhere.url))) as typeof response.end
  return response
}

describe('the key leaks nowhere', () => {
  test('the canary is found in every spelling where it is', () => {
    for (const text of [
      canaryKey,
      encodeURIComponent(canaryBatchKey),
      JSON.stringify({ a: canaryKey }),
      Buffer.from(canaryKey).toString('base64'),
    ])
      expect(leaksIn(`before ${text} after`)).not.toEqual([])
    expect(leaksIn('nothing of the kind')).toEqual([])
  })

  test.concurrent.each(paths.map((path, at) => ({ ...path, at })))('$name', async ({ args, handle, at }) => {
    const db = await createTestDatabase()
    const home = join(folder, `home-${at}`)
    const service = await listen((request, response, body) =>
      handle(
        request,
        filledIn(response, () => service.url),
        body,
      ),
    )
    let listed = ''
    const command = startCommand(
      args,
      {
        WEB_ANALYTICS_BASE_URL: service.url,
        WEB_ANALYTICS_API_KEY: canaryKey,
        WEB_ANALYTICS_BATCH_API_KEY: canaryBatchKey,
        WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
        DATABASE_URL: db.url,
        MILLRACE_HOME: home,
        MILLRACE_LOG_LEVEL: 'trace',
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      },
      folder,
    )
    // A status word nobody knows is an open report for hours: it is interrupted like a person would.
    const patience = setTimeout(() => command.child.kill('SIGINT'), patienceMs)
    const look = setInterval(() => {
      listed += processList()
    }, 200)
    const result = await command.result
    clearTimeout(patience)
    clearInterval(look)
    service.close()
    expect([0, 1, 2, 130]).toContain(result.code)
    expect({
      output: leaksIn(result.stdout),
      errors: leaksIn(result.stderr),
      processes: leaksIn(listed),
      // As the text of a row, quotes and backslashes come twice.
      tables: anySpellingIn(await everyTable(db)),
      files: leaksIn(filesBelow(home)),
      pages: leaksIn(await everyPage(db)),
    }).toEqual({ output: [], errors: [], processes: [], tables: [], files: [], pages: [] })
    await db.drop()
  })

  test('after all that it is in no trace and reached no other host', () => {
    expect(traces.length).toBeGreaterThan(0)
    expect({ traces: leaksIn(traces.join('\n')), otherHost: leaksIn(astray.join('\n')) }).toEqual({ traces: [], otherHost: [] })
  })
})
