// The ticker over a real ledger and a clock that is moved by hand.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { readSettings } from '../../src/core/env.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Schedule } from '../../src/core/types.ts'
import { type OpenRuntime, openRuntime } from '../../src/run/open-runtime.ts'
import { createProgress } from '../../src/run/progress.ts'
import { claimTick } from '../../src/ledger/data-releases.ts'
import { scheduledOf, untakenTicks } from '../../src/plan/ticks.ts'
import { cancelRun } from '../../src/run/cancel-run.ts'
import { causes } from '../../src/schedule/notify/alarm-causes.ts'
import { createTicker } from '../../src/schedule/ticker.ts'
import { newJob, newProcess, newRun, newSlices } from '../support/ledger.ts'
import { createTestDatabase, testDatabase } from '../support/postgres.ts'
import { pageToken, servePage } from '../support/status-page.ts'
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { testFolder } from '../support/test-world.ts'

const folder = testFolder({ each: true, copied: ['pipelines'] })
const db = testDatabase({ each: true })
let runtime: OpenRuntime
let nowMs = Date.parse('2026-06-01T10:00:00Z')
const minute = 60_000

const openHere = (url: string): Promise<OpenRuntime> =>
  openRuntime({
    settings: readSettings({ DATABASE_URL: url, MILLRACE_HOME: join(folder, 'home') }, folder),
    pipelinesFolder: join(folder, 'pipelines'),
    pipelines: ['keywords'],
    callsService: false,
    usesLanding: true,
    progress: createProgress(),
    log: silentLog,
    clock: { ...systemClock, now: () => nowMs },
  })

beforeEach(async () => {
  const file = join(folder, 'pipelines', 'keywords.yaml')
  // Nothing is due before the next century: a tick is a run of no units.
  const text = readFileSync(file, 'utf8').replace('from: 2024-01', 'from: 2100-01').replace('30 2 * * *', '30 * * * *')
  writeFileSync(file, text)
  runtime = await openHere(db.url)
})
afterEach(() => runtime.close())

test('a tick nobody took is overdue after five minutes, and not once it is taken; one from before this process began is another’s', async () => {
  const { signal } = new AbortController()
  const ticker = createTicker(runtime, signal)
  expect(await ticker.overdue()).toEqual([])
  nowMs += 32 * minute
  expect(await ticker.overdue()).toEqual([])
  nowMs += 4 * minute
  expect(await ticker.overdue()).toEqual(['keywords'])
  expect(await createTicker(runtime, signal).overdue()).toEqual([])
  ticker.sweep()
  await ticker.settled()
  expect(await ticker.overdue()).toEqual([])
})

test('a tick whose process died before its run was over is late, and taken by the next who checks; one whose run is over, or was cancelled, is not', async () => {
  const { pool, kysely } = db.database
  const ticker = createTicker(runtime, new AbortController().signal)
  const entries = scheduledOf(runtime.definitions)
  const dead = await newProcess(db)
  const dueMs = Date.parse('2026-06-01T10:30:00Z')
  nowMs = dueMs - minute
  const dying = createTicker(runtime, new AbortController().signal, { sinceMs: nowMs })
  nowMs = dueMs + 6 * minute
  await claimTick(kysely, { pipeline: 'keywords', dueMs, owner: dead.name, kind: 'on time' })
  const look = async (): Promise<unknown> => {
    const untaken = await Promise.all(entries.map((entry) => untakenTicks(runtime, entry)))
    const overdue = await dying.overdue()
    for (const one of [dying, ticker]) {
      one.sweep()
      await one.settled()
    }
    const { rows } = await pool.query(
      'select kind, run_id is not null as has_run, finished_at is not null as finished from etl.ticks',
    )
    return { untaken: untaken.flat(), overdue, rows }
  }
  expect(await look()).toEqual({ untaken: [], overdue: [], rows: [{ kind: 'on time', has_run: false, finished: false }] })
  await pool.query('update etl.processes set ended_at = now() where process_id = $1', [dead.processId])
  const found = { untaken: [dueMs], overdue: ['keywords'] }
  expect(await look()).toEqual({ ...found, rows: [{ kind: 'on time', has_run: true, finished: true }] })
  const dies = async (run: string, then = async (): Promise<unknown> => undefined): Promise<unknown> => {
    await pool.query('update etl.ticks set finished_at = null, claimed_by = $1', [dead.name])
    await pool.query(`update etl.runs set ${run}`)
    await then()
    return look()
  }
  const cancels = async () => {
    const { run_id } = await db.one<{ run_id: string }>('select run_id from etl.ticks')
    return cancelRun({ database: db.database, clock: runtime.clock, process: { processId: 0 } }, Number(run_id))
  }
  const stays = { untaken: [], overdue: [], rows: [{ kind: 'on time', has_run: true, finished: false }] }
  expect(await dies(`state = 'done'`)).toEqual(stays)
  expect(await dies(`state = 'cancelled'`)).toEqual(stays)
  expect(await dies(`state = 'interrupted'`, cancels)).toEqual(stays)
  expect(await dies(`state = 'interrupted', cancel_requested_at = null`)).toEqual({
    ...found,
    rows: [{ kind: 'on time', has_run: true, finished: true }],
  })
})

test('a night that was missed is late until a run by hand of all that is due has come to its end', async () => {
  const { pool, kysely } = db.database
  const [entry] = scheduledOf(runtime.definitions)
  if (entry === undefined) expect.fail('no schedule')
  const dueMs = Date.parse('2026-06-01T10:30:00Z')
  await claimTick(kysely, { pipeline: 'keywords', dueMs, owner: 'another', kind: 'on time' })
  const [missed, next] = [dueMs + 60 * minute, dueMs + 120 * minute]
  nowMs = next + 6 * minute
  const late = () => untakenTicks(runtime, entry)
  const ran = (command: string, state: string, named: object, summary: object | null = {}) =>
    pool.query(`insert into etl.runs (command, state, arguments, summary, started_at) values ($1, $2, $3, $4, $5)`, [
      ...[command, state, JSON.stringify(named), summary && JSON.stringify(summary), new Date(missed + minute).toISOString()],
    ])
  await ran('run', 'running', { pipelines: [], only: null })
  await ran('run', 'interrupted', { pipelines: [], only: null })
  await ran('run', 'failed', { pipelines: [], only: null }, null)
  await ran('run', 'done', { pipelines: [], only: 'domain=a.com' })
  await ran('run', 'done', { pipelines: ['another'], only: null })
  await ran('backfill', 'done', { pipelines: [], only: null })
  expect(await late()).toEqual([missed, next])
  await ran('run', 'failed', { pipelines: ['keywords'], only: null })
  expect(await late()).toEqual([next])
})

test('ticks that were skipped for a run do not keep it from being begun again once its process has died', async () => {
  const { kysely } = db.database
  const dead = await newProcess(db)
  const dueMs = Date.parse('2026-06-01T10:30:00Z')
  const tick = { pipeline: 'keywords', owner: dead.name }
  await claimTick(kysely, { ...tick, dueMs: dueMs - 60 * minute, kind: 'on time' })
  await db.query(`update etl.ticks set run_id = $1`, [await newRun(db, dead.processId)])
  await claimTick(kysely, { ...tick, dueMs, kind: 'skipped' })
  nowMs = dueMs + minute
  const ticker = createTicker(runtime, new AbortController().signal)
  const sweep = async (): Promise<unknown> => {
    ticker.sweep()
    await ticker.settled()
    return db.query('select kind, run_id is not null as has_run from etl.ticks order by due_at')
  }
  expect(await sweep()).toMatchObject([{ kind: 'on time' }, { kind: 'skipped' }])
  await db.query(`update etl.processes set ended_at = now() where process_id = $1`, [dead.processId])
  await db.query(`update etl.runs set state = 'interrupted'`)
  expect(await sweep()).toMatchObject([{ kind: 'on time' }, { kind: 'on time', has_run: true }])
})

test('a tick whose run kills its process each time is begun ten times, then said and left until the next one; stops do not count', async () => {
  const { pool } = db.database
  const dueMs = Date.parse('2026-06-01T10:30:00Z')
  nowMs = dueMs - minute
  const { signal } = new AbortController()
  const begun = async (): Promise<number> => {
    const ticker = createTicker(runtime, signal, { sinceMs: dueMs - minute })
    ticker.sweep()
    await ticker.settled()
    return Number((await pool.query(`select count(*)::int as n from etl.runs`)).rows[0]?.n)
  }
  const dies = async (summary: string | null): Promise<void> => {
    const dead = await newProcess(db)
    await pool.query('update etl.processes set ended_at = now() where process_id = $1', [dead.processId])
    await pool.query('update etl.ticks set finished_at = null, claimed_by = $1', [dead.name])
    await pool.query(
      `update etl.runs set state = 'interrupted', summary = $1, process_id = $2 where run_id = (select max(run_id) from etl.runs)`,
      [summary, dead.processId],
    )
  }
  const said = async (): Promise<string[]> =>
    (await causes(runtime)).flatMap(({ kind, message }) => (kind === 'late' ? [message] : []))
  nowMs = dueMs + minute
  expect(await begun()).toBe(1)
  await dies('{}')
  for (const times of Array.from({ length: 10 }, (_, index) => index + 2)) {
    expect(await begun()).toBe(times)
    await dies(null)
  }
  expect(await begun()).toBe(11)
  expect(await said()).toEqual([
    expect.stringMatching(/^keywords was due at .* and was started several times; each time its process was killed/),
  ])
  nowMs = dueMs + 61 * minute
  expect([await begun(), await said()]).toEqual([12, []])
})

test.each(['before', 'after'])(
  'a tick of a scheduler that is stopped %s what is due was planned is left to the next one',
  async (when) => {
    const { pool } = db.database
    const stop = new AbortController()
    const planned = { ...runtime.progress, emit: ({ event }: { readonly event: string }) => event === 'planned' && stop.abort() }
    const stopped: OpenRuntime = {
      ...runtime,
      ...(when === 'before' ? { begin: async () => stop.abort() } : { progress: planned }),
    }
    const ticker = createTicker(stopped, stop.signal)
    nowMs += 60 * minute
    ticker.sweep()
    await ticker.settled()
    await pool.query('update etl.processes set ended_at = now()')
    const next = createTicker(runtime, new AbortController().signal)
    await next.catchUp()
    await next.settled()
    const { rows } = await pool.query(
      'select kind, t.finished_at is not null as finished, r.state from etl.ticks t join etl.runs r using (run_id)',
    )
    expect(rows).toEqual([{ kind: 'on time', finished: true, state: 'done' }])
  },
)

describe('a tick whose run throws', () => {
  let pings: Server
  let asked: string[]
  let withPing: OpenRuntime

  beforeEach(async () => {
    asked = []
    pings = createServer((request, reply) => {
      asked.push(request.url ?? '')
      reply.end()
    })
    await new Promise<void>((listening) => pings.listen(0, '127.0.0.1', listening))
    const { port } = pings.address() as AddressInfo
    const raw = { ...runtime.settings.raw, MILLRACE_PING_URL: `http://127.0.0.1:${port}/ping/night` }
    // Without its source the pipeline cannot be planned.
    withPing = { ...runtime, settings: { ...runtime.settings, raw }, sources: new Map() }
  })
  afterEach(() => void pings.close())

  const ticks = (): Promise<unknown[]> =>
    db.query('select finished_at is not null as finished, run_id is null as without_run from etl.ticks')

  test('says that it failed, and is over all the same', async () => {
    const ticker = createTicker(withPing, new AbortController().signal)
    nowMs += 60 * minute
    ticker.sweep()
    await ticker.settled()
    expect(asked).toEqual(['/ping/night/start', '/ping/night/fail'])
    expect(await ticks()).toEqual([{ finished: true, without_run: true }])
  })

  test('is run again where the database was only away', async () => {
    let isAway = true
    const restarted = async (runId: number): Promise<void> => {
      if (!isAway) return runtime.begin(runId)
      isAway = false
      throw Object.assign(new Error('terminating connection due to administrator command'), { code: '57P01' })
    }
    const ticker = createTicker({ ...withPing, sources: runtime.sources, begin: restarted }, new AbortController().signal)
    nowMs += 60 * minute
    ticker.sweep()
    await ticker.settled()
    expect(asked).toEqual(['/ping/night/start', '/ping/night'])
    expect(await ticks()).toEqual([{ finished: true, without_run: false }])
    const states = await db.database.pool.query('select state from etl.runs order by run_id')
    expect(states.rows.map(({ state }) => state)).toEqual(['failed', 'done'])
  })

  test('does not keep the next one from running well', async () => {
    const ticker = createTicker(withPing, new AbortController().signal)
    nowMs += 60 * minute
    ticker.sweep()
    await ticker.settled()
    asked = []
    const corrected = createTicker({ ...withPing, sources: runtime.sources }, new AbortController().signal)
    nowMs += 60 * minute
    corrected.sweep()
    await corrected.settled()
    expect(asked).toEqual(['/ping/night/start', '/ping/night'])
    expect(await ticks()).toContainEqual({ finished: true, without_run: false })
  })

  test('a wrong setting ends the start of the schedule, not a night', () => {
    const raw = { ...runtime.settings.raw, MILLRACE_PING_URL: 'no address' }
    const start = () => createTicker({ ...runtime, settings: { ...runtime.settings, raw } }, new AbortController().signal)
    expect(start).toThrow(expect.objectContaining({ code: 'CONFIGURATION' }))
  })
})

test('the health endpoint is red while a tick is overdue, and says no more than that', async () => {
  let late: readonly string[] = ['keywords']
  const page = await servePage(db, { token: true, overdue: async () => late })
  try {
    const red = await fetch(`${page.url}/healthz`)
    expect(red.status).toBe(503)
    expect(await red.json()).toEqual({ healthy: false, database: 'reachable', schedule: 'a tick is overdue' })
    late = []
    expect((await fetch(`${page.url}/healthz`)).status).toBe(200)
  } finally {
    await page.close()
  }
})

test('a database that is away makes the process unhealthy, and not dead: a probe that restarts it would gain nothing', async () => {
  const away = await createTestDatabase()
  let late: readonly string[] = []
  const page = await servePage(away, { token: true, overdue: async () => late })
  try {
    expect((await fetch(`${page.url}/livez`)).status).toBe(200)
    late = ['keywords']
    expect((await fetch(`${page.url}/livez`)).status).toBe(503)
    await away.drop()
    expect((await fetch(`${page.url}/healthz`)).status).toBe(503)
    const alive = await fetch(`${page.url}/livez`)
    expect([alive.status, await alive.json()]).toEqual([200, { healthy: false, database: 'not reachable' }])
    const metrics = await fetch(`${page.url}/metrics`, { headers: { authorization: `Bearer ${pageToken}` } })
    expect([metrics.status, (await metrics.text()).match(/^millrace_.*$/gm)]).toEqual([200, ['millrace_database_reachable 0']])
  } finally {
    await page.close()
  }
})

test('a database that takes no writes any more makes a process that loads unhealthy, and no page that only reads', async () => {
  const standby = await createTestDatabase()
  const pages = [await servePage(standby, { token: true, replay: () => true }), await servePage(standby, { token: true })]
  const said = () => Promise.all(pages.map(async ({ url }) => (await fetch(`${url}/healthz`)).json()))
  try {
    expect(await said()).toEqual(Array(2).fill({ healthy: true, database: 'reachable' }))
    const name = new URL(standby.url).pathname.slice(1)
    await db.database.pool.query(`alter database ${name} set default_transaction_read_only = on`)
    await db.database.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`)
    const expected = [
      { healthy: false, database: 'accepts no writes' },
      { healthy: true, database: 'reachable' },
    ]
    await expect.poll(said, { timeout: 30_000 }).toEqual(expected)
    expect((await fetch(`${pages[0]?.url}/livez`)).status).toBe(200)
  } finally {
    for (const page of pages) await page.close()
    await standby.drop()
  }
}, 60_000)

describe('what is next is read from the ledger:', () => {
  const seen = (): Promise<{ kind: string; done: boolean }[]> =>
    db.query('select kind, run_id is not null and finished_at is not null as done from etl.ticks order by due_at')
  const kinds = async () => (await seen()).map(({ kind }) => kind)
  const done = (kind: string) => ({ kind, done: true })
  const scheduledAs = (change: Partial<Schedule>, as: OpenRuntime = runtime): OpenRuntime => ({
    ...as,
    definitions: as.definitions.map((one) =>
      one.schedule === null ? one : { ...one, schedule: { ...one.schedule, ...change } },
    ),
  })
  const tickerOf = (as: OpenRuntime) => createTicker(as, new AbortController().signal)
  const pass = async (minutes: number, ticker: ReturnType<typeof tickerOf>): Promise<void> => {
    nowMs += minutes * minute
    ticker.sweep()
    await ticker.settled()
  }
  /** As on another machine; one that lives, and has half an hour ago begun a run that is still at work. */
  const another = () => newProcess(db, { leaseMs: 20_000 })
  const busy = async () => {
    const other = await another()
    await claimTick(db.database.kysely, {
      pipeline: 'keywords',
      dueMs: nowMs - 30 * minute,
      owner: other.name,
      kind: 'on time',
    })
    return other
  }
  const behindProxy = async (work: (proxy: TcpProxy, behind: OpenRuntime) => Promise<void>): Promise<void> => {
    const proxy = await startTcpProxy(db.url)
    const behind = await openHere(proxy.url)
    await work(proxy, behind).finally(async () => {
      proxy.speak()
      await behind.close()
      await proxy.close()
    })
  }

  // Later than the moments that the database notes.
  beforeEach(() => {
    nowMs = (Math.floor(Date.now() / 86_400_000) + 1) * 86_400_000 + 10 * 60 * minute
  })

  test('a tick that comes while the database is away is taken when it is back', () =>
    behindProxy(async (proxy, behind) => {
      const ticker = tickerOf(behind)
      proxy.refuse()
      await pass(31, ticker)
      await pass(4, ticker)
      expect(await seen()).toEqual([])
      proxy.speak()
      await pass(1, ticker)
      expect(await seen()).toEqual([done('on time')])
    }))

  test.each([false, true])(
    'a tick whose claim was not answered is run by the process that took it; a run of it was killed: %s',
    (wasKilled) =>
      behindProxy(async (proxy, behind) => {
        if (wasKilled) {
          const dead = await newProcess(db)
          await claimTick(db.database.kysely, {
            pipeline: 'keywords',
            dueMs: nowMs + 30 * minute,
            owner: dead.name,
            kind: 'on time',
          })
          await db.query(`with killed as (insert into etl.runs (command, process_id, state) values ('schedule', ${dead.processId}, 'interrupted') returning run_id)
          update etl.ticks set run_id = killed.run_id from killed`)
          await db.query(`update etl.processes set ended_at = now() where process_id = ${dead.processId}`)
        }
        const ticker = tickerOf(behind)
        proxy.loseCommit((statements) => /insert into "etl"."ticks"/.test(statements))
        await pass(31, ticker)
        expect([proxy.lostCommits(), await seen()]).toEqual([1, [{ kind: 'on time', done: false }]])
        await pass(1, ticker)
        expect(await seen()).toEqual([done('on time')])
      }),
  )

  test.each(['before', 'after'])(
    'a tick that was taken is run anew where the database was away for too long %s it was planned',
    async (when) => {
      let [tries, aheadMs] = [0, 0]
      const real = performance.now.bind(performance)
      const clock = vi.spyOn(performance, 'now').mockImplementation(() => real() + aheadMs)
      const away = (): void => {
        tries += 1
        if (tries > 2) return
        aheadMs += (tries - 1) * 180_000
        throw Object.assign(new Error('terminating connection due to administrator command'), { code: '57P01' })
      }
      const begin = async (runId: number): Promise<void> => (when === 'before' ? away() : undefined) ?? runtime.begin(runId)
      const { progress } = runtime
      const emit: typeof progress.emit = (event) =>
        (event.event === 'planned' && when === 'after' ? away() : undefined) ?? progress.emit(event)
      try {
        await pass(31, tickerOf({ ...runtime, begin, progress: { ...progress, emit } }))
        expect(await seen()).toEqual([done('on time')])
        expect(await db.query('select r.state from etl.ticks join etl.runs r using (run_id)')).toEqual([{ state: 'done' }])
      } finally {
        clock.mockRestore()
      }
    },
  )

  test.each([
    ['last', '0 15 * * *', ['on time', 'caught up']],
    ['none', '0 15 * * *', ['on time']],
    ['none', '30 * * * *', ['on time', 'on time']],
    ['all', '0 15,18 * * *', ['on time', ...Array(6).fill('caught up')]],
  ] as const)(
    'a scheduler that slept takes what catch_up: %s says of "%s", and is not late with the rest',
    {
      timeout: 180_000,
    },
    async (catchUp, cron, expected) => {
      const ticker = tickerOf(scheduledAs({ catchUp, cron, timeZone: 'UTC' }))
      nowMs += 4 * 60 * minute
      await pass(61, tickerOf(scheduledAs({ catchUp, cron, timeZone: 'UTC' })))
      await pass(3 * 1_440 + 120, ticker)
      expect(await seen()).toEqual(expected.map(done))
      expect(await ticker.overdue()).toEqual([])
    },
  )

  test.each([
    ['last', 2],
    ['all', 4],
  ] as const)(
    'of two schedulers one waits for the run of the other; by catch_up: %s it and three more ticks are %i runs',
    async (catchUp, runs) => {
      const slow = Promise.withResolvers<void>()
      const first = tickerOf(scheduledAs({ catchUp }, { ...runtime, process: await another(), begin: () => slow.promise }))
      const second = tickerOf(scheduledAs({ catchUp }))
      nowMs += 31 * minute
      first.sweep()
      await expect.poll(() => seen()).toHaveLength(1)
      for (let tick = 0; tick < 3; tick += 1) await pass(60, second)
      first.sweep()
      expect(await seen()).toEqual([{ kind: 'on time', done: false }])
      expect([await first.overdue(), await second.overdue()]).toEqual([[], []])
      slow.resolve()
      await first.settled()
      await pass(1, second)
      expect((await seen()).map((one) => one.done)).toEqual(Array(runs).fill(true))
    },
  )

  test('of two schedulers one leaves a tick out while the other is at work, by overlap: skip, until that one dies', async () => {
    const { processId } = await busy()
    const mine = tickerOf(scheduledAs({ overlap: 'skip' }))
    await pass(31, mine)
    expect(await kinds()).toEqual(['on time', 'skipped'])
    await db.database.pool.query('update etl.processes set ended_at = now() where process_id = $1', [processId])
    await pass(60, mine)
    expect(await kinds()).toEqual(['on time', 'skipped', 'on time'])
  })

  test('a tick that waited for a long run is not late for that, by catch_up: none', async () => {
    await busy()
    const mine = tickerOf(scheduledAs({ catchUp: 'none', cron: '30 10 * * *', timeZone: 'UTC' }))
    await pass(125, mine)
    expect(await kinds()).toEqual(['on time'])
    await db.database.pool.query('update etl.ticks set finished_at = $1', [new Date(nowMs).toISOString()])
    await pass(1, mine)
    expect(await kinds()).toEqual(['on time', 'on time'])
  })

  test('a clock that is set back by an hour runs no tick again', async () => {
    const ticker = tickerOf(runtime)
    for (const minutes of [31, -60, 60]) await pass(minutes, ticker)
    expect(await seen()).toEqual([done('on time')])
    expect(await db.query('select 1 from etl.runs')).toHaveLength(1)
  })
})

test('a scheduler that has not heard yet that the clock was set back by two days takes no night to come, which would keep all others from being taken', async () => {
  nowMs += 2 * 24 * 60 * minute
  const hearClock = async (): Promise<void> => {
    nowMs = Date.parse('2026-06-02T10:20:00Z')
  }
  const ticker = createTicker({ ...runtime, hearClock }, new AbortController().signal, { sinceMs: nowMs - 120 * minute })
  ticker.sweep()
  await ticker.settled()
  expect(await db.query('select 1 from etl.ticks')).toEqual([])
})

test('a scheduler whose database was replaced takes no tick of the other one: whoever is started anew does', async () => {
  const ticker = createTicker(runtime, new AbortController().signal)
  nowMs += 32 * minute
  const ticks = () => db.query('select kind from etl.ticks')
  const rename = (name: string) =>
    db.database.pool.query('update etl.processes set name = $1 where process_id = $2', [name, runtime.process.processId])
  await rename('other:1-0')
  ticker.sweep()
  await ticker.settled()
  expect(await ticks()).toEqual([])
  await rename(runtime.process.name)
  ticker.sweep()
  await ticker.settled()
  expect(await ticks()).toEqual([{ kind: 'on time' }])
})

test('a scheduler that began by a clock two days ahead takes the first tick of a pipeline once that is set back, and not two days later', async () => {
  nowMs = Date.parse('2026-06-04T10:20:00Z')
  const ticker = createTicker(runtime, new AbortController().signal)
  for (const at of ['2026-06-02T10:20:00Z', '2026-06-02T10:31:00Z']) {
    nowMs = Date.parse(at)
    ticker.sweep()
    await ticker.settled()
  }
  const rows = await db.query<{ due_at: string }>('select due_at from etl.ticks')
  expect(rows.map(({ due_at }) => Date.parse(due_at))).toEqual([Date.parse('2026-06-02T10:30:00Z')])
})

test('a tick that was announced and comes while the scheduler still starts is taken', async () => {
  const { signal } = new AbortController()
  const sinceMs = Date.parse('2026-06-02T10:29:59Z')
  nowMs = Date.parse('2026-06-02T10:30:01Z')
  const taken = async (): Promise<number> => (await db.query('select 1 from etl.ticks')).length
  for (const [options, ticks] of [
    [{}, 0],
    [{ sinceMs }, 1],
  ] as const) {
    const ticker = createTicker(runtime, signal, options)
    ticker.sweep()
    await ticker.settled()
    expect(await taken()).toBe(ticks)
  }
})

test('versions side by side run at the same tick, also where one of their files is gone by then', async () => {
  const file = (name: string): string => join(folder, 'pipelines', name)
  const text = readFileSync(file('keywords.yaml'), 'utf8')
  const second = text.replace('version: 1', 'version: 2\npublish: false').replace('30 * * * *', '15 * * * *')
  writeFileSync(file('keywords-2.yaml'), second)
  const versions = runtime.definitions.flatMap((one) => [
    one,
    {
      ...one,
      version: 2,
      publish: false,
      file: file('keywords-2.yaml'),
      schedule: one.schedule && { ...one.schedule, cron: '15 * * * *' },
    },
  ])
  const failed: unknown[] = []
  const log = { ...silentLog, error: (about: unknown) => void failed.push(about) }
  const ticker = createTicker({ ...runtime, log, definitions: versions }, new AbortController().signal)
  const runs = async (): Promise<unknown[]> => {
    nowMs += 60 * minute
    ticker.sweep()
    await ticker.settled()
    const rows = await db.query(
      `select date_part('minute', due_at) as at, run_id is not null as has_run, (select count(*)::int from etl.pipelines) as versions from etl.ticks`,
    )
    return rows
  }
  renameSync(file('keywords-2.yaml'), file('keywords-2.yaml.away'))
  const tick = { at: 30, has_run: true }
  expect(await runs()).toEqual([{ ...tick, versions: 1 }])
  expect(failed).toMatchObject([{ pipeline: 'keywords', error: expect.stringContaining('does not define keywords version 2') }])
  renameSync(file('keywords-2.yaml.away'), file('keywords-2.yaml'))
  expect(await runs()).toEqual([
    { ...tick, versions: 2 },
    { ...tick, versions: 2 },
  ])
  expect(failed).toHaveLength(1)
  // What was approved of the one that is gone would be ready every minute.
  renameSync(file('keywords-2.yaml'), file('keywords-2.yaml.away'))
  const { pool } = db.database
  const { rows: made } = await pool.query(`with second as (select pipeline_id as id from etl.pipelines where version = 2)
    insert into etl.approvals (pipeline_id, kind, state) select id, 'backfill', 'approved' from second
    returning approval_id, pipeline_id as "pipelineId"`)
  const of = { ...made[0], pipeline: 'keywords', dimensions: ['domain', 'country'] }
  await newJob(db, of, { sliceIds: await newSlices(db, of, [['a.com', 'us']]), set: { approval_id: made[0].approval_id } })
  const count = async () => (await pool.query('select count(*)::int as count from etl.runs')).rows[0]
  const before = await count()
  await ticker.approved()
  await ticker.settled()
  expect(failed).toHaveLength(2)
  expect(await count()).toEqual(before)
})

describe('lists that change while a schedule runs', () => {
  const file = (name: string): string => join(folder, 'pipelines', name)
  const nextTick = async (ticker: ReturnType<typeof createTicker>): Promise<string[]> => {
    nowMs += 60 * minute
    ticker.sweep()
    await ticker.settled()
    const rows = await db.query<{ domain: string }>(
      `select distinct s."values"[1] as domain from etl.slices s where s.wanted_until is null order by 1`,
    )
    return rows.map(({ domain }) => domain)
  }
  const ticks = async (): Promise<number> => (await db.query('select 1 from etl.ticks where run_id is not null')).length

  test('count from its next run on; one that cannot be read leaves the former, and a definition that is gone runs no more', async () => {
    const ticker = createTicker(runtime, new AbortController().signal)
    writeFileSync(file('domains.txt'), 'a.com\nb.com\n')
    expect(await nextTick(ticker)).toEqual(['a.com', 'b.com'])
    writeFileSync(file('domains.txt'), 'b.com\nc.com\n')
    expect(await nextTick(ticker)).toEqual(['b.com', 'c.com'])
    rmSync(file('domains.txt'))
    expect(await nextTick(ticker)).toEqual(['b.com', 'c.com'])
    expect(await ticks()).toBe(3)
    renameSync(file('keywords.yaml'), file('keywords.yaml.away'))
    await nextTick(ticker)
    expect(await ticks()).toBe(3)
  })

  test('that could not be read from the beginning ask for nothing, until they can; nobody says that former ones count', async () => {
    const warned: string[] = []
    const notices: string[] = []
    writeFileSync(file('domains.txt'), 'a.com\nno domain at all\n')
    const settings = readSettings({ DATABASE_URL: db.url, MILLRACE_HOME: join(folder, 'home') }, folder)
    const broken = await openRuntime({
      ...{ settings, pipelinesFolder: join(folder, 'pipelines'), pipelines: [], callsService: false, usesLanding: true },
      progress: { ...createProgress(), emit: (event) => void (event.event === 'notice' && notices.push(event.message)) },
      log: { ...silentLog, warn: (...words: unknown[]) => void warned.push(JSON.stringify(words)) },
      clock: { ...systemClock, now: () => nowMs },
    })
    try {
      const ticker = createTicker(broken, new AbortController().signal)
      expect(await nextTick(ticker)).toEqual([])
      expect(notices).toContainEqual(expect.stringMatching(/keywords is skipped.*domains\.txt:2:1/))
      expect(warned.join()).not.toContain('former lists')
      writeFileSync(file('domains.txt'), 'a.com\n')
      expect(await nextTick(ticker)).toEqual(['a.com'])
    } finally {
      await broken.close()
    }
  })
})
