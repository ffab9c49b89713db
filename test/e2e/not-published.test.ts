// A service that is late and answers with the months it has: the missing one waits, is bought when it is there, and what came is bought once.
import { request } from 'node:http'
import { afterEach, expect, test, vi } from 'vitest'
import { addWindows } from '../../src/core/window.ts'
import { listen } from '../support/listen.ts'
import { lastMonth, onRelease, openReleaseWorld, type ReleaseWorld, rowsOf } from '../support/release-world.ts'

vi.setConfig({ testTimeout: 600_000 })

let world: ReleaseWorld
let close = async (): Promise<void> => undefined

afterEach(async () => {
  await world.close()
  await close()
})

const former = addWindows(`${lastMonth}-01`, 'month', -1).slice(0, 7)

/** Cuts what is asked for at its newest month (api-facts 75). */
const startClamping = async (target: string): Promise<string> => {
  const server = await listen((incoming, reply, asked) => {
    const body = asked.includes(former) ? asked.replace(/("end_date":\s*")[^"]*/g, `$1${former}`) : asked
    const headers = { ...incoming.headers, ...(body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }) }
    const sent = request(new URL(incoming.url ?? '/', target), { method: incoming.method ?? 'GET', headers }, (answer) => {
      reply.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(reply)
    })
    sent.end(body)
  })
  close = server.close
  return server.url
}

const units = () =>
  rowsOf<{ month: string; state: string; code: string | null; n: number }>(
    world,
    `select to_char(window_from, 'YYYY-MM') as month, state, error_code as code, count(*)::int as n from etl.unit_list group by 1, 2, 3 order by 1`,
  )
const spans = () => world.sandbox.books().submissions.length

test('a month that is missing in the newest report is no month without data', async () => {
  world = await openReleaseWorld({
    pipeline: 'traffic_and_engagement',
    from: former,
    before: startClamping,
    edit: (text) => text.replace('look_back: 2', 'look_back: 0, publication: { published_on: 1, time_zone: UTC }'),
  })
  const first = await world.run('run', '--json')
  const [loaded, waiting] = [
    { month: former, state: 'loaded', code: null, n: 3 },
    { month: lastMonth, state: 'waiting', code: 'NOT_PUBLISHED', n: 3 },
  ]
  expect([first.code, await units(), spans()], first.stdout + first.stderr).toEqual([0, [loaded, waiting], 1])
  const summary = JSON.parse(first.stdout.trim().split('\n').at(-1) ?? '')
  expect(summary).toMatchObject({ units: { planned: 6, loaded: 3, waiting: 3, held: 0, failed: 0 }, reports_submitted: 1 })
  expect((await world.run('status')).stdout).toContain('NOT_PUBLISHED')
  // What came is loaded again from its landing, whatever of its span waits.
  await rowsOf(world, 'update data.traffic_and_engagement_v1 set all_page_views = -1')
  const replayed = await world.run('replay', 'traffic_and_engagement', '--from', former, '--to', lastMonth, '--json')
  expect(JSON.parse(replayed.stdout.trim().split('\n').at(-1) ?? '')).toMatchObject({
    ...{ units: { planned: 3, loaded: 3, waiting: 0 }, rows: { read: 3, updated: 3 } },
  })
  expect(await units()).toEqual([loaded, waiting])
  // Alone it is refused, which costs nothing.
  const second = await world.run('run', '--json')
  expect([await units(), spans()], second.stdout + second.stderr).toEqual([[loaded, waiting], 1])
  world.sandbox.configure({ now: onRelease })
  expect((await world.run('run', '--json')).code).toBe(0)
  expect([await units(), spans()]).toEqual([[loaded, { ...waiting, state: 'loaded', code: null }], 2])
  expect(
    await rowsOf(world, 'select date::text, count(*)::int as n from data.traffic_and_engagement_v1 group by 1 order by 1'),
  ).toEqual([former, lastMonth].map((month) => ({ date: `${month}-01`, n: 3 })))
  expect((await world.run('run', '--json')).stdout).toContain('"reports_submitted":0')
  expect((await world.run('reports', 'list', '--json')).stdout).not.toContain('"unused"')
})
