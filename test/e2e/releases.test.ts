// Nights that begin with the release of data: by message, by a look at the capabilities, once whatever is repeated or forged; and reports whose end is told.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { addWindows } from '../../src/core/window.ts'
import { startChanging } from '../support/echoing-service.ts'
import {
  endOf,
  hookSecret,
  isUp,
  lastMonth,
  onRelease,
  openReleaseWorld,
  type ReleaseWorld,
  rowsOf,
  serviceKey,
} from '../support/release-world.ts'
import { succeeded } from '../support/test-world.ts'
import { until } from '../support/until.ts'

// A machine at work on other things takes its time for a command.
vi.setConfig({ testTimeout: 600_000 })

let world: ReleaseWorld

afterEach(() => world.close())

const ticks = () =>
  rowsOf<{ pipeline: string; kind: string; finished_at: string | null }>(
    world,
    'select pipeline, kind, finished_at from etl.ticks',
  )
const releases = () =>
  rowsOf<{ every: string; available_to: string; heard_by: string; wakes: boolean }>(
    world,
    'select every, available_to::text, heard_by, wakes from etl.releases order by release_id',
  )

/** Baseline known, subscribed, and awake. */
const begin = async (extra: Readonly<Record<string, string>> = {}) => {
  const subscribed = await succeeded(world.run('webhooks', 'subscribe', '--json'))
  const schedule = world.schedule(extra)
  await until('the schedule is up', isUp(world))
  return { schedule, subscribed }
}

const baseline = { every: 'month', available_to: addWindows(`${lastMonth}-01`, 'day', -1), heard_by: 'poll', wakes: false }

describe('a release', () => {
  test('that a message tells of wakes one run, which asks for the month at once; said again it starts nothing', async () => {
    world = await openReleaseWorld({ pipeline: 'traffic_and_engagement', from: lastMonth })
    // The capabilities are looked at once, for the baseline, and then never in this test.
    const { schedule, subscribed } = await begin({ MILLRACE_RELEASE_POLL: '86400' })
    await until('the baseline is known', async () => (await releases()).length === 1)
    expect(await releases()).toEqual([baseline])
    expect(await ticks()).toEqual([])
    const releasedAt = Date.now()
    world.sandbox.configure({ now: onRelease })
    await until('the report is submitted', () => world.sandbox.books().submissions.length > 0)
    expect(Date.now() - releasedAt).toBeLessThan(60_000)
    await until('the run is over', async () => (await ticks()).some(({ finished_at }) => finished_at !== null))
    expect((await ticks()).map(({ pipeline, kind }) => [pipeline, kind])).toEqual([['traffic_and_engagement', 'released']])
    expect(
      await rowsOf(world, `select 1 from etl.units where answer_id is not null and window_from = '${lastMonth}-01'`),
    ).toHaveLength(3)

    const [message] = world.passed.filter(({ path }) => path.includes('/releases/'))
    if (message === undefined) expect.fail('no message')
    const again = () =>
      fetch(new URL(message.path, world.address), {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-sw-authorization': String(message.headers['x-sw-authorization']) },
        body: message.body,
      })
    for (let times = 0; times < 20; times += 1) expect((await again()).status).toBe(200)
    expect(await ticks()).toHaveLength(1)

    schedule.child.kill('SIGTERM')
    const { stdout, stderr } = await schedule.result
    const secrets = [hookSecret, serviceKey, message.path.split('/')[2] ?? '']
    for (const text of [stdout, stderr, subscribed.stdout, subscribed.stderr])
      for (const secret of secrets) expect(text).not.toContain(secret)
    for (const table of ['requests', 'jobs', 'releases', 'subscriptions', 'events', 'ticks', 'runs', 'locks'])
      for (const secret of secrets)
        expect(await rowsOf(world, `select 1 from etl.${table} t where t::text like '%${secret}%'`), table).toEqual([])
  })

  test('that nobody told of is found in the capabilities, by one of two schedulers', async () => {
    world = await openReleaseWorld({ pipeline: 'keywords', from: lastMonth })
    world.schedule({ MILLRACE_RELEASE_POLL: '1' })
    world.schedule({ MILLRACE_RELEASE_POLL: '1', MILLRACE_WEB_PORT: '0' })
    await until('the baseline is known', async () => (await releases()).length === 1)
    const releasedAt = Date.now()
    world.sandbox.configure({ now: onRelease })
    await until('pages are read', async () => (world.sandbox.books().counts['keywords'] ?? 0) > 0)
    expect(Date.now() - releasedAt).toBeLessThan(60_000)
    await until('the run is over', async () => (await ticks()).some(({ finished_at }) => finished_at !== null))
    expect(await releases()).toEqual([
      baseline,
      { every: 'month', available_to: endOf(lastMonth), heard_by: 'poll', wakes: true },
    ])
    expect(await ticks()).toHaveLength(1)
  })

  test('that was missed is made up for by the next start, and asks anew for what was not published', async () => {
    world = await openReleaseWorld({ pipeline: 'keywords', from: lastMonth })
    const first = world.schedule({ MILLRACE_RELEASE_POLL: '1' })
    await until('the baseline is known', async () => (await releases()).length === 1)
    first.child.kill('SIGTERM')
    await first.result
    // The night before: the service is late, its calendar says the month is out.
    await rowsOf(
      world,
      `insert into etl.ticks (pipeline, due_at, claimed_by, kind) values ('keywords', now() - interval '1 hour', 'x', 'on time')`,
    )
    await world.run('backfill', 'keywords', '--from', lastMonth, '--to', lastMonth)
    world.sandbox.configure({ now: onRelease })
    world.schedule({ MILLRACE_RELEASE_POLL: '1' })
    const loaded = `select 1 from etl.units where answer_id is not null and window_from = '${lastMonth}-01'`
    await until('the month is loaded', async () => (await rowsOf(world, loaded)).length === 2)
  })

  test('wakes a run that the guard holds like any night: the new month is bought, the history waits for a person', async () => {
    const first = addWindows(`${lastMonth}-01`, 'month', -6)
    world = await openReleaseWorld({ pipeline: 'traffic_and_engagement', from: first.slice(0, 7) })
    world.schedule({ MILLRACE_RELEASE_POLL: '1', MILLRACE_GUARD: 'on' })
    await until('the baseline is known', async () => (await releases()).length === 1)
    world.sandbox.configure({ now: onRelease })
    await until('the run is over', async () => (await ticks()).some(({ finished_at }) => finished_at !== null))
    expect((await ticks()).map(({ kind }) => kind)).toEqual(['released'])
    const months = `select to_char(u.window_from, 'YYYY-MM') as month, u.state, u.error_code as code from etl.unit_list u
      group by 1, 2, 3 order by 1`
    const lookBack = [-1, 0].map((back) => addWindows(`${lastMonth}-01`, 'month', back).slice(0, 7))
    const older = [-6, -5, -4, -3, -2].map((back) => addWindows(`${lastMonth}-01`, 'month', back).slice(0, 7))
    expect(await rowsOf(world, months)).toEqual([
      ...older.map((month) => ({ month, state: 'held', code: 'NEEDS_APPROVAL' })),
      ...lookBack.map((month) => ({ month, state: 'loaded', code: null })),
    ])
    for (const { body } of world.sandbox.books().submissions)
      expect(lookBack).toContain(/"start_date":"(\d{4}-\d{2})/.exec(JSON.stringify(body))?.[1])
    expect(await rowsOf(world, `select units::int, state from etl.approvals`)).toEqual([{ units: 15, state: 'waiting' }])
  })

  test('of a date that cannot be published is no release: messages are heard beside it, no month is asked for early, and a later poll takes back what polls said', async () => {
    let lie: string | null = '2031-12-31'
    let looks = 0
    const service = { close: async (): Promise<void> => undefined }
    world = await openReleaseWorld({
      pipeline: 'traffic_and_engagement',
      from: lastMonth,
      before: async (url) => {
        const lying = await startChanging(url, [], (text, _, path) => {
          if (!path.includes('/capabilities')) return text
          looks += 1
          return lie === null
            ? text
            : text.replaceAll(/"(end_date|to|latest[a-z_]*)":"[^"]*"/g, (_all, name) => `"${name}":"${lie}"`)
        })
        service.close = lying.close
        return lying.url
      },
    })
    await begin({ MILLRACE_RELEASE_POLL: '1' })
    const looked = async (times: number): Promise<void> => {
      const from = looks
      await until('the capabilities were polled', async () => looks >= from + times)
    }
    await looked(3)
    expect([await releases(), await ticks(), world.sandbox.books().submissions]).toEqual([[], [], []])
    expect((await world.run('check')).stdout).toMatch(/capabilities says that \w+ has data until 2031-12-31, a future day/)
    // As wrong, and in reach: the month that is not over is not taken for a whole one, and the one before it until a poll says otherwise.
    lie = new Date().toISOString().slice(0, 10)
    await until('the wrong month is on record', async () =>
      (await releases()).some(({ available_to }) => available_to === endOf(lastMonth)),
    )
    lie = null
    await until('it is taken back', async () =>
      (await releases()).every(({ available_to }) => available_to === baseline.available_to),
    )
    lie = '2031-12-31'
    world.sandbox.configure({ now: onRelease })
    await until('the message is heard', async () => (await releases()).some(({ heard_by }) => heard_by === 'message'))
    await until('the run is over', async () => (await ticks()).some(({ finished_at }) => finished_at !== null))
    const loaded = `select distinct window_from::text as month from etl.units where answer_id is not null`
    await until('the month is loaded', async () => (await rowsOf(world, loaded)).length > 0)
    expect(await rowsOf(world, loaded)).toEqual([{ month: `${lastMonth}-01` }])
    for (const { body } of world.sandbox.books().submissions) expect(JSON.stringify(body)).toContain(`"end_date":"${lastMonth}"`)
    await service.close()
  })

  test('that is only tested has arrived where `schedule` took it, not where another server says 200', async () => {
    world = await openReleaseWorld({ pipeline: 'keywords', from: lastMonth })
    const other = createServer((_, reply) => reply.end('ok')).listen(Number(new URL(world.address).port), '127.0.0.1')
    await once(other, 'listening')
    const { code, stdout } = await world.run('webhooks', 'test')
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining('it did not arrive: a server answered, but not `millrace schedule`'),
    ])
    other.closeAllConnections()
    await new Promise((resolve) => other.close(resolve))
    await begin({ MILLRACE_RELEASE_POLL: '86400' })
    // Each test is told apart from the one before.
    for (let times = 0; times < 2; times += 1)
      expect((await succeeded(world.run('webhooks', 'test'))).stdout).toContain('the message of the service arrived.')
  })

  test('forged in every way starts nothing and asks the service as little as can be', async () => {
    world = await openReleaseWorld({ pipeline: 'keywords', from: lastMonth })
    await begin({ MILLRACE_RELEASE_POLL: '86400' })
    await until('the baseline is known', async () => (await releases()).length === 1)
    await succeeded(world.run('webhooks', 'test', '--json'))
    const path = world.passed[0]?.path ?? ''
    const [{ subscription_id } = { subscription_id: '' }] = await rowsOf<{ subscription_id: string }>(
      world,
      'select * from etl.subscriptions',
    )
    const body = {
      subscription_id,
      latest_data_available: endOf(lastMonth),
      webhook_event_type: 'Monthly',
      created: 1,
      text: 'x',
    }
    const post = async (
      to: string,
      content: string,
      headers: Readonly<Record<string, string>> = { 'x-sw-authorization': 'f'.repeat(48) },
    ) =>
      (
        await fetch(new URL(to, world.address), {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: content,
        })
      ).status
    const asked = () => world.sandbox.books().counts['authorize'] ?? 0
    const before = asked()
    expect(await post(path.replace(/hooks\/\w+/, 'hooks/0123456789012345678901234567890123456789'), JSON.stringify(body))).toBe(
      404,
    )
    expect(await post(path, JSON.stringify({ ...body, subscription_id: 'another' }))).toBe(403)
    expect(await post(path, JSON.stringify(body), {})).toBe(403)
    expect(await post(path, JSON.stringify({ ...body, latest_data_available: '2999-01-31' }))).toBe(403)
    expect(await post(path, JSON.stringify({ ...body, latest_data_available: '2001-01-31' }))).toBe(200)
    expect(await post(path, '{"latest')).toBe(400)
    expect(await post(path, JSON.stringify({ ...body, latest_data_available: '31.10.2026' }))).toBe(400)
    expect(await post(path, JSON.stringify({ ...body, text: 'x'.repeat(1_000_000) }))).toBe(413)
    expect(asked()).toBe(before)
    // All is right but the proof.
    expect(await post(path, JSON.stringify(body))).toBe(403)
    expect(asked()).toBe(before + 1)
    expect(await ticks()).toEqual([])
    expect(await releases()).toEqual([baseline])
  })
})

test('the other spelling of dates is read too, and a service that cannot say who sent it is asked for its newest data', async () => {
  world = await openReleaseWorld({ pipeline: 'keywords', from: lastMonth, sandbox: { webhookDates: 'us' } })
  await begin({ MILLRACE_RELEASE_POLL: '86400' })
  await until('the baseline is known', async () => (await releases()).length === 1)
  world.sandbox.configure({ faults: [{ kind: 'status-500', on: 'authorize' }] })
  world.sandbox.configure({ now: onRelease })
  await until('the run is over', async () => (await ticks()).some(({ finished_at }) => finished_at !== null))
  expect((await releases()).at(-1)).toEqual({ every: 'month', available_to: endOf(lastMonth), heard_by: 'message', wakes: true })
})

/** Last month may be asked for whatever day it is. */
const outOnTheFirst = (text: string): string =>
  text.replace('look_back: 2', 'look_back: 2, publication: { published_on: 1, time_zone: UTC }')

test('a report tells when it is done: nobody waits for the next poll, and the address is in no table', async () => {
  world = await openReleaseWorld({
    pipeline: 'traffic_and_engagement',
    from: lastMonth,
    // Longer than the quick first polls; the next one would come an hour later, when this test has failed.
    sandbox: { now: onRelease, reportDurationMs: 6_000 },
    edit: (text) => outOnTheFirst(text).replace('poll_every: 5s, poll_max: 60s', 'poll_every: 1h, poll_max: 1h'),
  })
  const schedule = world.schedule({ MILLRACE_RELEASE_POLL: '0' })
  await until('the schedule is up', isUp(world))
  const loaded = await succeeded(world.run('backfill', 'traffic_and_engagement', '--from', lastMonth, '--to', lastMonth))
  const reports = world.passed.filter(({ path }) => path.includes('/reports/'))
  expect(reports.map(({ status }) => status)).toEqual([200, 200])
  const token = reports[0]?.path.split('/')[2] ?? 'none'
  schedule.child.kill('SIGTERM')
  const { stdout, stderr } = await schedule.result
  for (const text of [stdout, stderr, loaded.stdout, loaded.stderr]) expect(text).not.toContain(token)
  for (const table of ['requests', 'jobs', 'answers', 'events'])
    expect(await rowsOf(world, `select 1 from etl.${table} t where t::text like '%${token}%'`), table).toEqual([])
})

test('a service that takes no address for messages gets the report without one', async () => {
  world = await openReleaseWorld({
    pipeline: 'traffic_and_engagement',
    from: lastMonth,
    sandbox: { now: onRelease, extensions: false },
    edit: outOnTheFirst,
  })
  await succeeded(world.run('backfill', 'traffic_and_engagement', '--from', lastMonth, '--to', lastMonth))
  expect(world.sandbox.books().submissions).toHaveLength(1)
})
