// What bad input gets that bad-input.test.ts does not try: one clear message with the remedy, the right exit code, and a warehouse that is as it was.
import { mkdirSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { addWindows } from '../../src/core/window.ts'
import { type CommandResult, summaryOf } from '../support/command.ts'
import { lastMonth } from '../support/release-world.ts'
import { type KeywordRecord, type StrictOptions, type StrictService, startStrictService } from '../support/strict-service.ts'
import { succeeded, testWorld } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const key = 'refusal-key-0123456789'
const world = testWorld<StrictService>({
  each: true,
  lists: { domains: ['a.com', 'b.com'] },
  database: { published: true },
  settings: { WEB_ANALYTICS_API_KEY: key },
})
const { folder, db, service, serve, edit, environment } = world

beforeEach(() => {
  edit('keywords', ['attempts: 5', 'attempts: 2'])
  edit('traffic_and_engagement', ['attempts: 5', 'attempts: 2'], ['poll_every: 5s', 'poll_every: 200ms'])
})

const one = ['--only', 'domain=a.com;country=us']
const keywords = (extra: Readonly<Record<string, string>> = {}, ...args: string[]): Promise<CommandResult> =>
  runWarm(
    ['backfill', 'keywords', '--from', '2026-09', '--to', '2026-09', ...(args.length > 0 ? args : one), '--json'],
    environment(extra),
    folder,
  )
const plainly = (...args: string[]): Promise<CommandResult> => runWarm(args, environment(), folder)
const traffic = (...args: string[]): Promise<CommandResult> =>
  runWarm(
    ['backfill', 'traffic_and_engagement', '--from', '2026-09', '--to', '2026-09', '--only', 'country=us', ...args, '--json'],
    environment(),
    folder,
  )

const record = (keyword: string, clicks = 1): KeywordRecord => ({ keyword, top_url: 'u', clicks })
const csv = (lines: readonly string[]): string => ['domain,country,date,all_traffic_visits', ...lines, ''].join('\n')

const start = (options: Partial<StrictOptions> = {}): Promise<StrictService> =>
  serve(
    startStrictService({
      key,
      keywords: () => [record('k')],
      report: () => csv(['a.com,US,2026-09-01,1', 'b.com,US,2026-09-01,2']),
      ...options,
    }),
  )

/** Answers requests to `path` with this, everything else as usual. */
const answering =
  (path: string, status: number, type: string, body: string) =>
  (request: IncomingMessage, response: ServerResponse): boolean => {
    if (!(request.url ?? '').includes(path)) return false
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) })
    response.end(body)
    return true
  }

const meta = (code: number, message: string): string =>
  JSON.stringify({ meta: { status: 'Error', error_code: code, error_message: message } })
const rows = async (table: string): Promise<number> =>
  Number((await db.query<{ n: string }>(`select count(*) as n from ${table}`))[0]?.n)

const expectRefusal = (result: CommandResult, exit: number, code: string, remedy: RegExp): void => {
  expect(result.code, result.stderr).toBe(exit)
  expect(result.stderr).toContain(`[${code}]`)
  expect(result.stderr).toMatch(remedy)
  expect(result.stdout + result.stderr).not.toContain(key)
}

describe('what is wrong before anything is called', () => {
  test('a wrong password, and a database that is read-only', async () => {
    await start()
    const wrong = new URL(db.url)
    wrong.password = 'not-the-password'
    expectRefusal(await keywords({ DATABASE_URL: wrong.href }), 2, 'CONFIGURATION', /password/)
    await db.database.pool.query(
      `do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`,
    )
    expectRefusal(await keywords(), 1, 'DATABASE_READ_ONLY', /primary|writes/)
    for (const reads of [['status'], ['quarantine', 'list'], ['export', 'keywords', '--format', 'csv']])
      expect(await plainly(...reads)).toMatchObject({ code: 0 })
    await db.database.pool.query(`set default_transaction_read_only = off`)
    await db.database.pool.query(
      `begin read write; do $$ begin execute format('alter database %I reset default_transaction_read_only', current_database()); end $$; commit`,
    )
  })
})

test('a database that cannot hold every character is refused by check and migrate alike', async () => {
  const url = new URL(db.url)
  url.pathname = `${url.pathname}_win1251`
  const name = url.pathname.slice(1)
  await db.database.pool.query(`create database ${name} encoding 'WIN1251' locale 'C' template template0`)
  for (const command of ['check', 'migrate', 'status']) {
    const result = await runWarm([command], { ...environment(), DATABASE_URL: url.href }, folder)
    expect(result).toMatchObject({ code: 2 })
    expect(result.stdout + result.stderr).toMatch(/has the encoding WIN1251.*ENCODING 'UTF8'/s)
  }
  await db.database.pool.query(`drop database ${name} with (force)`)
})

test.each([
  [
    'a % in the password that is not encoded',
    () => ({ DATABASE_URL: ['postgres://u:pa', 'ss@127.0.0.1:1/x'].join('%') }),
    /write it as %25/,
  ],
  ['a folder in place of .env', () => void mkdirSync(join(folder, '.env')), /is a folder/],
  [
    '.env in UTF-16',
    () => writeFileSync(join(folder, '.env'), Buffer.from('\ufeffDATABASE_URL=x\n', 'utf16le')),
    /save it as UTF-8/,
  ],
])('settings that cannot be read are named: %s', async (_, set, words) => {
  const more = set() ?? {}
  expectRefusal(await runWarm(['status'], { ...environment(), ...more }, folder), 2, 'CONFIGURATION', words)
})

describe('what the status of a report refuses', () => {
  test.each([400, 409, 410])(
    '%i neither cuts the report nor buys it again: the same command polls the one there is',
    async (status) => {
      const bought: string[] = []
      let refuses = true
      const refuse = answering('request-status', status, 'application/json', '{"error":"no: never"}')
      await start({
        intercept: (request, response) => {
          if ((request.url ?? '').includes('request-report')) bought.push(request.url ?? '')
          return refuses && refuse(request, response)
        },
      })
      // A poll has no parameters that could be corrected.
      const refused = await traffic()
      expectRefusal(refused, 1, 'BAD_REQUEST', /no: never.*next run asks again.*`millrace reports give-up JOB --sure`/)
      expect(refused.stderr).not.toContain('Correct the')
      refuses = false
      const again = await traffic()
      expect([again.code, bought.length], again.stderr).toEqual([0, 1])
      expect(summaryOf(again).units.loaded).toBe(2)
    },
  )
})

describe('what the keyword endpoint refuses', () => {
  const path = '/v4/website-analysis/keywords'
  test.each([
    [
      'a month long past what the key may ask',
      400,
      'application/json',
      meta(101, 'Dates out of range'),
      1,
      'NO_CAPABILITY',
      /older than what this key may request/,
    ],
    ['a server error', 500, 'application/json', '{"message":"oops"}', 1, 'SERVICE_ERROR', /oops.*next run tries again/],
  ])('%s', async (_what, status, type, body, exit, code, remedy) => {
    await start({ intercept: answering(path, status, type, body) })
    expectRefusal(await keywords(), exit, code, remedy)
    expect(await rows('data.keywords_v1')).toBe(0)
  })

  test('an error within a 200 is told with the code that it has, not with a status that the service did not send', async () => {
    const body = JSON.stringify({ error: { code: 'FORBIDDEN_ERROR', message: 'Access forbidden' } })
    await start({ intercept: answering(path, 200, 'application/json', body) })
    expectRefusal(await keywords(), 1, 'NO_CAPABILITY', /keywords answers 200 \(code FORBIDDEN_ERROR\): "Access forbidden"/)
  })

  test.each([
    [meta(100, 'Internal error'), 0, 1],
    [
      JSON.stringify({ meta: { status: 'Error', error_message: 'Service temporarily unavailable', data_credits_charged: 2 } }),
      1,
      0,
    ],
    [JSON.stringify({ keywords: [record('k')], meta: { status: 'Error', error_message: 'Internal error' } }), 1, 0],
  ])('trouble of the service within a 200 is tried again, unless it was paid for or has rows: %s', async (body, exit, loaded) => {
    let isFirst = true
    const trouble = answering(path, 200, 'application/json', body)
    await start({
      intercept: (request, response) => {
        const isTrouble = isFirst && trouble(request, response)
        isFirst &&= !isTrouble
        return isTrouble
      },
    })
    expect((await keywords()).code).toBe(exit)
    expect(await rows('data.keywords_v1')).toBe(loaded)
  })

  test('a month not published yet waits and is no failure of a nightly run; a future one is not even asked for', async () => {
    const strict = await start({
      intercept: answering('start_date=2026-10', 400, 'application/json', meta(101, 'Dates out of range')),
    })
    const newest = await runWarm(['run', 'keywords', ...one, '--json'], environment(), folder)
    expect(summaryOf(newest).units.waiting + summaryOf(newest).units.failed).toBeGreaterThan(0)
    const before = strict.requests.length
    const future = await runWarm(
      ['backfill', 'keywords', '--from', '2031-01', '--to', '2031-01', ...one, '--json'],
      environment(),
      folder,
    )
    expect(summaryOf(future).units.waiting).toBe(1)
    expect(future.events).toContainEqual(
      expect.objectContaining({ event: 'not_published', units: 1, windows: ['2031-01'], expected_on: '2031-02-10' }),
    )
    expect(strict.requests).toHaveLength(before)
  })

  test('an answer cut at the newest month that cost nothing waits for its month; one with rows is held', async () => {
    const answer = (keywords: readonly KeywordRecord[]): string =>
      JSON.stringify({
        keywords,
        keywords_count: keywords.length,
        meta: { request: { start_date: '2026-08-01', end_date: '2026-08-31' } },
      })
    await start({ intercept: answering(path, 200, 'application/json', answer([])) })
    const empty = await keywords()
    expect(empty.stdout + empty.stderr).toMatch(/NOT_PUBLISHED[\s\S]*answered up to 2026-08-01: the month is not published yet/)
    expect(summaryOf(empty).units).toMatchObject({ waiting: 1, held: 0, loaded: 0 })
    await service?.close()
    await start({ intercept: answering(path, 200, 'application/json', answer([record('a')])) })
    const billed = await keywords({}, '--only', 'domain=b.com;country=us')
    expect(summaryOf(billed).units).toMatchObject({ waiting: 0, held: 1, loaded: 0 })
  })

  test('an answer for another domain is not loaded, and not paid for again by itself', async () => {
    const body = JSON.stringify({ keywords: [record('a')], keywords_count: 1, meta: { request: { domain: 'other.com' } } })
    const strict = await start({ intercept: answering(path, 200, 'application/json', body) })
    const pages = () => strict.requests.filter((request) => request.path.includes(path)).length
    expectRefusal(await keywords(), 1, 'UNUSABLE', /other\.com.*It may have been paid for and is not requested again/)
    expect((await keywords()).code).toBe(1)
    expect(pages()).toBe(1)
  })
})

test('what pages cost that no bill and no balance showed in time is told by the next reading of the balance', async () => {
  let left = 1000
  await start({
    intercept: (request, response) =>
      answering('/capabilities', 200, 'application/json', JSON.stringify({ remaining_hits: left }))(request, response),
  })
  expect((await keywords()).code).toBe(0)
  left = 900
  const later = await keywords({}, '--only', 'domain=b.com;country=us')
  expect([later.code, later.stderr]).toEqual([
    0,
    expect.stringContaining('the service charged 100 credits that no recorded request explains'),
  ])
})

describe('what becomes of reports', () => {
  const status = (word: string, times = Number.POSITIVE_INFINITY) => {
    let left = times
    return (request: IncomingMessage, response: ServerResponse): boolean => {
      if (!(request.url ?? '').includes('request-status') || left <= 0) return false
      left -= 1
      const body = JSON.stringify({ status: word, error_message: 'because' })
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(body)
      return true
    }
  }

  test('one that has expired by its links for a while is asked for again until they are good, and bought once', async () => {
    let refusals = 5
    const refuse = answering('/files/', 403, 'text/plain', 'This link has expired')
    const strict = await start({ intercept: (request, response) => refusals > 0 && refuse(request, response) && refusals-- > 0 })
    await succeeded(traffic())
    expect([strict.bought.length, refusals]).toEqual([1, 0])
    expect(await rows('data.traffic_and_engagement_v1')).toBe(2)
  })

  const ofAsked = (request: Readonly<Record<string, unknown>>): string => {
    const lines = ['a.com,US,2026-09-01,1', 'b.com,US,2026-09-01,2']
    return csv(lines.filter((line) => JSON.stringify(request).includes(line.slice(0, 5))))
  }

  test.each([
    ['internal error', 'REPORT_FAILED'],
    ['bad_request', 'REPORT_REJECTED'],
  ])('one that ends as %s fails, is not bought again by the same command, and is with --force', async (word, code) => {
    let ends = true
    const answer = status(word)
    const strict = await start({ intercept: (request, response) => ends && answer(request, response) })
    expectRefusal(await traffic(), 1, code, /because.*--force/s)
    await traffic()
    expect(strict.bought).toHaveLength(1)
    ends = false
    expect((await traffic('--force')).code).toBe(0)
    expect(strict.bought).toHaveLength(2)
  })

  test('one that is rejected for one of its values is cut until that value stands alone, where the service says that it cost nothing', async () => {
    let quota: number | null = 5
    let isForgotten = false
    const rejected = (request: IncomingMessage, response: ServerResponse): boolean => {
      const id = /request-status\/(.+)$/.exec(request.url ?? '')?.[1]
      const asked = strict.bought.find((report) => report.id === id)
      if (asked === undefined || !JSON.stringify(asked.body).includes('b.com')) return false
      response.writeHead(isForgotten ? 404 : 200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ status: 'bad_request', ...(quota === null ? {} : { used_quota: quota }) }))
      return true
    }
    const strict = await start({ intercept: (request, response) => rejected(request, response), report: ofAsked })
    expectRefusal(await traffic(), 1, 'REPORT_REJECTED', /--force/)
    quota = null
    expectRefusal(await traffic('--force'), 1, 'REPORT_REJECTED', /--force/)
    expect([await rows('data.traffic_and_engagement_v1'), strict.bought.length]).toEqual([0, 2])
    quota = 0
    expectRefusal(await traffic('--force'), 1, 'REPORT_REJECTED', /domain=b\.com.*--force/s)
    expect([await rows('data.traffic_and_engagement_v1'), strict.bought.length]).toEqual([1, 5])
    // The id of what was rejected may be forgotten by the service.
    isForgotten = true
    await db.database.pool.query(`update etl.jobs set submitted_at = now() - interval '2 days' where report_state = 'rejected'`)
    expectRefusal(await traffic(), 1, 'REPORT_REJECTED', /--force/)
    expect(strict.bought.length).toBe(5)
  })

  test('one that is rejected, for free, because its month is not out waits, and the next run asks for the month again', async () => {
    let isOut = false
    const strict = await start({
      report: () => csv(['a.com', 'b.com'].map((domain) => `${domain},US,${lastMonth}-01,1`)),
      intercept: (request, response) => {
        const isEarly = !isOut && request.url?.includes('request-status') === true
        if (isEarly) {
          response.writeHead(200, { 'content-type': 'application/json' })
          response.end(JSON.stringify({ status: 'bad_request', used_quota: 0, error_message: 'Dates out of range' }))
        }
        return isEarly
      },
    })
    edit('traffic_and_engagement', ['look_back: 2', 'look_back: 2, publication: { published_on: 1, time_zone: UTC }'])
    const newest = () =>
      plainly(...['backfill', 'traffic_and_engagement', '--from', lastMonth, '--to', lastMonth, '--only', 'country=us', '--json'])
    const early = await newest()
    expect(early.stdout + early.stderr).toMatch(/NOT_PUBLISHED[\s\S]*the next run asks again/)
    expect(summaryOf(early).units).toMatchObject({ waiting: 2, failed: 0 })
    isOut = true
    expect(summaryOf(await newest()).units).toMatchObject({ loaded: 2, waiting: 0 })
    expect([await rows('data.traffic_and_engagement_v1'), strict.bought.length]).toEqual([2, 2])
  })

  const asksFor = (request: Readonly<Record<string, unknown>>, country: string): boolean =>
    new RegExp(`"${country}"`, 'i').test(JSON.stringify(request))

  test.each(['refused', 'rejected later, for free'])(
    'one of a country whose month is not out keeps no other country waiting where it is %s',
    async (how) => {
      let isOut = false
      const early = { status: 'bad_request', used_quota: 0, error_message: 'Dates not in range' }
      const strict = await start({
        report: (request) =>
          csv(
            ['US', 'GB'].flatMap((code) =>
              asksFor(request, code) ? ['a.com', 'b.com'].map((domain) => `${domain},${code},${lastMonth}-01,1`) : [],
            ),
          ),
        intercept: (request, response, body) => {
          const id = /request-status\/(.+)$/.exec(request.url ?? '')?.[1]
          const asked = how === 'refused' ? body : JSON.stringify(strict.bought.find((report) => report.id === id)?.body ?? {})
          const isAbout = how === 'refused' ? request.url?.endsWith('/request-report') === true : id !== undefined
          if (isOut || !isAbout || !/"GB"/i.test(asked)) return false
          response.writeHead(how === 'refused' ? 400 : 200, { 'content-type': 'application/json' })
          response.end(JSON.stringify(how === 'refused' ? { errors: [early.error_message] } : early))
          return true
        },
      })
      edit(
        'traffic_and_engagement',
        ['look_back: 2', 'look_back: 2, publication: { published_on: 1, time_zone: UTC }'],
        ['[us, gb, world]', '[us, gb]'],
      )
      const newest = () => plainly('backfill', 'traffic_and_engagement', '--from', lastMonth, '--to', lastMonth, '--json')
      const first = await newest()
      expect(summaryOf(first).units).toMatchObject({ loaded: 2, waiting: 2, failed: 0 })
      expect(first.stdout + first.stderr).toMatch(/NOT_PUBLISHED[\s\S]*the next run asks again/)
      isOut = true
      expect(summaryOf(await newest()).units).toMatchObject({ loaded: 2, waiting: 0 })
      expect(await rows('data.traffic_and_engagement_v1')).toBe(4)
      // Of each country one report, with all domains. Nothing of what was loaded is asked for again.
      const us = strict.bought.filter(({ body }) => asksFor(body, 'US') && !asksFor(body, 'GB'))
      expect([us.length, strict.bought.length]).toEqual(how === 'refused' ? [1, 2] : [1, 4])
    },
  )

  test.each([
    ['it says nothing of its dates', null, 31],
    ['it says that it ends before', addWindows(`${lastMonth}-01`, 'month', -1).slice(0, 7), 1],
  ])('a month that is out in no country waits, however many countries are asked for: %s', async (_, ends, most) => {
    const codes = ['us', 'gb', 'de', 'fr', 'it', 'es', 'nl', 'be', 'at', 'ch', 'pl', 'cz', 'se', 'dk', 'fi', 'pt']
    const granularity = { monthly: { start_date: '2023-01', end_date: ends } }
    const tables = JSON.stringify([{ vtable: 'traffic_and_engagement', table_granularity: granularity }])
    const says = answering('/tables/describe', 200, 'application/json', tables)
    const refuses = answering('/request-report', 400, 'application/json', '{"errors":["Dates not in range"]}')
    let refused = 0
    await start({
      intercept: (request, response) => {
        if (ends !== null && says(request, response)) return true
        const isRefused = refuses(request, response)
        if (isRefused) refused += 1
        return isRefused
      },
    })
    edit(
      'traffic_and_engagement',
      ['look_back: 2', 'look_back: 2, publication: { published_on: 1, time_zone: UTC }'],
      ['[us, gb, world]', `[${codes.join(', ')}]`],
    )
    const range = ['--from', lastMonth, '--to', lastMonth, '--only', 'domain=a.com', '--json']
    const { units } = summaryOf(await plainly('backfill', 'traffic_and_engagement', ...range))
    expect(units).toMatchObject({ planned: codes.length, waiting: codes.length, failed: 0 })
    expect(refused).toBeLessThanOrEqual(most)
  })

  test('a rejected row is tried again from the landing once the definition allows it, without a call', async () => {
    const strict = await start({ report: () => csv(['a.com,US,2026-09-01,many', 'b.com,US,2026-09-01,9']) })
    for (const time of [1, 2]) expect((await traffic()).code, `try ${time}`).toBe(1)
    const command = (...args: string[]) => runWarm(['quarantine', ...args, '--json'], environment(), folder)
    const listed = (await command('list')).events.filter((event) => event['event'] === 'quarantined')
    expect(listed, 'a unit that fails again is in quarantine once').toHaveLength(1)
    const shown = await command('show', String(listed[0]?.['quarantine_id']))
    expect(shown.events.at(-1)).toMatchObject({
      raw: 'a.com,US,2026-09-01,many',
      line: 2,
      part: 1,
      column_name: 'all_traffic_visits',
    })

    const before = strict.requests.length
    edit('traffic_and_engagement', ['rejects: 0.1%', 'rejects: 40%'])
    const share = await command('retry')
    expectRefusal(share, 1, 'TOO_MANY_REJECTS', /1 of 2 rows were rejected, the definition allows 0/)
    edit('traffic_and_engagement', ['rejects: 40%', 'rejects: 50%'])
    const retried = await command('retry')
    // b.com takes its row; a.com has nothing but the rejected one and waits for a person.
    expectRefusal(retried, 1, 'TOO_MANY_REJECTS', /every record of the new answer was rejected.*quarantine retry/s)
    expect(summaryOf(retried)).toMatchObject({
      units: { loaded: 1, held: 1, failed: 0 },
      rows: { read: 2, inserted: 1, quarantined: 1 },
    })
    expect(strict.requests.length).toBe(before)
    const all = (await command('list', '--all')).events.filter((event) => event['event'] === 'quarantined')
    expect(all.map((event) => event['state'])).toEqual(['open', 'superseded', 'superseded', 'superseded'])
    expect(all[0]).toMatchObject({ unit_key: 'traffic_and_engagement/v1/2026-09/country=us;domain=a.com' })

    edit('traffic_and_engagement', ['rejects: 50%', 'rejects: 1'])
    const counted = await command('retry')
    expect(counted.code, counted.stderr).toBe(1)
    expect(summaryOf(counted)).toMatchObject({ units: { held: 1, failed: 0 }, rows: { inserted: 0, updated: 0, ended: 0 } })
  })
})
