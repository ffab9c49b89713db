// How commands end where there is nothing to do, where a name or number is unknown, and where they are told to stop: exit code and last line.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startCommand, summaryOf } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'
import { until } from '../support/until.ts'

const { folder, db, sandbox, environment, millrace } = sandboxWorld({
  lists: { domains: ['example.com', 'example.org'] },
  database: { published: true },
  sandbox: { keywordsPerDomain: 20 },
  settings: { MILLRACE_WEB_PORT: '0' },
})

beforeAll(async () => {
  await millrace('migrate')
})
beforeEach(() => sandbox.configure({ latencyMs: 0, faults: [] }))

const nothing = { planned: 0, loaded: 0, unchanged: 0, waiting: 0, held: 0, failed: 0 }

describe('nothing to do', () => {
  test('a retry of an empty quarantine says so, sums up nothing and is done', async () => {
    const told = await millrace('quarantine', 'retry', 'keywords')
    expect([told.code, told.stdout + told.stderr]).toEqual([0, expect.stringContaining('Nothing of keywords is in quarantine')])
    const counted = await succeeded(millrace('quarantine', 'retry', '--json'))
    expect(summaryOf(counted)).toMatchObject({ command: 'quarantine retry', units: nothing, requests: 0 })
  })

  test('a replay of months in which nothing was landed says so and sums up nothing', async () => {
    const replayed = await millrace('replay', 'keywords', '--from', '2026-01', '--to', '2026-02', '--json')
    expect([replayed.code, replayed.stderr]).toEqual([
      1,
      expect.stringContaining('Nothing from 2026-01 to 2026-02 has been landed'),
    ])
    expect(summaryOf(replayed)).toMatchObject({ command: 'replay', units: nothing, requests: 0 })
  })
})

describe('what is unknown', () => {
  test('a unit nobody knows is wrong usage, and none of the others is released', async () => {
    const released = await millrace('release', '999999', '999998', '--json')
    expect([released.code, released.stderr]).toEqual([2, expect.stringMatching(/no units 999999, 999998;.*status/)])
    expect((await millrace('release', '999999')).stderr).toContain('There is no unit 999999;')
  })

  test.each([['reports', 'list'], ['quarantine', 'list'], ['quarantine', 'retry'], ['status']])(
    'a pipeline nobody knows is wrong usage and named: %s',
    async (...command: readonly string[]) => {
      const listed = await millrace(...command, 'nosuch', '--json')
      expect([listed.code, listed.stderr]).toEqual([2, expect.stringContaining('nosuch')])
    },
  )

  test.each([
    ['run'],
    ['plan'],
    ['approve'],
    ['approve', '--withdraw'],
    ['status'],
    ['backfill', '--from', '2026-08', '--to', '2026-08'],
    ['replay', '--from', '2026-08', '--to', '2026-08'],
    ['reports', 'list'],
  ])('the nearest pipeline is named, and no file is blamed: %s', async (...command: readonly string[]) => {
    const { code, stdout, stderr } = await millrace(...command, 'keyword')
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain("There is no pipeline 'keyword'. Did you mean 'keywords'?")
    expect(stderr).not.toMatch(/Correct these lines|:1:1:/)
  })

  test('the nearest view is named', async () => {
    const { code, stderr } = await millrace('export', 'keyword_month')
    expect([code, stderr]).toEqual([2, expect.stringContaining("There is no bi.keyword_month. Did you mean 'keyword_months'?")])
  })

  test('a withdrawal is not taken for its dry run', async () => {
    const { code, stderr } = await millrace('approve', '--withdraw', '--dry-run')
    expect([code, stderr]).toEqual([2, expect.stringContaining('--withdraw takes no --dry-run')])
  })

  test('a pipeline that has a definition and was never planned is known', async () => {
    for (const command of ['reports', 'quarantine']) {
      const listed = await millrace(command, 'list', 'shopper_category_performance', '--json')
      expect([listed.code, listed.events.at(-1)], listed.stderr).toMatchObject([0, { event: 'summary', total: 0 }])
    }
  })
})

describe('what people read', () => {
  test('`migrate` says what it changed, and in one line that it changed nothing', async () => {
    const again = await succeeded(millrace('migrate'))
    expect(again.stdout.trim().split('\n').slice(1)).toEqual([
      'Nothing to do: every migration is applied, and every view of bi is as it should be.',
    ])
    const mart = join(folder, 'marts', 'own_count.sql')
    mkdirSync(join(folder, 'marts'), { recursive: true })
    const header =
      '-- purpose: A view of my own.\n-- grain: One row.\n-- question: How many rows are there?\n-- reads: keywords\n-- column rows: Rows. Unit: rows.\n'
    writeFileSync(mart, `${header}select count(*) as rows from bi.keywords\n`)
    const made = await millrace('migrate')
    expect(made.stdout.trim().split('\n').slice(1)).toEqual(['New in bi: own_count.'])
    writeFileSync(mart, `${header}select count(*) as rows from bi.keywords where clicks > 0\n`)
    const changed = await millrace('migrate', '--json')
    expect(summaryOf(changed)).toMatchObject({ applied: [], made: [], changed: ['own_count'] })
    rmSync(mart)
    const removed = await millrace('migrate')
    expect(removed.stdout.trim().split('\n').slice(1)).toEqual(['Removed bi.own_count: its file is gone.'])
    const file = join(folder, 'pipelines', 'traffic_and_engagement.yaml')
    const text = readFileSync(file, 'utf8')
    writeFileSync(file, text.replace(/.*all_page_views.*\n/, ''))
    const lacking = await millrace('migrate')
    expect(lacking.stdout).toContain(
      'Left out of bi: traffic_comparison, traffic_domains. `millrace check --all` names what they lack.',
    )
    writeFileSync(file, text)
    expect((await millrace('migrate')).stdout).toMatch(/New in bi: traffic_\w+, traffic_\w+\./)
  })

  test('a migration needs no lists: empty ones do not end it, also where every pipeline has one', async () => {
    const files = ['domains', 'shop_domains'].map((name) => join(folder, 'pipelines', `${name}.txt`))
    const before = files.map((file) => readFileSync(file, 'utf8'))
    for (const file of files) writeFileSync(file, '')
    const migrated = await millrace('migrate', '--as', 'restored', '--json')
    for (const [at, file] of files.entries()) writeFileSync(file, before[at] ?? '')
    expect(migrated.code, migrated.stderr).toBe(0)
  })

  test('times are those of the schedules, and the zone is named', async () => {
    const file = join(folder, 'pipelines', 'keywords.yaml')
    const text = readFileSync(file, 'utf8')
    const kiritimati = (name: string): void =>
      writeFileSync(
        join(folder, 'pipelines', name),
        readFileSync(join(folder, 'pipelines', name), 'utf8').replace(/time_zone: \S+?(?= \})/, 'time_zone: Pacific/Kiritimati'),
      )
    for (const name of readdirSync(join(folder, 'pipelines')).filter((one) => one.endsWith('.yaml'))) kiritimati(name)
    await millrace('backfill', 'keywords', '--from', '2026-08', '--to', '2026-08')
    const { stdout } = await millrace('status')
    const [{ at }] = (await db.query<{ at: string }>(
      `select to_char(max(started_at) at time zone 'Pacific/Kiritimati', 'YYYY-MM-DD HH24:MI') as at from etl.runs`,
    )) as [{ at: string }]
    expect(stdout).toContain(at)
    expect(stdout).toContain('Times: Pacific/Kiritimati')
    writeFileSync(file, text.replace(/time_zone: \S+?(?= \})/, 'time_zone: Asia/Tokyo'))
    expect((await millrace('status')).stdout).toContain('Times: UTC')
  })
})

describe('told to stop', () => {
  const range = ['--from', '2026-08', '--to', '2026-09', '--json']

  // SIGHUP: the terminal was closed, or the connection to it is lost.
  test.each(['SIGINT', 'SIGHUP'] as const)('a run at work ends at %s with 130 and the summary of what it did', async (signal) => {
    sandbox.configure({ latencyMs: 300 })
    const before = sandbox.books().requests.length
    const running = startCommand(['backfill', 'keywords', ...range], environment(), folder)
    await until('it comes to that', () => sandbox.books().requests.length > before)
    running.child.kill(signal)
    const ended = await running.result
    expect(ended.code).toBe(130)
    expect(summaryOf(ended)).toMatchObject({
      command: 'backfill',
      run_id: expect.any(Number),
      units: { planned: expect.any(Number) },
    })
  })

  test('a run that plans ends with 130 and a summary', async () => {
    // Its planning waits for the pipeline's row.
    const lock = await db.database.pool.connect()
    try {
      await lock.query('begin')
      await lock.query('select from etl.pipelines for update')
      const running = startCommand(['backfill', 'keywords', ...range], environment(), folder)
      const waits = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      await until('it comes to that', async () => (await db.query(waits)).length > 0)
      running.child.kill('SIGINT')
      await new Promise((done) => setTimeout(done, 300))
      await lock.query('rollback')
      const ended = await running.result
      expect(ended.code, ended.stderr).toBe(130)
      expect(summaryOf(ended)).toMatchObject({ command: 'backfill', run_id: expect.any(Number), requests: 0 })
      expect(await db.query('select state from etl.runs order by run_id desc limit 1')).toEqual([{ state: 'interrupted' }])
    } finally {
      lock.release()
    }
  })

  test.each([
    ['backfill', 'keywords', ...range],
    ['worker', '--json'],
    ['schedule', '--json'],
    ['status', '--serve', '--json'],
  ])('as soon as it has begun, or for as long as it lasts, the last line is a summary: %s', async (...args: string[]) => {
    for (const afterMs of [150, 1_500]) {
      const running = startCommand(args, environment(), folder)
      await new Promise((done) => setTimeout(done, afterMs))
      running.child.kill('SIGINT')
      const ended = await running.result
      // Before it listens to signals a process just ends.
      if (ended.signal !== null || ended.code === 0) continue
      expect([ended.code, ended.events.at(-1)], ended.stderr).toMatchObject([130, { event: 'summary', command: args[0] }])
    }
  })
})

describe('a backfill of months older than the look-back', () => {
  test('leaves their windows counted', async () => {
    await succeeded(millrace('backfill', 'keywords', '--from', '2026-03', '--to', '2026-04', '--json'))
    expect(
      await db.query(
        `select window_from::text as month, closed_units as units, closed_rows = (select count(*) from data.keywords_v1 where month = window_from) as rows
       from etl.windows where closed_generation is not null and window_from <= '2026-04-01' order by 1`,
      ),
    ).toEqual(['2026-03-01', '2026-04-01'].map((month) => ({ month, units: '4', rows: true })))
  })
})

describe('a replay that fails', () => {
  test('is named by status, with the job and the reason, until it is done', async () => {
    const months = ['keywords', '--from', '2026-03', '--to', '2026-04', '--json']
    const rows = await db.query<{ landing: string }>('select landing from etl.answers order by answer_id desc limit 1')
    const part = join(folder, 'home', 'landing', String(rows[0]?.landing))
    const [file = ''] = readdirSync(part).filter((name) => name.endsWith('.gz'))
    const bytes = readFileSync(join(part, file))
    writeFileSync(join(part, file), Buffer.concat([bytes.subarray(0, 20), Buffer.from('no'), bytes.subarray(22)]))
    expect((await millrace('replay', ...months)).code).toBe(1)
    const told = await millrace('status')
    expect(told.stdout).toMatch(
      /could not be loaded again.*failed job \d+, replay of answer \d+: keywords\/v1\/2026-0[34].* \[LANDING_CORRUPT\]/s,
    )
    writeFileSync(join(part, file), bytes)
    await succeeded(millrace('replay', ...months))
    expect((await millrace('status')).stdout).not.toContain('could not be loaded again')
  })
})

describe('a replay of an older answer', () => {
  test('counts units that hold a newer one as unchanged, and its others as loaded', async () => {
    await millrace('backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-09', '--json')
    sandbox.restate('2026-09')
    await succeeded(millrace('backfill', 'traffic_and_engagement', '--from', '2026-09', '--to', '2026-09', '--force', '--json'))
    const rows = await db.query<{ id: string }>('select min(answer_id) as id from etl.answers where cardinality(slice_ids) > 1')
    const replayed = summaryOf(await millrace('replay', '--answer', String(rows[0]?.id), '--json'))
    expect(replayed.units).toMatchObject({ planned: 12, loaded: 6, unchanged: 6 })
    await millrace('backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--force', '--json')
    const older = summaryOf(await millrace('replay', '--answer', String(rows[0]?.id), '--json'))
    expect(older).toMatchObject({ units: { planned: 12, loaded: 0, unchanged: 12 }, rows: { read: 0 } })
  })
})
