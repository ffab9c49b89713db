// A service that says the key back in each string of each answer, in each name, error, redirect and header, in every spelling: after hundreds of
// answers it is in no table, file, page, message, span, export, output or process list.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type HttpReceiver, startHttpReceiver } from '../support/alarm-receivers.ts'
import { anySpellingIn, canaryKey } from '../support/canary.ts'
import { startCommand } from '../support/command.ts'
import { startEchoEverywhere } from '../support/echo-everywhere.ts'
import { everyPage, everyTable, filesBelow, processList } from '../support/every-sink.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { definitionsIn, testFolder } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const patienceMs = 10_000
const mostRounds = Number(process.env['ECHO_ROUNDS'] ?? 36)

const folder = testFolder({ copied: ['pipelines'] })
const { edit, list } = definitionsIn(folder)
let receiver: HttpReceiver

beforeAll(async () => {
  list('domains', ['a.com', 'b.com', 'c.com', 'd.com'])
  list('shop_domains', ['a.com', 'b.com', 'c.com'])
  edit('keywords', ['attempts: 5', 'attempts: 1'])
  for (const name of ['traffic_and_engagement', 'shopper_category_performance'])
    edit(
      name,
      ['attempts: 5', 'attempts: 1'],
      ['poll_every: 5s', 'poll_every: 1s'],
      ['poll_max: 60s', 'poll_max: 1s'],
      [/domain: \{ file: (\S+) \}/, 'domain: { file: $1, bucket: 1 }'],
    )
  receiver = await startHttpReceiver()
})
afterAll(() => receiver.close())

const month = (round: number): string[] => {
  const one = `2026-0${1 + (round % 9)}`
  return ['--from', one, '--to', one]
}
const buying = (round: number): readonly (readonly string[])[] => [
  ['backfill', 'keywords', ...month(round), '--yes', '--force'],
  ['backfill', 'traffic_and_engagement', ...month(round), '--yes', '--force', '--resubmit-uncertain', '--json'],
  ['backfill', 'shopper_category_performance', ...month(round), '--yes', '--force', '--resubmit-uncertain'],
]
const looking: readonly (readonly string[])[] = [
  ['check'],
  ['describe', '--json'],
  ['capabilities', '--json'],
  ['quota', '--json'],
  ['quota'],
  ['plan', '--json'],
  ['reports', 'list'],
  ['new', 'dataset', 'popular_pages', '--pipelines', 'drafts'],
]
const described = Array.from({ length: 16 }, (_, at) => [at % 2 === 0 ? 'capabilities' : 'describe'])
const kept: readonly (readonly string[])[] = [
  ['replay', 'keywords', '--from', '2026-01', '--to', '2026-09'],
  ['replay', 'traffic_and_engagement', '--from', '2026-01', '--to', '2026-09', '--json'],
  ['quarantine', 'list', '--json'],
  ['reports', 'list', '--json'],
  ['status'],
  ['status', '--json'],
  ['docs', '--out', 'docs'],
  ['notify', 'test'],
  ['notify', 'list', '--json'],
]
/** With what the warehouse has by then. */
const written = async (db: TestDatabase): Promise<(readonly string[])[]> => {
  const rows = await db.query<{ unit: string }>(
    'select min(unit_id)::text as unit from etl.units where answer_id is not null group by pipeline_id',
  )
  const { rows: quarantined } = await db.database.pool.query<{ id: string }>(
    'select quarantine_id as id from etl.quarantine order by 1 limit 3',
  )
  const views = ['keywords', 'traffic_and_engagement', 'breaks', 'credits_forecast']
  return [
    ...rows.map(({ unit }) => ['record', unit]),
    ...quarantined.map(({ id }) => ['quarantine', 'show', id]),
    ...views.flatMap((view) => ['csv', 'parquet'].map((format) => ['export', view, '--out', `${view}.${format}`])),
  ]
}

test('the key, said everywhere in every spelling, is nowhere', async () => {
  const db = await createTestDatabase()
  const sandbox = await startSandbox({
    apiKey: canaryKey,
    requestsPerSecond: null,
    keywordsPerDomain: 20,
    reportDurationMs: 50,
    now: '2026-11-20',
  })
  const service = await startEchoEverywhere(sandbox.url, canaryKey, receiver.url)
  const environment = {
    WEB_ANALYTICS_BASE_URL: service.url,
    WEB_ANALYTICS_API_KEY: canaryKey,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, 'home'),
    MILLRACE_LOG_LEVEL: 'trace',
    MILLRACE_NOTIFY_WEBHOOK: receiver.url,
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OPENLINEAGE_URL: receiver.url,
  }
  let output = ''
  let processes = ''
  const perform = async (args: readonly string[]): Promise<void> => {
    const command = startCommand(args, environment, folder)
    // A status word that became the key is an open report for hours.
    const patience = setTimeout(() => command.child.kill('SIGINT'), patienceMs)
    const look = setInterval(() => {
      processes += processList()
    }, 500)
    const { code, signal, stdout, stderr } = await command.result
    clearTimeout(patience)
    clearInterval(look)
    output += `${stdout}\n${stderr}\n`
    if (signal !== 'SIGINT') expect([0, 1, 2, 130], `${args.join(' ')} ${signal}\n${stderr}`).toContain(code)
  }
  const glance = async (args: readonly string[]): Promise<void> => {
    const { code, stdout, stderr } = await runWarm(args, environment, folder)
    output += `${stdout}\n${stderr}\n`
    expect([0, 1, 2], `${args.join(' ')}\n${stderr}`).toContain(code)
  }
  await perform(['migrate'])
  for (let round = 0; round < mostRounds && (round < 2 || service.left().length > 0); round += 1) {
    const isBuying =
      round < 2 || service.left().some((place) => !/ \S*\/(describe|capabilities|credits|report-history) /.test(place))
    if (isBuying) for (const args of buying(round)) await perform(args)
    for (const args of round % 3 === 0 ? [...described, ...looking] : described) await glance(args)
  }
  await perform(['schedule'])
  for (const args of kept) await glance(args)
  for (const args of await written(db)) await glance(args)
  expect(existsSync(join(folder, 'keywords.parquet'))).toBe(true)
  const sinks = {
    output,
    tables: await everyTable(db),
    files: filesBelow(folder),
    processes,
    pages: await everyPage(db),
    messages: receiver.received.map(({ path, headers, body }) => `${path} ${JSON.stringify(headers)} ${body}`).join('\n'),
  }
  const found = Object.fromEntries(Object.entries(sinks).map(([name, text]) => [name, anySpellingIn(text)]))
  await service.close()
  await sandbox.close()
  await db.drop()
  expect(found).toEqual({ output: [], tables: [], files: [], processes: [], pages: [], messages: [] })
  for (const path of ['v1/lineage', 'v1/traces']) expect(sinks.messages, path).toContain(path)
  // It was said where it would have been kept.
  for (const sink of [sinks.output, sinks.tables, sinks.files, sinks.pages]) expect(sink).toContain('[secret]')
  // What is left are places of endpoints that a process asks no more once they were answered 404, and of what is asked seldom.
  const left = service.left()
  expect(left.length, `of ${service.said.length} said, left:\n${left.join('\n')}`).toBeLessThan(service.said.length / 4)
}, 3_600_000)
