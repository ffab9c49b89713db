// A service that says the key back, in any place of its answers and in any spelling: the key is in no table, file, page, message, span or output.
// `ECHO_SEEDS=20` tries more of them.
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type HttpReceiver, startHttpReceiver } from '../support/alarm-receivers.ts'
import { anySpellingIn, canaryKey } from '../support/canary.ts'
import { pipelinesOfRepository, startCommand } from '../support/command.ts'
import { seeded, startEchoing } from '../support/echoing-service.ts'
import { everyPage, everyTable, filesBelow, processList } from '../support/every-sink.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

/** These found something: the key in small letters, with the doubled quotes of CSV, as a report's id. */
const seedsThatFound = [1, 4, 26]
const asked = process.env['ECHO_SEEDS']
const seeds = asked === undefined ? seedsThatFound : Array.from({ length: Number(asked) }, (_, index) => index + 1)
const patienceMs = 8_000

let definitions: string
/** Places of tables and files where the key was taken out. */
let masked = 0
let receiver: HttpReceiver

beforeAll(async () => {
  definitions = mkdtempSync(join(tmpdir(), 'millrace-echo-'))
  cpSync(pipelinesOfRepository, definitions, { recursive: true })
  writeFileSync(join(definitions, 'domains.txt'), 'a.com\nb.com\n')
  for (const name of ['keywords', 'traffic_and_engagement', 'shopper_category_performance']) {
    const file = join(definitions, `${name}.yaml`)
    const quick = readFileSync(file, 'utf8').replace('attempts: 5', 'attempts: 2').replace('poll_every: 5s', 'poll_every: 1s')
    writeFileSync(file, quick)
  }
  receiver = await startHttpReceiver()
})
afterAll(async () => {
  await receiver.close()
  rmSync(definitions, { recursive: true, force: true })
})

const month = ['--from', '2026-09', '--to', '2026-09']
const buying: readonly (readonly string[])[] = [
  ['migrate'],
  ['backfill', 'keywords', ...month, '--yes'],
  ['backfill', 'traffic_and_engagement', ...month, '--yes', '--json'],
  ['backfill', 'shopper_category_performance', ...month, '--yes'],
  ['schedule'],
]
const others: readonly (readonly string[])[] = [
  ['check'],
  ['describe'],
  ['capabilities', '--json'],
  ['quota'],
  ['plan', '--json'],
  ['backfill', 'traffic_and_engagement', '--from', '2026-07', '--to', '2026-07', '--dry-run'],
  ['replay', 'keywords', ...month],
  ['replay', 'traffic_and_engagement', ...month, '--json'],
  ['quarantine', 'list', '--json'],
  ['reports', 'list'],
  ['status', '--json'],
  ['docs', '--out', 'docs'],
  ['notify', 'test'],
  ['notify', 'list', '--json'],
]
/** With what the warehouse has by then: `record` finds no unit where everything was refused. */
const written = async (db: TestDatabase): Promise<(readonly string[])[]> => {
  const rows = await db.query<{ unit: string }>(
    'select min(unit_id)::text as unit from etl.units where answer_id is not null group by pipeline_id',
  )
  const views = ['keywords', 'traffic_and_engagement', 'breaks', 'credits_forecast']
  return [
    ...rows.map(({ unit }) => ['record', unit]),
    ...views.flatMap((view) => ['csv', 'parquet'].map((format) => ['export', view, '--out', `${view}.${format}`])),
  ]
}

test.each(seeds)(
  'seed %i',
  async (seed) => {
    const random = seeded(seed)
    const db = await createTestDatabase()
    const sandbox = await startSandbox({
      apiKey: canaryKey,
      requestsPerSecond: null,
      keywordsPerDomain: 30,
      now: '2026-11-20',
    })
    const service = await startEchoing(sandbox.url, canaryKey, random)
    const folder = mkdtempSync(join(tmpdir(), 'millrace-echo-'))
    cpSync(definitions, join(folder, 'pipelines'), { recursive: true })
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
    for (const args of buying) {
      const command = startCommand(args, environment, folder)
      // A status word that became the key is an open report for hours.
      const patience = setTimeout(() => command.child.kill('SIGINT'), patienceMs)
      const look = setInterval(() => {
        processes += processList()
      }, 500)
      const { code, stdout, stderr } = await command.result
      clearTimeout(patience)
      clearInterval(look)
      expect([0, 1, 2, 130], stderr).toContain(code)
      output += `${stdout}\n${stderr}\n`
    }
    for (const args of [...others, ...(await written(db))]) {
      const { stdout, stderr } = await runWarm(args, environment, folder)
      output += `${stdout}\n${stderr}\n`
    }
    expect(existsSync(join(folder, 'keywords.parquet'))).toBe(true)
    const tables = await everyTable(db)
    const sinks = {
      output,
      tables,
      files: filesBelow(folder),
      processes,
      pages: await everyPage(db),
      messages: receiver.received.map(({ path, headers, body }) => `${path} ${JSON.stringify(headers)} ${body}`).join('\n'),
    }
    const found = Object.fromEntries(Object.entries(sinks).map(([name, text]) => [name, anySpellingIn(text)]))
    await service.close()
    await sandbox.close()
    await db.drop()
    rmSync(folder, { recursive: true, force: true })
    expect(service.said.length, 'the service said it').toBeGreaterThan(5)
    masked += `${tables} ${sinks.files}`.split('[secret]').length - 1
    for (const path of ['v1/lineage', 'v1/traces']) expect(sinks.messages, path).toContain(path)
    expect(found).toEqual({ output: [], tables: [], files: [], processes: [], pages: [], messages: [] })
  },
  180_000,
)

test('the service said it where it would have been kept', () => expect(masked).toBeGreaterThan(0))
