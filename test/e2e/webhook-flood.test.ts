// Messages about releases, one in a hundred genuine: exactly the genuine ones wake a run. WEBHOOK_FLOOD=10000 sends that many (WEBHOOK_FLOOD=10000 npx vitest run test/e2e/webhook-flood.test.ts).
import { request } from 'node:http'
import { afterEach, expect, test } from 'vitest'
import { addWindows } from '../../src/core/window.ts'
import {
  endOf,
  isUp,
  lastMonth,
  onRelease,
  openReleaseWorld,
  type Passed,
  type ReleaseWorld,
  rowsOf,
} from '../support/release-world.ts'
import { until } from '../support/until.ts'

const messages = Number(process.env['WEBHOOK_FLOOD'] ?? 600)
const oneIn = 100
const atOnce = 16

let world: ReleaseWorld

afterEach(() => world.close())

interface Message {
  readonly path: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** fetch would wait for an answer to a body that is refused before it is read. */
const post = ({ path, body, headers }: Message): Promise<number> =>
  new Promise((resolve) => {
    const sent = request(
      new URL(path, world.address),
      { method: 'POST', headers: { 'content-type': 'application/json', ...headers } },
      (answer) => {
        answer.resume()
        answer.on('end', () => resolve(answer.statusCode ?? 0))
      },
    )
    sent.on('error', () => resolve(0))
    sent.end(body)
  })

/** The n-th forgery: what somebody may send who has seen a genuine message pass, and what nobody would. */
const forgery = (n: number, seen: Passed): Message => {
  const body = JSON.parse(seen.body) as Readonly<Record<string, unknown>>
  const proof = String(seen.headers['x-sw-authorization'])
  const with_ = (change: Readonly<Record<string, unknown>>, given = `${n}${proof}`.slice(0, 48)): Message => ({
    path: seen.path,
    body: JSON.stringify({ ...body, ...change }),
    headers: { 'x-sw-authorization': given },
  })
  const kinds: readonly (() => Message)[] = [
    // Word for word, with its own proof: repeated.
    () => ({ path: seen.path, body: seen.body, headers: { 'x-sw-authorization': proof } }),
    // An older day, with a proof: reordered.
    () => with_({ latest_data_available: '2001-01-31' }, proof),
    // A newer day under a proof of nobody's.
    () => with_({ latest_data_available: endOf(lastMonth) }),
    () => with_({ latest_data_available: '2999-12-31' }, proof),
    () => with_({ subscription_id: `other-${n}` }, proof),
    () => ({ ...with_({}), headers: {} }),
    () => ({ ...with_({}, proof), path: seen.path.replace(/hooks\/\w+/, `hooks/${String(n).padStart(40, '0')}`) }),
    () => with_({ webhook_event_type: 'Hourly' }, proof),
    () => ({ ...with_({}, proof), body: seen.body.slice(0, 40) }),
    () => with_({ text: 'x'.repeat(100_000) }, proof),
  ]
  return (kinds[n % kinds.length] ?? kinds[0])?.() ?? with_({})
}

test(`of ${messages} messages, one in ${oneIn} genuine, exactly the genuine ones wake a run`, {
  timeout: 1_200_000,
}, async () => {
  // Everything of last month is there before the first message: a run that is woken finds nothing to do.
  world = await openReleaseWorld({ pipeline: 'keywords', from: lastMonth, sandbox: { now: onRelease } })
  expect((await world.run('run', 'keywords')).code).toBe(0)
  expect((await world.run('webhooks', 'subscribe')).code).toBe(0)
  world.schedule({ MILLRACE_RELEASE_POLL: '0' })
  await until('the schedule is up', isUp(world))
  const genuine = Math.floor(messages / oneIn)
  const days = Array.from({ length: genuine }, (_, index) => addWindows(`${lastMonth}-01`, 'month', index + 1 - genuine)).map(
    (first) => endOf(first.slice(0, 7)),
  )
  const release = async (date: string | undefined): Promise<void> => {
    await fetch(`${world.sandbox.url}/_sandbox/release`, { method: 'POST', body: JSON.stringify({ date }) })
  }
  const begun = performance.now()
  const slowest = { ms: 0 }
  const statuses: Record<string, number> = {}
  let sent = 0
  for (const day of days) {
    await release(day)
    const seen = world.passed.at(-1)
    if (seen === undefined) expect.fail('no message')
    expect(seen.status).toBe(200)
    for (let rest = oneIn - 1; rest > 0; ) {
      const batch = Math.min(atOnce, rest)
      const at = performance.now()
      const answers = await Promise.all(Array.from({ length: batch }, (_, index) => post(forgery(sent + index, seen))))
      slowest.ms = Math.max(slowest.ms, performance.now() - at)
      for (const status of answers) statuses[status] = (statuses[status] ?? 0) + 1
      rest -= batch
      sent += batch
    }
  }
  const seconds = (performance.now() - begun) / 1000
  const ticks = () => rowsOf<{ finished_at: string | null }>(world, `select finished_at from etl.ticks where kind = 'released'`)
  await until(
    'every run that was woken is over',
    async () => {
      const rows = await ticks()
      return rows.length >= genuine && rows.every(({ finished_at }) => finished_at !== null)
    },
    600_000,
  )
  expect(await ticks()).toHaveLength(genuine)
  const releases = await rowsOf<{ day: string }>(world, 'select available_to::text as day from etl.releases order by release_id')
  expect(releases.map(({ day }) => day)).toEqual(days)
  expect(await rowsOf(world, `select 1 from etl.runs where command = 'schedule'`)).toHaveLength(genuine)
  const { authorize = 0 } = world.sandbox.books().counts
  // Only what is right but for its proof asks the service: a tenth of the forgeries at most, and none of the last month's, which is known by then.
  expect(authorize).toBeLessThanOrEqual(genuine + Math.ceil(sent / 10))
  console.log(
    JSON.stringify({
      messages: sent + genuine,
      genuine,
      woken: genuine,
      seconds: Math.round(seconds),
      asked: authorize,
      slowest_batch_ms: Math.round(slowest.ms),
      statuses,
    }),
  )
})
