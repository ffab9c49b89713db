// A person's word, given at a terminal, by --yes, or to whoever lives: the question, the night that holds and goes on, the worker that is alone, fair shares, a late service.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { createScreen } from '../../scripts/terminal-screen.ts'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, cleanEnvironment, launcher, startCommand, summaryOf } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const traffic = 'traffic_and_engagement'
const shopper = 'shopper_category_performance'
const { folder, db, sandbox, edit, fileOf, serve, environment, millrace } = sandboxWorld({
  each: true,
  lists: { domains: ['a.example', 'b.example'], shop_domains: ['a.example', 'b.example'] },
  sandbox: { reportDurationMs: 20 },
  settings: { MILLRACE_WEB_PORT: '0' },
  json: true,
})

beforeEach(() => {
  for (const name of [traffic, shopper])
    edit(name, [/from: \d{4}-\d{2}/, 'from: 2025-11'], ['poll_every: 5s', 'poll_every: 50ms'])
  edit(traffic, [/country: \[.*\]/, 'country: [us]'])
  rmSync(fileOf('keywords'))
})

const spent = (): number => sandbox.books().quotaUsed

interface AtTerminal {
  readonly code: number | null
  readonly screen: string
  /** What came after the question, before it was answered. */
  readonly whileAsked: string
}

/** Under a terminal of its own; `answer` is typed half a second after the question is asked. */
const atTerminal = (answer: string, ...args: string[]): Promise<AtTerminal> => {
  const command = [process.execPath, launcher(), ...args].map((word) => `'${word}'`).join(' ')
  const child = spawn('script', ['-qfec', command, '/dev/null'], {
    cwd: folder,
    env: { ...cleanEnvironment(environment()), TERM: 'dumb' },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let screen = ''
  let whileAsked = ''
  let isAsked = false
  child.stdout.on('data', (chunk: Buffer) => {
    screen += chunk.toString()
    if (isAsked || !/\[y\/N\] /.test(screen)) return
    isAsked = true
    setTimeout(() => {
      whileAsked = screen.split('[y/N] ')[1] ?? ''
      child.stdin.write(/^[\x03\x04]$/.test(answer) ? answer : `${answer}\n`)
    }, 500)
  })
  return new Promise((done) => child.on('close', (code) => done({ code, screen, whileAsked })))
}

const hasTerminals = process.platform === 'linux' && existsSync('/usr/bin/script')

test.skipIf(!hasTerminals)(
  'at a terminal a run asks before it buys beyond the guard; no buys the usual, yes buys the rest',
  async () => {
    await succeeded(millrace('migrate'))
    const no = await atTerminal('n', 'run', traffic)
    expect(no.screen).toMatch(/Needs approval; after the next run: millrace approve/)
    expect(no.screen).toMatch(/Buy what needs approval, too\? \[y\/N\]/)
    expect(no.code).toBe(1)
    const usual = spent()
    expect(usual).toBeGreaterThan(0)
    // Nothing is new: what waits is asked about again, and a bare Return is no.
    const bare = await atTerminal('', 'run', traffic)
    expect([bare.code, spent()]).toEqual([1, usual])
    const yes = await atTerminal('y', 'run', traffic)
    expect([yes.code, spent() > usual]).toEqual([0, true])
    expect(await db.query(`select decided_by from etl.approvals where state = 'approved'`)).toEqual([
      { decided_by: expect.stringMatching(/run at the terminal$/) },
    ])
  },
)

test.skipIf(!hasTerminals)('at a terminal a dear range is asked about, and no buys nothing', async () => {
  await succeeded(millrace('migrate'))
  const path = join(folder, 'pipelines', `${traffic}.yaml`)
  writeFileSync(path, `${readFileSync(path, 'utf8')}\nguard: { credits_per_night: 5 }\n`)
  const no = await atTerminal('n', 'backfill', traffic, '--from', '2025-11', '--to', '2026-09')
  expect(no.screen).toMatch(/Buy it\? \[y\/N\]/)
  // No bar is drawn while it waits, and what it is about begins a line of its own.
  expect(no.whileAsked).not.toMatch(/[░█]/)
  const shown = createScreen(120)
  shown.write(no.screen.slice(0, no.screen.indexOf('[y/N]')))
  expect(shown.text()).toContainEqual(expect.stringMatching(/^Now: 0 units/))
  const left = createScreen(120)
  left.write(no.screen)
  expect(left.text()).toContain('Nothing was bought.')
  // Ctrl-C and Ctrl-D at the question.
  const stopped = await atTerminal('\x03', 'backfill', traffic, '--from', '2025-11', '--to', '2026-09')
  expect([stopped.code, stopped.screen]).toEqual([130, expect.not.stringMatching(/defect|AbortError/)])
  const ended = await atTerminal('\x04', 'backfill', traffic, '--from', '2025-11', '--to', '2026-09')
  expect([ended.code, ended.screen]).toEqual([1, expect.stringContaining('Nothing was bought.')])
  expect(spent()).toBe(0)
  await succeeded(millrace('backfill', traffic, '--from', '2025-11', '--to', '2026-09', '--yes'))
  expect(spent()).toBeGreaterThan(0)
})

test.skipIf(!hasTerminals)(
  'at a terminal a dear range says why it is asked about; what nights wait for, and what is bought, is no question',
  async () => {
    await succeeded(millrace('migrate'))
    // Older months wait for approval since a night.
    expect((await millrace('run', traffic)).code).toBe(1)
    const range = ['backfill', traffic, '--from', '2025-11', '--to', '2026-05']
    const no = await atTerminal('n', ...range)
    expect(no.screen).toMatch(/traffic_and_engagement: about \d+ credits\. A\s+backfill\s+above\s+\d+\s+credits\s+asks\s+first/)
    expect(no.screen).not.toMatch(/Needs approval/)
    sandbox.configure({ faults: [{ kind: 'report-retry' }] })
    const bought = sandbox.books().submissions.length
    const running = startCommand([...range, '--yes'], environment(), folder)
    await expect.poll(() => sandbox.books().submissions.length, { timeout: 60_000 }).toBeGreaterThan(bought)
    await expect
      .poll(async () => (await db.database.pool.query(`select 1 from etl.jobs where report_state = 'submitted'`)).rowCount, {
        timeout: 60_000,
      })
      .toBeGreaterThan(0)
    running.child.kill('SIGINT')
    expect((await running.result).code).toBe(130)
    sandbox.configure({ faults: [] })
    const submitted = sandbox.books().submissions.length
    const resumed = await atTerminal('n', ...range)
    expect([resumed.code, resumed.screen]).toEqual([0, expect.not.stringMatching(/y\/N/)])
    expect(sandbox.books().submissions.length).toBe(submitted)
  },
)

test('a worker that is alone buys what a person approved', async () => {
  await succeeded(millrace('migrate'))
  expect((await millrace('run', traffic)).code).toBe(1)
  const usual = spent()
  await succeeded(millrace('approve', traffic))
  const worker = startCommand(['worker', '--json'], environment(), folder)
  try {
    await expect
      .poll(
        async () =>
          (await db.database.pool.query(`select 1 from etl.runs where command = 'schedule' and state = 'done'`)).rowCount,
        { timeout: 120_000, interval: 250 },
      )
      .toBe(1)
  } finally {
    worker.child.kill('SIGTERM')
    await worker.result
  }
  expect(spent()).toBeGreaterThan(usual)
  expect(await db.query(`select command, state from etl.runs order by run_id`)).toEqual([
    { command: 'run', state: 'failed' },
    { command: 'schedule', state: 'done' },
  ])
})

/** As far as the ledger is concerned. */
const nextDay = async (): Promise<void> => {
  await db.database.pool.query(`update etl.jobs set asked_at = asked_at - interval '1 day' where asked_at is not null`)
}

test('pipelines that wait for one budget get the same share of it', async () => {
  await succeeded(millrace('migrate'))
  const range = ['--from', '2025-11', '--to', '2026-10']
  const perDay = { WEB_ANALYTICS_QUOTA_PER_DAY: '80' }
  // What shopper reports cost is known once one was bought: the service names no price for them.
  await succeeded(millrace('backfill', shopper, '--from', '2025-11', '--to', '2025-11'))
  await nextDay()
  const before = spent()
  const paced = (...args: string[]): Promise<CommandResult> => runWarm([...args, '--json'], environment(perDay), folder)
  for (const name of [traffic, shopper]) {
    const { units } = summaryOf(await paced('backfill', name, ...range))
    expect([name, units.held, units.failed]).toEqual([name, 0, 0])
  }
  expect(spent() - before).toBeLessThanOrEqual(80)
  const byPipeline = async (): Promise<Record<string, number>> => {
    const rows = await db.query<{ pipeline: string; credits: number }>(
      `select pipeline, sum(used_quota)::float8 as credits from etl.spending where day = (clock_timestamp() at time zone 'UTC')::date group by 1`,
    )
    return Object.fromEntries(rows.map(({ pipeline, credits }) => [pipeline, credits]))
  }
  await nextDay()
  await paced('run', traffic, shopper)
  const shares = await byPipeline()
  expect(Object.keys(shares).sort()).toEqual([shopper, traffic])
  for (const share of Object.values(shares)) expect(share).toBeLessThanOrEqual(40)
  for (const share of Object.values(shares)) expect(share).toBeGreaterThan(0)
})

test('a service that is late with its newest month leaves that one waiting; the other is bought, and nothing has failed', async () => {
  await sandbox.close()
  const monthMs = 31 * 24 * 3_600_000
  await serve(startSandbox({ requestsPerSecond: null, reportDurationMs: 20, now: () => Date.now() - monthMs }))
  await succeeded(millrace('migrate'))
  const night = await millrace('run', traffic)
  expect(summaryOf(night).units).toMatchObject({ loaded: 2, waiting: 2, failed: 0 })
  expect(await db.query(`select distinct error_code, cells from etl.jobs where state = 'open' and ask_number is null`)).toEqual([
    { error_code: 'NOT_PUBLISHED', cells: 2 },
  ])
})

test('two folders that run one pipeline by lists of their own are told of, and one list that grows is not', async () => {
  await succeeded(millrace('migrate'))
  const told: boolean[] = []
  for (const list of ['a.example', 'a.example\nb.example', 'a.example', 'a.example\nb.example']) {
    writeFileSync(join(folder, 'pipelines', 'domains.txt'), `${list}\n`)
    const { events } = await millrace('run', traffic)
    told.push(events.some(({ code }) => code === 'LISTS_CHANGED_BACK'))
  }
  expect(told).toEqual([false, false, true, true])
})
