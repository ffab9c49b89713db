// Two accounts in one warehouse: each pipeline asks with its own key, and budgets, requests, reports and quota know whose they are.
import { cpSync, rmSync } from 'node:fs'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { summaryOf } from '../support/command.ts'
import { listen } from '../support/listen.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const ours = 'our-key-0123456789'
const acme = 'acme-key-9876543210'

const world = testWorld({
  each: true,
  lists: { domains: ['a.example'], shop_domains: ['a.example'], category_ids: [1001] },
  service: () => listen(forward),
  settings: { WEB_ANALYTICS_API_KEY: ours, WEB_ANALYTICS_API_KEY_ACME: acme },
})
const { folder, fileOf, edit, query: rows } = world
let sandboxes: { readonly ours: Sandbox; readonly acme: Sandbox }

beforeEach(async () => {
  for (const name of ['keywords', 'traffic_and_engagement', 'shopper_category_performance'])
    edit(name, ['from: 2024-01', 'from: 2026-10'])
  for (const name of ['traffic_and_engagement', 'shopper_category_performance'])
    edit(name, ['poll_every: 5s', 'poll_every: 50ms'])
  edit('traffic_and_engagement', ['country: [us, gb, world]', 'country: [us]'])
  edit('shopper_category_performance', ['version: 1', 'version: 1\naccount: acme'])
  const options = { requestsPerSecond: null, keywordsPerDomain: 5, now: '2026-11-20' } as const
  sandboxes = { ours: await startSandbox({ ...options, apiKey: ours }), acme: await startSandbox({ ...options, apiKey: acme }) }
})
afterEach(async () => {
  await sandboxes.ours.close()
  await sandboxes.acme.close()
})

/** One address for both accounts, as the real service has: whose key it is decides whose books it goes to. */
const forward = (incoming: IncomingMessage, response: ServerResponse, body: string): void => {
  const isAcmes = JSON.stringify([incoming.url, incoming.headers]).includes(acme)
  const { port } = isAcmes ? sandboxes.acme : sandboxes.ours
  const options = { host: '127.0.0.1', port, path: incoming.url, method: incoming.method, headers: incoming.headers }
  const onward = request(options, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  onward.on('error', () => response.destroy())
  onward.end(body)
}

const run = (extra: Readonly<Record<string, string>> = {}) => world.millraceWith(extra, 'run', '--json')

test('each pipeline is bought with its own account’s key, and the ledger knows whose each request, report and credit was', async () => {
  await succeeded(run())
  expect(sandboxes.acme.books().submissions.map(({ kind }) => kind)).toEqual(['shopper'])
  expect(sandboxes.ours.books().submissions.map(({ kind }) => kind)).toEqual(['report'])
  expect(sandboxes.acme.books().counts['keywords']).toBeUndefined()
  expect(await rows('select distinct account, pipeline from etl.reports order by 1')).toEqual([
    { account: 'acme', pipeline: 'shopper_category_performance' },
    { account: 'default', pipeline: 'traffic_and_engagement' },
  ])
  expect(await rows('select account, pipeline, used_quota > 0 as paid from etl.quota order by 1, 2')).toEqual([
    { account: 'acme', pipeline: 'shopper_category_performance', paid: true },
    { account: 'default', pipeline: 'keywords', paid: true },
    { account: 'default', pipeline: 'traffic_and_engagement', paid: true },
  ])
  const requested = await rows(
    'select distinct r.account, p.pipeline from etl.requests r join etl.jobs j using (job_id) join etl.pipelines p using (pipeline_id) order by 1, 2',
  )
  expect(requested).toEqual([
    { account: 'acme', pipeline: 'shopper_category_performance' },
    { account: 'default', pipeline: 'keywords' },
    { account: 'default', pipeline: 'traffic_and_engagement' },
  ])
})

test('a report is fetched by the account that bought it, whichever account the definition names since', async () => {
  for (const name of ['keywords', 'shopper_category_performance']) rmSync(join(folder, 'pipelines', `${name}.yaml`))
  sandboxes.ours.configure({ reportDurationMs: 1_000_000 })
  const stopped = world.start(['run', '--json'])
  const open = `select count(*)::int as n from etl.reports where state = 'submitted'`
  while (((await rows(open))[0] as { n: number }).n === 0 && stopped.child.exitCode === null) await sleep(20)
  stopped.child.kill('SIGKILL')
  await stopped.result
  sandboxes.ours.configure({ reportDurationMs: 0 })
  edit('traffic_and_engagement', ['version: 1', 'version: 1\naccount: acme'])
  const again = await succeeded(run())
  expect(summaryOf(again)).toMatchObject({ reports_submitted: 0, units: { loaded: 1, held: 0, failed: 0 } })
  expect([sandboxes.ours.books().quotaUsed > 0, sandboxes.acme.books().quotaUsed]).toEqual([true, 0])
})

test('a submission whose answer was lost is looked for in the list of the account that sent it, before it may be sent again', async () => {
  for (const name of ['keywords', 'shopper_category_performance']) rmSync(join(folder, 'pipelines', `${name}.yaml`))
  sandboxes.ours.configure({ history: 'requests', now: null })
  // The list is asked at once, too, and is away then.
  sandboxes.ours.configure({
    faults: [
      { kind: 'drop-reply', on: 'submit', times: 1 },
      { kind: 'any-status', on: 'history', status: 500 },
    ],
  })
  expect((await run()).code).toBe(1)
  sandboxes.ours.configure({ faults: [] })
  edit('traffic_and_engagement', ['version: 1', 'version: 1\naccount: acme'])
  const again = await succeeded(run())
  expect(again.events).toContainEqual(expect.objectContaining({ code: 'REPORT_FOUND' }))
  expect([sandboxes.ours.books().quotaUsed > 0, sandboxes.acme.books().quotaUsed]).toEqual([true, 0])
})

test('an account whose budget is spent holds its own reports and no other account’s', async () => {
  const ended = await run({ WEB_ANALYTICS_QUOTA_PER_MONTH_ACME: '0' })
  expect(ended.code).toBe(1)
  expect(summaryOf(ended).units).toMatchObject({ held: 1, failed: 0 })
  expect(ended.stderr).toContain('of account acme')
  expect(ended.stderr).toContain('WEB_ANALYTICS_QUOTA_PER_MONTH_ACME')
  expect(sandboxes.acme.books().submissions).toEqual([])
  expect(sandboxes.ours.books().submissions).toHaveLength(1)
  // The budget is raised: the same command goes on.
  await succeeded(run({ WEB_ANALYTICS_QUOTA_PER_MONTH_ACME: '1000000' }))
  expect(sandboxes.acme.books().submissions).toHaveLength(1)
})

/** The same reports, with the other key. Planned first, since its name comes first. */
const addAcmes = async (): Promise<void> => {
  cpSync(fileOf('traffic_and_engagement'), fileOf('acmes'))
  edit('acmes', ['version: 1', 'version: 1\naccount: acme'], ['pipeline: traffic_and_engagement', 'pipeline: acmes'])
  for (const command of [['new', 'migration', 'acmes'], ['migrate']]) await succeeded(world.millrace(...command))
}

test('what two accounts ask for is bought once, by the one that is planned first', async () => {
  rmSync(fileOf('keywords'))
  await succeeded(run())
  edit('traffic_and_engagement', ['from: 2026-10', 'from: 2026-09'])
  await addAcmes()
  await succeeded(run())
  const reports = (of: Sandbox) => of.books().submissions.filter(({ kind }) => kind === 'report').length
  expect([reports(sandboxes.acme), reports(sandboxes.ours)]).toEqual([1, 1])
  expect(
    await rows('select count(*)::int as n from bi.acmes union all select count(*)::int from bi.traffic_and_engagement'),
  ).toEqual([{ n: 2 }, { n: 2 }])
})

test('what an account may not buy keeps no other account waiting that asks for the same', async () => {
  for (const name of ['keywords', 'shopper_category_performance']) rmSync(fileOf(name))
  await addAcmes()
  const ended = await run({ WEB_ANALYTICS_QUOTA_PER_MONTH_ACME: '0' })
  expect(summaryOf(ended).units, ended.stderr).toMatchObject({ loaded: 1, held: 1, waiting: 0 })
  expect(sandboxes.acme.books().submissions).toEqual([])
  expect((await run({ WEB_ANALYTICS_QUOTA_PER_MONTH_ACME: '1000000' })).code).toBe(0)
  expect(
    await rows(
      'select (select count(*)::int from bi.acmes) as acmes, (select count(*)::int from bi.traffic_and_engagement) as ours',
    ),
  ).toEqual([{ acmes: 1, ours: 1 }])
})

test('a pipeline whose account has no key is refused before anything is asked', async () => {
  const ended = await run({ WEB_ANALYTICS_API_KEY_ACME: '' })
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('WEB_ANALYTICS_API_KEY_ACME is not set')
  expect(sandboxes.ours.books().requests).toEqual([])
})
