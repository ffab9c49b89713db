// Machines that share nothing but PostgreSQL and a bucket: what one landed another reads, and a bucket that fails costs no report twice.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox-server.ts'
import { createStormWorld, type StormWorld, startStormSandbox, stormPipelines } from '../storm/storm-world.ts'
import { type CommandResult, type RunningCommand, startCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, testDatabase, type TestDatabase } from '../support/postgres.ts'
import { type S3Server, startS3Server } from '../support/s3-server.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

let world: StormWorld
let sandbox: Sandbox
const db = testDatabase({ each: true })
let server: S3Server

beforeAll(() => {
  world = createStormWorld(20)
  // Two units at a time in each process: none has taken them all before another one looked.
  for (const pipeline of stormPipelines) {
    const file = join(world.folder, 'pipelines', `${pipeline}.yaml`)
    writeFileSync(file, readFileSync(file, 'utf8').replace(/concurrency: \d+/, 'concurrency: 2'))
  }
})
afterAll(() => world.remove())
beforeEach(async () => {
  server = await startS3Server()
  sandbox = await startStormSandbox()
})
afterEach(async () => {
  await sandbox.close()
  await server.close()
})

const machine = (home: string, changes: Readonly<Record<string, string>> = {}): Record<string, string> => ({
  ...world.environment(sandbox, db.url, home),
  ...server.environment('warehouse/landings'),
  MILLRACE_WEB_PORT: '0',
  ...changes,
})
/** A machine that knows nothing of the service. */
const withoutService = (home: string): Record<string, string> => {
  const { DATABASE_URL, MILLRACE_HOME, ...others } = machine(home)
  return {
    DATABASE_URL: DATABASE_URL ?? '',
    MILLRACE_HOME: MILLRACE_HOME ?? '',
    ...Object.fromEntries(Object.entries(others).filter(([name]) => !name.startsWith('WEB_ANALYTICS_'))),
  }
}
const run = (args: readonly string[], environment: Record<string, string>): Promise<CommandResult> =>
  runWarm(args, environment, world.folder)
const start = (args: readonly string[], environment: Record<string, string>): RunningCommand =>
  startCommand(args, environment, world.folder)

const query = async <T extends object>(text: string, of: TestDatabase = db): Promise<T[]> =>
  (await of.database.pool.query<T>(text)).rows

const contents = async (of: TestDatabase = db): Promise<string[]> => {
  const lines: string[] = []
  for (const pipeline of stormPipelines)
    for (const { line } of await query<{ line: string }>(
      `select (to_jsonb(t) - array['_unit_id', '_run_id', '_loaded_at'])::text as line from data.${pipeline}_v1 t order by 1`,
      of,
    ))
      lines.push(line)
  return lines
}

const boughtTwice = (): number => {
  const bodies = sandbox.books().submissions.map(({ body }) => JSON.stringify(body))
  return bodies.length - new Set(bodies).size
}

const secretsIn = (result: CommandResult): boolean =>
  [server.keys.secretAccessKey, 'another-secret'].some((text) => (result.stdout + result.stderr).includes(text))

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe('landings in a bucket', () => {
  test('of two workers and a backfill on three machines are parsed again on a fourth, without the service', async () => {
    sandbox.configure({ latencyMs: 150 })
    const workers = ['a', 'b'].map((home) => start(['worker', '--json'], machine(home)))
    for (const worker of workers) while (!worker.printed().includes('status_page')) await wait(50)
    const loaded = await run(world.command, machine('c'))
    for (const { child } of workers) child.kill('SIGTERM')
    const worked = await Promise.all(workers.map(({ result }) => result))
    expect(loaded.code, loaded.stderr).toBe(0)
    for (const { events, stderr } of worked)
      expect(events.filter(({ event, state }) => event === 'unit' && state === 'loaded').length, stderr).toBeGreaterThan(0)
    for (const home of ['a', 'b', 'c']) expect(existsSync(join(world.folder, home, 'landing')), home).toBe(false)
    expect(boughtTwice()).toBe(0)
    const units = await query('select 1 from etl.units where answer_id is not null')
    const answers = await query<{ landing: string }>('select landing from etl.answers')
    expect([...server.objects.keys()].filter((key) => !key.includes('/_warehouses/')).sort()).toEqual(
      answers
        .flatMap((answer) => ['data.gz', 'manifest.json'].map((file) => `warehouse/landings/${answer.landing}/${file}`))
        .sort(),
    )

    const before = await contents()
    expect(before.length).toBeGreaterThan(100)
    for (const pipeline of stormPipelines) await query(`delete from data.${pipeline}_v1`)
    const requests = sandbox.books().requests
    const replay = await succeeded(run(['replay', ...world.command.slice(1)], withoutService('empty')))
    expect(summaryOf(replay)).toMatchObject({ requests: 0, reports_submitted: 0, units: { loaded: units.length } })
    expect(sandbox.books().requests).toEqual(requests)
    expect(await contents()).toEqual(before)
  })

  test('killed before and after each thing it does to the bucket leaves no half landing, loads what an undisturbed one loads and buys nothing twice', async () => {
    const steps = [
      ['PUT', 'data.gz'],
      ['PUT', 'manifest.json'],
    ] as const
    for (const [number, [method, file]] of steps.entries())
      for (const end of ['hang', 'mute'] as const) {
        let reached = ''
        server.fate = (request) => {
          if (request.method !== method || !request.key.endsWith(file)) return 'serve'
          reached ||= request.key
          return end
        }
        const backfill = start(world.command, machine(`killed-${number}-${end}`))
        while (reached === '') await wait(20)
        backfill.child.kill('SIGKILL')
        await backfill.result
        for (const key of [...server.objects.keys()].filter((each) => each.endsWith('manifest.json')))
          expect(server.objects.has(key.replace('manifest.json', 'data.gz')), key).toBe(true)
        const landed = await query<{ landing: string }>('select landing from etl.answers')
        for (const { landing } of landed)
          for (const part of ['data.gz', 'manifest.json'])
            expect(server.objects.has(`warehouse/landings/${landing}/${part}`), `${method} ${file} ${end}`).toBe(true)
      }

    server.fate = () => 'serve'
    await succeeded(run([...world.command, '--resubmit-uncertain'], machine('another')))
    expect(boughtTwice()).toBeLessThanOrEqual((await query(`select 1 from etl.jobs where report_state = 'uncertain'`)).length)
    const disturbed = await contents()
    const calm = await createTestDatabase()
    const { MILLRACE_LANDING: _, ...folder } = machine('calm', { DATABASE_URL: calm.url })
    await succeeded(run(world.command, folder))
    expect(disturbed).toEqual(await contents(calm))
    await calm.drop()
  })

  test('that is refused after reports were bought fails the jobs with the remedy, and buys none of them again', async () => {
    // Before that nothing could be noted, and so nothing is bought.
    server.fate = ({ method }) => (method === 'PUT' ? 'refuse' : 'serve')
    const early = await run(world.command, machine('refused'))
    expect(early.code, early.stderr).toBe(2)
    expect(sandbox.books().submissions).toEqual([])
    server.fate = ({ method, key }) => (method === 'PUT' && !key.includes('_warehouses/') ? 'refuse' : 'serve')
    const refused = await run(world.command, machine('refused'))
    expect(refused.code).toBe(1)
    const [reason] = await query<{ error_code: string; error_message: string }>(
      `select distinct error_code, regexp_replace(error_message, 's3://[^ ]+', 'KEY') as error_message from etl.jobs where state = 'failed'`,
    )
    expect(reason?.error_code).toBe('LANDING_REFUSED')
    expect(reason?.error_message).toMatch(/refused to write KEY .*AccessDenied.*Give the credentials the right to/)
    expect(secretsIn(refused)).toBe(false)
    const bought = sandbox.books().submissions.length
    expect(bought).toBeGreaterThan(0)
    server.fate = () => 'serve'
    await succeeded(run(world.command, machine('refused')))
    expect(sandbox.books().submissions).toHaveLength(bought)
  })

  test('with a wrong key ends a backfill before it buys anything; check says so, and the rest goes on', async () => {
    const wrong = machine('wrong', { AWS_SECRET_ACCESS_KEY: 'another-secret' })
    const backfill = await run(world.command, wrong)
    expect(backfill.code).toBe(2)
    expect(backfill.stderr).toMatch(/refused to list s3:\/\/landings\/warehouse\/landings\/ .*Correct AWS_SECRET_ACCESS_KEY/)
    expect(sandbox.books().submissions).toEqual([])
    expect(sandbox.books().requests).toEqual([])
    const check = await run(['check', '--json'], wrong)
    expect(check.code).toBe(2)
    expect(check.events.filter(({ event }) => event === 'finding')).toMatchObject([{ area: 'landing', level: 'error' }])
    const status = await succeeded(run(['status'], wrong))
    for (const result of [backfill, check, status]) expect(secretsIn(result)).toBe(false)
    const before = server.requests.length
    expect((await run(['cancel', '1'], wrong)).stderr).not.toContain('LANDING')
    expect(server.requests).toHaveLength(before)
    const file = join(world.folder, 'bucket-key')
    writeFileSync(file, `${server.keys.secretAccessKey}\n`)
    const fromFile = {
      AWS_SECRET_ACCESS_KEY: '',
      AWS_SECRET_ACCESS_KEY_FILE: file,
      AWS_ACCESS_KEY_ID: '',
      AWS_ACCESS_KEY_ID_COMMAND: `echo ${server.keys.accessKeyId}`,
    }
    const good = await run(['check', '--json'], machine('good', fromFile))
    expect(good.events.at(-1)).toMatchObject({ errors: 0 })
    // The client warns of a file without a length.
    expect(good.stderr).not.toContain('unknown length')
  })

  test('feeds `quarantine retry` on a machine that never saw the answer', async () => {
    const [traffic = ''] = stormPipelines.slice(1)
    const file = join(world.folder, 'pipelines', `${traffic}.yaml`)
    const definition = readFileSync(file, 'utf8')
    const command = ['backfill', traffic, '--from', world.from, '--to', world.from, '--json']
    sandbox.configure({ faults: [{ kind: 'bad-number' }] })
    try {
      expect((await run(command, machine('first'))).code).toBe(1)
      sandbox.configure({ faults: [] })
      const bought = sandbox.books().submissions.length
      const list = await run(['quarantine', 'list', '--json'], withoutService('second'))
      expect(list.events.filter(({ event }) => event === 'quarantined').length).toBeGreaterThan(0)
      writeFileSync(file, definition.replace(/rejects: [\d.]+%/, 'rejects: 50%'))
      const retry = await run(['quarantine', 'retry', traffic, '--json'], withoutService('second'))
      // Units whose only record is no number wait for a person; all others load.
      expect(retry.code, retry.stderr).toBe(1)
      expect(summaryOf(retry)).toMatchObject({ requests: 0, units: { failed: 0 } })
      expect(summaryOf(retry).units.held).toBeGreaterThan(0)
      expect(summaryOf(retry).units.loaded).toBeGreaterThan(0)
      expect(sandbox.books().submissions).toHaveLength(bought)
    } finally {
      writeFileSync(file, definition)
    }
  })
})

describe('a bucket that shows what was written three seconds later', () => {
  const large = sandboxWorld({
    each: true,
    lists: { domains: ['a.com'] },
    sandbox: { keywordsPerDomain: 3_000, now: '2026-11-20' },
  })

  test('is read again: the pages that lie there are not paid for a second time', async () => {
    server.fate = ({ method, key }) => {
      const writtenMs = /manifest.json$|data.gz$/.test(key) ? server.objects.get(key)?.modifiedMs : undefined
      return method === 'GET' && writtenMs !== undefined && writtenMs > Date.now() - 3_000
        ? { status: 404, code: 'NoSuchKey' }
        : 'serve'
    }
    const month = ['--from', '2026-09', '--to', '2026-09', '--only', 'country=us', '--json']
    const loaded = await large.millraceWith(server.environment('warehouse/landings'), 'backfill', 'keywords', ...month)
    expect(summaryOf(await succeeded(Promise.resolve(loaded))).units).toMatchObject({ loaded: 1, failed: 0 })
    expect(large.sandbox.books().counts['keywords']).toBe(3)
  })
})
