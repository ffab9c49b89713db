// docs/runbook.md, row by row: each incident is caused for real, is named by the command an operator would look with, and ends by doing what the page says.
import { spawn } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import type { SandboxOptions } from '../../src/sandbox/sandbox-server.ts'
import { type HostileServer, startHostileServer } from '../soak/hostile-server.ts'
import { createOwnDatabase } from '../storm/own-database.ts'
import { anySpellingIn, canaryKey } from '../support/canary.ts'
import { type CommandResult, cleanEnvironment, launcher, startCommand, summaryOf } from '../support/command.ts'
import { copyDatabase } from '../support/copied-database.ts'
import { everyTable, filesBelow } from '../support/every-sink.ts'
import { mayMount, mountSmallDisk } from '../support/small-disk.ts'
import { runWarm } from '../support/warm-command.ts'
import { until, wait } from './commands.ts'
import type { WorldDatabase } from './databases.ts'
import { sampleDatabases } from './own-databases.ts'
import { differences } from './pairs.ts'
import { wantedTruth } from './truth.ts'
import { currentRows, unfinishedUnits } from './warehouse.ts'
import { createWorld, type Pipeline, pipelines, type World, type WorldOptions } from './world.ts'

const page = readFileSync(resolve(import.meta.dirname, '..', '..', 'docs', 'runbook.md'), 'utf8')
const reports = ['traffic_and_engagement', 'shopper_category_performance'] as const

let world: World
let keyFile: string
const leftovers: (() => Promise<void> | void)[] = []

const open = async (options: Partial<WorldOptions> = {}, sandbox: SandboxOptions = {}): Promise<World> => {
  world = await createWorld({ database: await sampleDatabases.create(), months: 2, ...options, sandbox })
  // First of all, before the server it is on.
  leftovers.unshift(() => world.remove())
  keyFile = join(world.folder, 'key')
  writeFileSync(keyFile, world.sandbox.apiKey)
  return world
}

beforeEach(() => {
  leftovers.length = 0
})
afterEach(async () => {
  if (leftovers.length > 0) await leftovers.shift()?.()
  for (const remove of leftovers.reverse()) await remove()
})

const environment = (more: Readonly<Record<string, string>> = {}): Record<string, string> => {
  const { WEB_ANALYTICS_API_KEY: _, ...own } = world.environment('operator')
  return { ...own, WEB_ANALYTICS_API_KEY_FILE: keyFile, ...more }
}

const millrace = (args: readonly string[], more: Readonly<Record<string, string>> = {}): Promise<CommandResult> =>
  runWarm(args, environment(more), world.folder)

const range = (): string[] => ['--from', world.months[0] ?? '', '--to', world.months.at(-1) ?? '']
const backfill = (asked: readonly string[] = pipelines): string[] => ['backfill', ...asked, ...range(), '--json']
const bought = (): number => world.sandbox.books().submissions.length
/** Nobody listens there; alarms are watched for as soon as there is a receiver. */
const receiver = { MILLRACE_NOTIFY_WEBHOOK: 'http://127.0.0.1:9/' }
const said = ({ stdout, stderr }: CommandResult): string => `${stdout}\n${stderr}`
/** One line of spaces alone, as tables break lines. */
const flat = (result: CommandResult): string => said(result).replaceAll(/\s+/g, ' ')

const isRight = async (asked: readonly Pipeline[] = pipelines): Promise<void> => {
  const truth = [...wantedTruth(world)].filter(([unit]) => asked.some((pipeline) => unit.startsWith(`${pipeline} `)))
  expect(differences(new Map(truth), await currentRows(world.database.pool))).toEqual([])
}

/** A warehouse on a server of its own that can be held, killed and set to another time. */
const openOnServer = async (): Promise<HostileServer> => {
  const server = await startHostileServer()
  leftovers.push(() => server.remove())
  const own = await createOwnDatabase(server.url, 'runbook')
  own.pool.on('error', () => undefined)
  const database: WorldDatabase = { url: own.url, pool: own.pool, drop: () => own.close() }
  await open({ database }, { reportDurationMs: 1_500 })
  return server
}

/** The row's left cell stands on the page. */
const row = (alarm: string): string => {
  const found = page.split('\n').find((line) => line.startsWith(`| ${alarm}`))
  if (found === undefined) throw new Error(`docs/runbook.md has no row '${alarm}'`)
  return found
}

test('each row of the page is tried here', () => {
  const own = readFileSync(import.meta.filename, 'utf8')
  const rows = page.split('\n').filter((line) => line.startsWith('| ') && !/^\| (incident|---)/.test(line))
  expect(rows.length).toBe(12)
  for (const line of rows) expect(own.includes(`row('${line.slice(2, line.indexOf(' |')).split(':')[0]}')`), line).toBe(true)
})

test('a key that leaked is replaced in its file; nothing that is kept holds it', async () => {
  row('a key leaked')
  await open({}, { apiKey: canaryKey })
  const before = await millrace(backfill(), { MILLRACE_LOG_LEVEL: 'trace' })
  expect(before.code, before.stderr).toBe(0)
  // The service takes the new one from now on; the process that runs meanwhile reads the file again.
  for (const month of world.months) world.sandbox.restate(month)
  const running = startCommand([...backfill(), '--force'], environment(), world.folder)
  await until(() => (world.sandbox.books().counts['keywords'] ?? 0) > 20, 30)
  writeFileSync(keyFile, 'a-new-key')
  world.sandbox.configure({ apiKey: 'a-new-key' })
  const during = await running.result
  const after = await millrace(backfill())
  expect([during.code, after.code], during.stderr + after.stderr).toEqual([0, 0])
  await isRight()
  const db = await createOwnReader()
  const kept = {
    tables: await everyTable(db),
    files: filesBelow(join(world.folder, 'home')),
    output: said(before) + said(during),
  }
  for (const [name, text] of Object.entries(kept)) expect(anySpellingIn(text), name).toEqual([])
})

const createOwnReader = async () => {
  const { openDatabase } = await import('../../src/db/connect.ts')
  const { secret } = await import('../../src/core/redact.ts')
  const database = await openDatabase({ databaseUrl: secret('reader', world.database.url), home: '/nowhere' })
  leftovers.push(() => database.close())
  return { database }
}

test('a key that was rotated at the service: named, and the new key in the file loads what failed', async () => {
  row('`KEY_REFUSED`')
  await open()
  world.sandbox.configure({ apiKey: 'rotated' })
  const refused = await millrace(backfill(), receiver)
  expect(refused.code).toBe(1)
  expect(flat(await millrace(['notify', 'list'], receiver))).toMatch(/failure .*(key|refused)/i)
  expect(flat(await millrace(['status']))).toContain('KEY_REFUSED')
  const check = await millrace(['check'])
  expect(check.code).not.toBe(0)
  expect(flat(check)).toMatch(/key/i)
  const left = await unfinishedUnits(world.database.pool)
  expect(new Set(left.map(({ state }) => state))).toEqual(new Set(['failed']))
  writeFileSync(keyFile, 'rotated')
  expect((await millrace(['check'])).code).toBe(0)
  const resumed = await millrace(['run', '--json'])
  expect(resumed.code, resumed.stderr).toBe(0)
  await isRight()
})

test.runIf(process.platform === 'linux')(
  'PostgreSQL hangs: monitors see it, and restarting PostgreSQL alone is enough',
  async () => {
    row('PostgreSQL hangs')
    const server = await openOnServer()
    const worker = startCommand(['worker', '--json'], environment({ MILLRACE_DATABASE_SILENCE: '2' }), world.folder)
    leftovers.push(() => void worker.child.kill('SIGKILL'))
    const address = (): string | undefined => /"status_page","url":"([^"]+)"/.exec(worker.printed())?.[1]
    await until(() => address() !== undefined, 30)
    const ask = async (path: string): Promise<number> => (await fetch(new URL(path, address()))).status
    const running = startCommand(backfill(), environment({ MILLRACE_DATABASE_SILENCE: '2' }), world.folder)
    await until(() => bought() > 0, 30)
    server.hold()
    expect(await until(async () => (await ask('/healthz')) === 503, 30)).toBe(true)
    expect(await ask('/livez')).toBe(200)
    server.kill()
    await wait(300)
    server.restart()
    expect(await until(async () => (await ask('/healthz')) === 200, 60)).toBe(true)
    const ended = await running.result
    expect(worker.child.exitCode, worker.printed()).toBe(null)
    const again = await millrace(backfill())
    expect(again.code, ended.stderr + again.stderr).toBe(0)
    await isRight()
    const cells = world.sandbox.books().submissions.map(({ body }) => JSON.stringify(body))
    expect(new Set(cells).size).toBe(cells.length)
  },
)

test.runIf(process.platform === 'linux')(
  'PostgreSQL is away: commands say so and end; run again, a bought report is downloaded',
  async () => {
    row('PostgreSQL is away')
    const server = await openOnServer()
    const running = startCommand(backfill(reports), environment(), world.folder)
    await until(() => bought() === 2, 30)
    server.kill()
    const ended = await running.result
    const second = await millrace(backfill(reports))
    expect([ended.code, second.code]).toEqual([1, 1])
    expect(`${said(ended)}${said(second)}`).toContain('DATABASE_UNREACHABLE')
    server.restart()
    const again = await millrace(backfill(reports))
    expect(again.code, said(again)).toBe(0)
    expect(bought()).toBe(2)
    await isRight(reports)
  },
)

test.runIf(mayMount())('a disk that is full: named; with room again nothing is bought again', async () => {
  row('a disk is full')
  await open({}, { reportDurationMs: 1_000 })
  const disk = mountSmallDisk(8)
  leftovers.push(() => disk.remove())
  const landing = { MILLRACE_LANDING: join(disk.folder, 'landing') }
  const running = startCommand(backfill(reports), environment(landing), world.folder)
  await until(() => bought() === 2, 30)
  disk.fill()
  const full = await running.result
  expect(full.code).toBe(1)
  expect(said(full)).toMatch(/DISK|no space|full/i)
  expect(flat(await millrace(['status'], landing))).toMatch(/no space|full|room/i)
  disk.free()
  const again = await millrace(backfill(reports), landing)
  expect(again.code, said(again)).toBe(0)
  expect(bought()).toBe(2)
  await isRight(reports)
})

test('landings that are lost: rows stay; a restored backup replays; without one, --force asks again', async () => {
  row('[landings](storage.md) are lost')
  await open()
  expect((await millrace(backfill())).code).toBe(0)
  const landing = join(world.folder, 'home', 'landing')
  expect(existsSync(landing), readdirSync(join(world.folder, 'home')).join()).toBe(true)
  cpSync(landing, join(world.folder, 'backup'), { recursive: true })
  rmSync(landing, { recursive: true })
  const lost = await millrace(['replay', ...pipelines, ...range()])
  expect(lost.code).toBe(1)
  expect(flat(lost)).toMatch(/no longer in .*millrace backfill/)
  await isRight()
  cpSync(join(world.folder, 'backup'), landing, { recursive: true })
  const replayed = await millrace(['replay', ...pipelines, ...range()])
  expect(replayed.code, said(replayed)).toBe(0)
  rmSync(landing, { recursive: true })
  const asked = await millrace([...backfill(), '--force'])
  expect(asked.code, said(asked)).toBe(0)
  const again = await millrace(['replay', ...pipelines, ...range()])
  expect(again.code, said(again)).toBe(0)
  await isRight()
})

test('out of memory: with one job at a time and smaller buckets the rest is loaded within 250 MB', async () => {
  row('out of memory')
  await open({ lists: { domains: Array.from({ length: 40 }, (_, index) => `site${index}.example`) } }, { keywordsPerDomain: 400 })
  const inMemory = (megabytes: number) =>
    new Promise<{ code: number | null; peakMb: number; text: string }>((done) => {
      const flags = [`--max-old-space-size=${megabytes}`, launcher(), ...backfill()]
      const child = spawn(process.execPath, flags, { cwd: world.folder, env: cleanEnvironment(environment()) })
      let [text, peakMb] = ['', 0]
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
      const timer = setInterval(() => {
        const status = existsSync(`/proc/${child.pid}/status`) ? readFileSync(`/proc/${child.pid}/status`, 'utf8') : ''
        peakMb = Math.max(peakMb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
      }, 100)
      child.on('close', (code) => {
        clearInterval(timer)
        done({ code, peakMb, text })
      })
    })
  const died = await inMemory(18)
  expect(died.code).not.toBe(0)
  expect(died.text).toMatch(/heap|memory/i)
  for (const pipeline of pipelines) world.set(pipeline, ['limits', 'concurrency'], 1)
  for (const pipeline of reports) world.set(pipeline, ['for_each', 'domain', 'bucket'], 10)
  const modest = await inMemory(100)
  expect(modest.code, modest.text.slice(-2_000)).toBe(0)
  expect(modest.peakMb).toBeLessThan(250)
  await isRight()
})

test.runIf(process.platform === 'linux')('a clock that is wrong: said by check; corrected, everything goes on', async () => {
  row('a clock is wrong')
  const server = await openOnServer()
  if (!server.movesClock) return
  server.setAhead(-7_200)
  expect(flat(await millrace(['check']))).toMatch(/clock/i)
  const wrong = await millrace(backfill())
  expect(wrong.stdout).toContain('"code":"CLOCK"')
  server.setAhead(0)
  const check = await millrace(['check'])
  expect(check.code, said(check)).toBe(0)
  expect(flat(check)).not.toMatch(/clock/i)
  const right = await millrace(backfill())
  expect(right.code, said(right)).toBe(0)
  await isRight()
})

test('an uncertain purchase: listed; adopted where the service has it, given up where it has not', async () => {
  row('a purchase is uncertain')
  await open()
  // A service without a list of its reports.
  world.sandbox.configure({
    extensions: false,
    faults: [
      { kind: 'drop-reply', on: 'submit', nth: 1 },
      { kind: 'html-200', on: 'submit', nth: 2 },
    ],
  })
  const first = await millrace(backfill(reports))
  expect(first.code).toBe(1)
  const listed = await millrace(['reports', 'list', '--json'])
  const uncertain = listed.events.filter(({ kind }) => kind === 'uncertain')
  expect(uncertain.length).toBe(2)
  expect(bought()).toBe(1)
  const had = world.sandbox.books().submissions[0]
  const pipelineOf = had?.kind === 'shopper' ? 'shopper_category_performance' : 'traffic_and_engagement'
  for (const { job_id, pipeline } of uncertain) {
    const args = pipeline === pipelineOf ? ['adopt', String(job_id), had?.id ?? ''] : ['give-up', String(job_id)]
    const done = await millrace(['reports', ...args])
    expect(done.code, said(done)).toBe(0)
  }
  const again = await millrace(['run', ...reports, '--json'])
  expect(again.code, said(again)).toBe(0)
  expect(bought()).toBe(2)
  await isRight(reports)
})

test('a month that is released and not loaded: named by capabilities, loaded by run', async () => {
  row('a month is released and not loaded')
  // Until the tenth nothing is out of the month before this one.
  const now = new Date(Date.now() - 10 * 86_400_000)
  const day = (date: string): string => `${now.toISOString().slice(0, 8)}${date}`
  await open({}, { now: day('05') })
  expect((await millrace(['run', '--json'], receiver)).code).toBe(0)
  world.sandbox.configure({ now: day('24') })
  const newest = /"to":"(\d{4}-\d{2})/.exec(said(await millrace(['capabilities', '--json'])))?.[1]
  expect(newest).toBeDefined()
  const loaded = await millrace(['run', '--json'], receiver)
  expect(loaded.code, said(loaded)).toBe(0)
  const { rows } = await world.database.pool.query<{ month: string }>(
    `select distinct to_char(month, 'YYYY-MM') as month from bi.keywords order by 1 desc limit 1`,
  )
  expect(rows[0]?.month).toBe(newest)
})

test('a copied warehouse buys nothing until it is decided what it is', async () => {
  row('`WAREHOUSE_COPY`')
  const original = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  await open({ database: original })
  expect((await millrace(backfill())).code).toBe(0)
  const copy = await original.copy()
  leftovers.push(() => copy.drop())
  const there = { DATABASE_URL: copy.url }
  for (const month of world.months) world.sandbox.restate(month)
  const before = bought()
  expect((await millrace([...backfill(), '--force'], there)).code).toBe(1)
  expect(flat(await millrace(['status'], there))).toContain('WAREHOUSE_COPY')
  expect(flat(await millrace(['check'], there))).toContain('migrate --as')
  expect(bought()).toBe(before)
  expect((await millrace(['migrate', '--as', 'clone'], there)).code).toBe(0)
  const check = await millrace(['check'], there)
  expect(check.code, said(check)).toBe(0)
  const loaded = await millrace([...backfill(), '--force'], there)
  expect(loaded.code, said(loaded)).toBe(0)
  expect(differences(wantedTruth(world), await currentRows(copy.pool))).toEqual([])
})

test('a night that spent too much: quota says on what; what is not bought yet is taken back; the guard holds the next one', async () => {
  row('a night spent too much')
  await open({ lists: { domains: ['site0.example'] } })
  const on = { MILLRACE_GUARD: '' }
  expect((await millrace(backfill(), on)).code).toBe(0)
  world.setLists({ domains: Array.from({ length: 300 }, (_, index) => `more${index}.example`) })
  world.sandbox.configure({ reportDurationMs: 60_000 })
  const night = startCommand(['run', '--yes', 'traffic_and_engagement', 'keywords', '--json'], environment(on), world.folder)
  await until(() => bought() > 2, 30)
  const quota = await millrace(['quota'], on)
  expect(flat(quota)).toContain('traffic_and_engagement')
  const { rows } = await world.database.pool.query<{ id: string }>('select max(run_id)::text as id from etl.runs')
  const withdrawn = await millrace(['approve', '--withdraw', 'keywords'], on)
  expect(withdrawn.code, said(withdrawn)).toBe(0)
  const cancelled = await millrace(['cancel', rows[0]?.id ?? ''], on)
  expect(cancelled.code, said(cancelled)).toBe(0)
  await night.result
  const spent = bought()
  world.sandbox.configure({ reportDurationMs: 100 })
  for (const pipeline of pipelines) world.set(pipeline, ['guard'], { credits_per_night: 500 })
  world.setLists({ domains: Array.from({ length: 400 }, (_, index) => `other${index}.example`) })
  const next = await millrace(['run', '--json'], on)
  expect(next.code).toBe(1)
  expect(flat(await millrace(['plan'], on))).toContain('nightly limit 500')
  expect(bought()).toBe(spent)
  expect(summaryOf(next).reports_submitted).toBe(0)
})
