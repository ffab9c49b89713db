// Every other command as a person runs it, against the sandbox: what it prints, how it ends, and that a run can be stopped.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { startCommand, summaryOf } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'
import { until } from '../support/until.ts'
import { runWarm } from '../support/warm-command.ts'

const { folder, db, sandbox, edit, environment, millrace, list } = sandboxWorld({
  each: true,
  lists: { domains: ['example.com', ...Array.from({ length: 7 }, (_, index) => `d${index}.com`)] },
  sandbox: { keywordsPerDomain: 50, quota: 100_000 },
})

beforeEach(() => edit('traffic_and_engagement', ['{ file: domains.txt }', '{ file: domains.txt, bucket: 1 }']))

/** A report for each domain, so that several are bought. */
const slow = ['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-09', '--json']
/** One report of two units. */
const twoUnits = ['traffic_and_engagement', '--from', '2026-08', '--to', '2026-09', '--only', 'domain=example.com;country=us']
/** What the ledger says was bought: reports, and the units they are for, none of them twice. */
const reportsBought = async (): Promise<unknown> =>
  (await db.query('select count(*)::int as bought, sum(cells)::int as cells from etl.reports where report_id is not null'))[0]

describe('commands that only ask', () => {
  test('describe, capabilities, quota and check say what the key may do, and end with a summary', async () => {
    await millrace('migrate')
    for (const command of ['describe', 'capabilities', 'quota', 'check', 'status']) {
      const result = await succeeded(millrace(command, '--json'))
      expect(result.events.at(-1), command).toMatchObject({ event: 'summary', command })
    }
    expect((await millrace('describe')).stdout).toContain('traffic_and_engagement')
    expect((await millrace('quota')).stdout).toMatch(/100,000 credits left/)
  })

  test('say that the service does not tell, where it has only what the interface shows', async () => {
    sandbox.configure({ extensions: false })
    for (const command of ['describe', 'capabilities']) {
      const result = await millrace(command)
      expect([result.code, result.stdout]).toEqual([0, expect.stringMatching(/does not tell/)])
    }
  })

  test('refuse a folder of pipelines that is named and not there; a machine that only reads needs none', async () => {
    await millrace('migrate')
    for (const command of [['status'], ['quarantine', 'list'], ['reports', 'list'], ['cancel', '1']]) {
      const { code, stderr } = await millrace(...command, '--pipelines', 'nowhere')
      expect([code, stderr], command.join(' ')).toEqual([2, expect.stringContaining('nowhere')])
    }
    rmSync(join(folder, 'pipelines'), { recursive: true })
    await succeeded(millrace('status'))
  })

  test('check finds every problem in one go', async () => {
    list('domains', ['www.a.com'])
    edit('shopper_category_performance', ['granularity: monthly', 'granularity: yearly'])
    const result = await runWarm(['check'], { ...environment(), WEB_ANALYTICS_API_KEY: '' }, folder)
    expect(result.code).toBe(2)
    expect(result.stdout).toMatch(/domains\.txt:1/)
    expect(result.stdout).toMatch(/shopper_category_performance\.yaml:\d+:\d+/)
    expect(result.stdout).toMatch(/WEB_ANALYTICS_API_KEY/)
  })

  test('a dry run spends nothing and tells units, requests, reports and quota as the real run then has them', async () => {
    await millrace('migrate')
    const dry = summaryOf(await millrace(...slow, '--dry-run'))
    expect(sandbox.books().submissions).toHaveLength(0)
    expect(dry.reports_submitted).toBeGreaterThan(1)
    const real = summaryOf(await millrace(...slow))
    expect({ reports: real.reports_submitted, quota: real.quota_used, planned: real.units.planned }).toEqual({
      reports: dry.reports_submitted,
      quota: dry.quota_used,
      planned: dry.units.planned,
    })
  })
})

describe('a run that is stopped', () => {
  test('by SIGINT ends with 130, and running it again resumes without buying again', async () => {
    await millrace('migrate')
    sandbox.configure({ reportDurationMs: 3_000 })
    const running = startCommand(slow, environment(), folder)
    await until('it comes to that', () => sandbox.books().submissions.length >= 3)
    running.child.kill('SIGINT')
    expect((await running.result).code).toBe(130)
    const resumed = await succeeded(millrace(...slow))
    expect(summaryOf(resumed).units.failed).toBe(0)
    expect(await reportsBought()).toEqual({ bought: sandbox.books().submissions.length, cells: summaryOf(resumed).units.planned })
  })

  test('by a reader that closes the pipe ends in order: nothing fails, nothing is held by it, and running it again resumes', async () => {
    await millrace('migrate')
    sandbox.configure({ reportDurationMs: 3_000 })
    const running = startCommand(slow, environment(), folder)
    await until('it comes to that', () => sandbox.books().submissions.length >= 1)
    running.child.stdout?.destroy()
    const ended = await running.result
    expect(ended.code, ended.stderr).toBe(130)
    const left = await db.database.pool.query(`select (select count(*)::int from etl.jobs where state = 'failed') as failed,
      (select count(*)::int from etl.jobs where holder is not null) as held, (select array_agg(state) from etl.runs) as runs`)
    expect(left.rows).toEqual([{ failed: 0, held: 0, runs: ['interrupted'] }])
    const resumed = await succeeded(millrace(...slow))
    expect(await reportsBought()).toEqual({ bought: sandbox.books().submissions.length, cells: summaryOf(resumed).units.planned })
  })

  test.each(['worker', 'schedule'])(
    'is finished by a %s: what it bought is loaded, and nothing else is bought',
    async (helper) => {
      await millrace('migrate')
      sandbox.configure({ reportDurationMs: 2_000 })
      const running = startCommand(slow, environment(), folder)
      const count = async (statement: string): Promise<number> => (await db.query(statement)).length
      const withId = 'select 1 from etl.jobs where report_id is not null'
      await until('it comes to that', async () => (await count(withId)) >= 3)
      running.child.kill('SIGKILL')
      await running.result
      const [submitted, bought] = [sandbox.books().submissions.length, await count(withId)]
      const helping = startCommand([helper, '--json'], { ...environment(), MILLRACE_WEB_PORT: '0' }, folder)
      await until(
        'it comes to that',
        async () => (await count('select distinct domain from data.traffic_and_engagement_v1')) >= bought,
      )
      helping.child.kill('SIGTERM')
      expect((await helping.result).code).toBe(130)
      expect(sandbox.books().submissions).toHaveLength(submitted)
    },
  )

  test('by cancel stops within five seconds, and nothing is submitted after it', async () => {
    await millrace('migrate')
    sandbox.configure({ latencyMs: 300, reportDurationMs: 60_000 })
    const running = startCommand(slow, environment(), folder)
    await until('it comes to that', () => sandbox.books().submissions.length >= 1)
    const [run] = await db.query<{ run_id: string }>('select max(run_id) as run_id from etl.runs')
    const started = Date.now()
    const cancelled = await succeeded(millrace('cancel', String(run?.run_id), '--json'))
    expect(cancelled.events.at(-1)).toMatchObject({ event: 'summary', command: 'cancel', state: 'cancelled' })
    expect(cancelled.events.at(-1)?.['units_parked']).toBeGreaterThan(0)
    const submitted = sandbox.books().submissions.length
    const ended = await running.result
    expect(Date.now() - started).toBeLessThan(8_000)
    expect(ended.code).toBe(1)
    expect(sandbox.books().submissions).toHaveLength(submitted)
    // What was only planned is forgotten, what was bought is kept for whoever comes next.
    expect(await db.query('select 1 from etl.jobs where report_id is not null')).toHaveLength(submitted)
    expect(await db.query('select 1 from etl.jobs where report_state is null')).toEqual([])
    await succeeded(millrace('cancel', String(run?.run_id)))
    expect((await millrace('cancel', '4711')).code).toBe(2)
  })
})

test('cancel needs neither the migration of a new dataset nor definitions that are right', async () => {
  await millrace('migrate')
  await succeeded(millrace('backfill', ...twoUnits))
  const shipped = readFileSync(join(folder, 'pipelines', 'traffic_and_engagement.yaml'), 'utf8')
  writeFileSync(join(folder, 'pipelines', 'visits.yaml'), shipped.replace(/pipeline: .*/, 'pipeline: visits'))
  await succeeded(millrace('new', 'migration', 'visits'))
  expect((await millrace('run')).stderr).toContain('SCHEMA_BEHIND')
  const cancelled = () => millrace('cancel', '1', '--json')
  expect((await cancelled()).events.at(-1)).toMatchObject({ event: 'summary', run_id: 1, state: 'done' })
  writeFileSync(join(folder, 'pipelines', 'visits.yaml'), 'pipeline: [')
  expect((await cancelled()).code).toBe(0)
})

describe('what a person decides', () => {
  const oneMonth = ['traffic_and_engagement', '--from', '2026-09', '--to', '2026-09']

  test('a submission whose reply was lost is listed; the id found at the service is adopted, and nothing is bought again', async () => {
    await millrace('migrate')
    sandbox.configure({ faults: [{ kind: 'drop-reply', on: 'submit', times: 1 }] })
    const first = await millrace('backfill', ...oneMonth, '--json')
    expect(first.code, first.stderr).toBe(1)
    const listed = await millrace('reports', 'list', '--json')
    const uncertain = listed.events.find(({ kind }) => kind === 'uncertain')
    expect(uncertain, listed.stdout).toMatchObject({ event: 'report', state: 'uncertain', report_id: null })
    const known = new Set((await db.query<{ report_id: string }>('select report_id from etl.jobs')).map((row) => row.report_id))
    const lost = sandbox.books().submissions.find(({ id }) => !known.has(id))
    const job = String(uncertain?.['job_id'])
    expect((await millrace('reports', 'adopt', job)).code).toBe(2)
    await succeeded(millrace('reports', 'adopt', job, String(lost?.id), '--json'))
    const submitted = sandbox.books().submissions.length
    await succeeded(millrace('backfill', ...oneMonth, '--json'))
    expect(sandbox.books().submissions).toHaveLength(submitted)
    expect((await millrace('reports', 'list', '--json')).events).toMatchObject([{ event: 'summary', listed: 0 }])
  })

  test('a submission that is given up is bought again by the next run that wants its units, and by nothing before', async () => {
    await millrace('migrate')
    sandbox.configure({ faults: [{ kind: 'drop-reply', on: 'submit', times: 1 }] })
    await millrace('backfill', ...oneMonth)
    const again = await millrace('backfill', ...oneMonth, '--json')
    expect([again.code, summaryOf(again).reports_submitted]).toEqual([1, 0])
    const listed = await millrace('reports', 'list', '--json')
    const job = String(listed.events.find(({ kind }) => kind === 'uncertain')?.['job_id'])
    await succeeded(millrace('reports', 'give-up', job))
    expect((await millrace('reports', 'give-up', job)).code).toBe(2)
    const resumed = await millrace('backfill', ...oneMonth, '--json')
    expect([resumed.code, summaryOf(resumed).reports_submitted], resumed.stderr).toEqual([0, 1])
  })

  test('a submission that is given up and found after all is loaded by the next run, which buys nothing beside it', async () => {
    await millrace('migrate')
    sandbox.configure({ faults: [{ kind: 'drop-reply', on: 'submit', times: 1 }] })
    await millrace('backfill', ...oneMonth)
    const rows = await db.query<{ job_id: string; report_id: string | null }>('select job_id, report_id from etl.jobs')
    const job = String(rows.find(({ report_id }) => report_id === null)?.job_id)
    const lost = sandbox.books().submissions.find(({ id }) => !rows.some((row) => row.report_id === id))
    await succeeded(millrace('reports', 'give-up', job))
    const adopted = await succeeded(millrace('reports', 'adopt', job, String(lost?.id)))
    // No run takes it up where the pipeline has no file any more.
    expect(adopted.stdout).toContain('The next run that has the definition of traffic_and_engagement version 1')
    const resumed = await millrace('backfill', ...oneMonth, '--json')
    expect([resumed.code, summaryOf(resumed).reports_submitted], resumed.stderr).toEqual([0, 0])
    expect((await millrace('reports', 'list', '--json')).events).toMatchObject([{ event: 'summary', listed: 0 }])
  })

  test('a report that may still come is given up by who is sure alone', async () => {
    await millrace('migrate')
    sandbox.configure({ faults: [{ kind: 'drop-reply', on: 'submit', times: 1 }] })
    await millrace('backfill', ...oneMonth)
    const rows = await db.query<{ job_id: string }>(
      `update etl.jobs set report_state = 'submitted', report_id = 'awaited' where report_state = 'uncertain' returning job_id`,
    )
    const job = String(rows[0]?.job_id)
    const refused = await millrace('reports', 'give-up', job)
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('--sure')])
    await succeeded(millrace('reports', 'give-up', job, '--sure'))
    const listed = await millrace('reports', 'list')
    expect(listed.stdout).toContain('given up')
    expect(listed.stdout).not.toContain('Next:')
  })

  test('a month that shrank is held and released: its answer loads as it is, without a call', async () => {
    await millrace('migrate')
    const only = ['--only', 'domain=example.com;country=us', '--json']
    const months = ['keywords', '--from', '2026-09', '--to', '2026-09', ...only]
    await succeeded(millrace('backfill', ...months))
    sandbox.configure({ keywordsPerDomain: 5 })
    const shrunk = await millrace('backfill', ...months, '--force')
    expect([shrunk.code, summaryOf(shrunk).units.held], shrunk.stderr).toEqual([1, 1])
    const [held] = await db.query<{ unit_id: string; error_code: string }>(
      `select unit_id, error_code from etl.unit_list where state = 'held'`,
    )
    expect(held?.error_code).toBe('SHRUNK')
    const unit = String(held?.unit_id)
    expect((await millrace('status')).stdout).toContain(`held #${unit}`)
    const requests = sandbox.books().requests
    const released = await succeeded(
      runWarm(['release', unit, '--json'], { ...environment(), WEB_ANALYTICS_API_KEY: '' }, folder),
    )
    expect(released.events.at(-1)).toMatchObject({
      ...{ command: 'release', released: [Number(unit)], not_held: [], requests: 0 },
      ...{ units: { planned: 1, loaded: 1 }, rows: { read: 5 } },
    })
    expect(sandbox.books().requests).toEqual(requests)
    expect(await db.query('select 1 from data.keywords_v1')).toHaveLength(5)
    expect((await millrace('release', unit)).code).toBe(1)
    expect(summaryOf(await millrace('backfill', ...months))).toMatchObject({ units: { unchanged: 1, held: 0 }, requests: 0 })
  })

  test('a report that has expired is asked for again by release itself: held still, or loaded at once; all its units count as released', async () => {
    await millrace('migrate')
    sandbox.configure({ faults: [{ kind: 'unknown-status-word', word: 'expired' }] })
    expect((await millrace('backfill', ...twoUnits)).code).toBe(1)
    const held = await db.database.pool.query<{ unit_id: string }>(
      `select unit_id from etl.unit_list where state = 'held' and error_code = 'REPORT_EXPIRED' order by unit_id`,
    )
    const units = held.rows.map(({ unit_id }) => unit_id)
    expect(units).toHaveLength(2)
    const still = await millrace('release', ...units, '--json')
    expect([still.code, summaryOf(still).units]).toMatchObject([1, { planned: 2, loaded: 0, held: 2 }])
    expect(still.events.filter(({ event }) => event === 'released')).toEqual(
      units.map((unit) => expect.objectContaining({ unit_id: Number(unit), state: 'held', code: 'REPORT_EXPIRED' })),
    )
    sandbox.configure({ faults: [] })
    const noKey = await runWarm(['release', ...units], { ...environment(), WEB_ANALYTICS_API_KEY: '' }, folder)
    expect([noKey.code, noKey.stderr]).toEqual([2, expect.stringContaining('WEB_ANALYTICS_API_KEY')])
    const released = await millrace('release', ...units)
    expect([released.code, released.stdout], released.stderr).toEqual([0, expect.stringMatching(/released; .* is loaded/)])
    expect(sandbox.books().submissions).toHaveLength(1)
  })

  test('a release that is stopped resumes when it is run again, and what needs approval is left to approve', async () => {
    await millrace('migrate')
    sandbox.configure({ faults: [{ kind: 'unknown-status-word', word: 'expired' }] })
    expect((await millrace('backfill', ...twoUnits)).code).toBe(1)
    const rows = await db.query<{ unit_id: string }>(`select unit_id from etl.unit_list where state = 'held'`)
    const unit = String(rows[0]?.unit_id)
    sandbox.configure({ faults: [{ kind: 'report-retry' }] })
    const running = startCommand(['release', unit, '--json'], environment(), folder)
    const polls = () => db.query<{ polls: number }>('select max(polls) as polls from etl.jobs')
    const before = (await polls())[0]?.polls ?? 0
    await until('it comes to that', async () => ((await polls())[0]?.polls ?? 0) > before)
    running.child.kill('SIGINT')
    expect((await running.result).code).toBe(130)
    sandbox.configure({ faults: [] })
    const both = await Promise.all([millrace('release', unit), millrace('release', unit)])
    expect(both.map(({ code }) => code).toSorted()[0], both.map(({ stderr }) => stderr).join('\n')).toBe(0)
    expect(await reportsBought()).toEqual({ bought: 1, cells: 2 })
    expect((await millrace('run', 'traffic_and_engagement')).code).toBe(1)
    const waiting = await db.database.pool.query<{ unit_id: string }>(
      `select unit_id from etl.unit_list where error_code = 'NEEDS_APPROVAL' limit 1`,
    )
    const refused = await millrace('release', String(waiting.rows[0]?.unit_id))
    expect([refused.code, refused.stdout]).toEqual([1, expect.stringContaining('millrace approve traffic_and_engagement')])
    expect((await reportsBought()) as object).toMatchObject({ bought: sandbox.books().submissions.length })
  })

  test('a replay of months parses what the units hold, and one of an older answer changes nothing; neither calls the service', async () => {
    await millrace('migrate')
    const only = ['--only', 'domain=example.com;country=us']
    const months = ['keywords', '--from', '2026-08', '--to', '2026-09', ...only, '--json']
    const first = summaryOf(await millrace('backfill', ...months))
    expect((await millrace('replay', 'keywords', '--from', '2026-01', '--to', '2026-02')).code).toBe(1)
    const requests = sandbox.books().requests
    const replayed = await succeeded(millrace('replay', ...months))
    expect(summaryOf(replayed)).toMatchObject({
      units: { planned: 2, loaded: 2 },
      requests: 0,
      rows: { read: first.rows.read, unchanged: first.rows.read, inserted: 0, updated: 0, ended: 0 },
    })
    sandbox.restate('2026-09')
    await millrace('backfill', ...months, '--force')
    const [old] = await db.query<{ answer_id: string }>('select min(answer_id) as answer_id from etl.answers')
    const before = sandbox.books().requests
    const older = await succeeded(millrace('replay', '--answer', String(old?.answer_id), '--json'))
    expect(summaryOf(older)).toMatchObject({ requests: 0, rows: { inserted: 0, updated: 0, ended: 0 } })
    expect(sandbox.books().requests).toEqual(before)
    expect(requests).toBeDefined()
    expect((await millrace('replay', '--answer', '999999')).code).toBe(2)
    expect((await millrace('replay')).code).toBe(2)
  })

  test('a restated month of pages costs the announced looks and one page a unit, where a look costs as much as the page', async () => {
    await millrace('migrate')
    await succeeded(millrace('backfill', 'keywords', '--from', '2026-09', '--to', '2026-10', '--json'))
    sandbox.restate('2026-09')
    const planned = await millrace('plan', 'keywords')
    const [, looks = '', units = '', credits = ''] =
      /look-back .* (\d+) +- +\d+ +\d+\n[\s\S]*finds changes, up to (\d+) units more, about (\d+) credits/.exec(planned.stdout) ??
      []
    const [{ n: restated } = { n: 0 }] = await db.query<{ n: number }>(
      `select count(*)::int as n from etl.units where window_from = '2026-09-01'`,
    )
    expect([Number(units), Number(credits)], planned.stdout).toEqual([2 * restated, 2 * restated])
    const before = sandbox.books().quotaUsed
    const ran = summaryOf(await millrace('run', 'keywords', '--only', 'country=us,gb', '--json'))
    expect(ran.units.loaded).toBeGreaterThanOrEqual(restated)
    expect(sandbox.books().quotaUsed - before).toBe(Number(looks) + restated)
  })

  test('a month replayed from the page of a worker is a run like that of the command: all rows read, nothing asked or written', async () => {
    await millrace('migrate')
    const only = ['--only', 'domain=example.com;country=us']
    const first = summaryOf(await millrace('backfill', 'keywords', '--from', '2026-08', '--to', '2026-09', ...only, '--json'))
    const requests = sandbox.books().requests
    const worker = startCommand(['worker', '--json'], { ...environment(), MILLRACE_WEB_PORT: '0' }, folder)
    const address = (): string | undefined => /"event":"status_page","url":"([^"]+)"/.exec(worker.printed())?.[1]
    await until('it comes to that', () => address() !== undefined)
    const url = String(address())
    expect(await (await fetch(`${url}/units/1`)).text()).toContain('href="/units/1/replay"')
    const headers = { origin: url, 'content-type': 'application/x-www-form-urlencoded' }
    expect((await fetch(`${url}/units/1/replay`, { method: 'POST', headers })).status).toBe(200)
    const replays = `select state, (summary->'rows'->>'read')::int as read, (summary->'rows'->>'unchanged')::int as unchanged
      from etl.runs where command = 'replay' and finished_at is not null`
    const ended = () => db.query<Record<'read' | 'unchanged', number>>(replays)
    await until('it comes to that', async () => (await ended()).length > 0)
    worker.child.kill('SIGTERM')
    expect((await worker.result).code).toBe(130)
    const [run] = await ended()
    expect(run).toMatchObject({ state: 'done', unchanged: run?.read })
    // One of the two months.
    expect(run?.read).toBeGreaterThan(0)
    expect(run?.read).toBeLessThan(first.rows.read)
    expect(sandbox.books().requests).toEqual(requests)
  })

  test('a replay by a definition that cannot read the answer fails, calls the service for nothing, and keeps the answer', async () => {
    sandbox.configure({ faults: [{ kind: 'bad-number', on: 'submit', times: 1 }] })
    await millrace('migrate')
    expect((await millrace('backfill', ...twoUnits)).code).toBe(1)
    const requests = sandbox.books().requests
    edit('traffic_and_engagement', ['date: { type: date,', 'date: { type: date, from: day,'])
    const refused = await millrace('replay', ...twoUnits)
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("expected 'day'")])
    expect(sandbox.books().requests).toEqual(requests)
    edit('traffic_and_engagement', ['from: day,', 'from: date,'], ['rejects: 0.1%', 'rejects: 50%'])
    await millrace('replay', ...twoUnits)
    expect(await db.query('select count(*)::int as n from bi.traffic_and_engagement')).toEqual([{ n: 1 }])
    expect(sandbox.books().requests).toEqual(requests)
  })

  test('an answer whose landing is gone is left out of a replay, and said', async () => {
    await millrace('migrate')
    const months = ['keywords', '--from', '2026-08', '--to', '2026-09', '--only', 'domain=example.com;country=us', '--json']
    await millrace('backfill', ...months)
    const [one] = await db.query<{ landing: string }>('select landing from etl.answers limit 1')
    rmSync(join(folder, 'home', 'landing', String(one?.landing)), { recursive: true })
    const replayed = await millrace('replay', ...months)
    expect(replayed.code).toBe(1)
    expect(summaryOf(replayed).units).toMatchObject({ planned: 1, loaded: 1, failed: 0 })
    expect(replayed.events).toContainEqual(expect.objectContaining({ event: 'notice', code: 'LANDING_MISSING' }))
    rmSync(join(folder, 'home', 'landing', 'keywords_v1'), { recursive: true })
    const without = await millrace('replay', ...months.slice(0, -1))
    expect(without.code).toBe(1)
    expect(without.stdout).toMatch(/^Run \d+ ended with 2 answers gone in .*: nothing was loaded\.$/m)
    expect(without.stderr).toContain('Skipped: 2 answers that are no longer in ')
  })

  test('of a landing whose manifest is damaged, or cannot be read, the units fail, and the others are replayed', async () => {
    await millrace('migrate')
    const months = ['keywords', '--from', '2026-07', '--to', '2026-09', '--only', 'domain=example.com;country=us', '--json']
    await millrace('backfill', ...months)
    const rows = await db.query<{ landing: string }>('select landing from etl.answers order by answer_id limit 2')
    const [damaged = '', unread = ''] = rows.map(({ landing }) => join(folder, 'home', 'landing', landing, 'manifest.json'))
    writeFileSync(damaged, '{')
    rmSync(unread)
    mkdirSync(unread)
    const replayed = await millrace('replay', ...months)
    expect(replayed.code).toBe(1)
    expect(replayed.stderr).toContain('LANDING_CORRUPT')
    expect(summaryOf(replayed).units).toMatchObject({ planned: 3, loaded: 1, failed: 2 })
  })
})

describe('a disk that is full', () => {
  const canMount = process.getuid?.() === 0 && process.platform === 'linux'
  test.runIf(canMount)('fails the unit with the remedy and leaves the warehouse as it was', async () => {
    await millrace('migrate')
    const landing = join(folder, 'home', 'landing')
    mkdirSync(landing, { recursive: true })
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', landing])
    // A container without the right to mount cannot show this.
    if (mounted.status !== 0) return
    try {
      sandbox.configure({ keywordsPerDomain: 20_000 })
      const result = await millrace(
        'backfill',
        'keywords',
        '--from',
        '2026-09',
        '--to',
        '2026-09',
        '--only',
        'domain=example.com;country=us',
        '--json',
      )
      expect(result.code).toBe(1)
      expect(result.stderr).toMatch(/ENOSPC.*free space.*\[DISK\]/s)
      expect(await db.query('select 1 from data.keywords_v1')).toEqual([])
    } finally {
      execFileSync('umount', [landing])
    }
  })
})
