// `export --by month` killed in the middle by a real kill -9, beside a load that changes months meanwhile, and beside a second export: every month is
// old or new as a whole, and the next export writes what differs, no more and no less. Two exports into one file each write a whole one.
import { readFileSync, readdirSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { parquetReadObjects } from 'hyparquet'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type CommandResult, type RunningCommand, startCommand } from '../support/command.ts'
import { testDatabase } from '../support/postgres.ts'
import { type S3Server, startS3Server } from '../support/s3-server.ts'
import { testFolder } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const [january, february, march] = ['2026-01', '2026-02', '2026-03'] as const
const months = [january, february, march]

let server: S3Server

const folder = testFolder({ each: true })
const db = testDatabase({ each: true })
beforeEach(async () => {
  server = await startS3Server()
  await db.query(`create table data.facts (month date, clicks bigint)`)
  await db.query(`insert into data.facts select ('2026-0' || 1 + n % 3 || '-01')::date, n from generate_series(1, 300) n`)
  // An export that fetches rows of February waits there as long as a test holds the gate.
  await db.query(`create function data.is_open(month date) returns boolean language plpgsql volatile as $$ begin
    if month = '2026-02-01' and current_query() ~ '^(fetch|copy)' then perform pg_advisory_xact_lock_shared(19); end if; return true; end $$`)
  await db.query(`create view bi.facts as select * from data.facts where data.is_open(month)`)
})
afterEach(async () => {
  await server.close()
})

const args = (out: string): string[] => ['export', 'facts', '--by', 'month', '--since', 'last', '--out', out, '--json']
const environment = (): Record<string, string> => ({
  ...server.environment('unused'),
  DATABASE_URL: db.url,
  MILLRACE_HOME: join(folder, 'home'),
})
const write = (out = 'lake'): Promise<CommandResult> => runWarm(args(out), environment(), folder)
const written = async (out?: string): Promise<unknown> => (await write(out)).events.at(-1)?.['written']

/** Sum of each month in the files, however they are kept; a file that is not whole cannot be read. */
const sumsOf = async (read: (name: string) => Buffer): Promise<Record<string, number>> => {
  const sums: Record<string, number> = {}
  for (const month of months) {
    const bytes = read(`export_month=${month}/data.parquet`)
    const file = Uint8Array.from(bytes).buffer
    const rows = await parquetReadObjects({ file, columns: ['clicks'] })
    sums[month] = rows.reduce((sum, { clicks }) => sum + Number(clicks), 0)
  }
  return sums
}
const inFolder = () => sumsOf((name) => readFileSync(join(folder, 'lake', name)))
const inBucket = () => sumsOf((name) => server.objects.get(`lake/${name}`)?.body ?? Buffer.alloc(0))
const inDatabase = async (): Promise<Record<string, number>> => {
  const rows = await db.query<{ month: string; sum: string }>(
    `select to_char(month, 'YYYY-MM') as month, sum(clicks) from data.facts group by 1`,
  )
  return Object.fromEntries(rows.map(({ month, sum }) => [month, Number(sum)]))
}
const add = (clicks: number, ...of: string[]): Promise<unknown> =>
  db.query(`update data.facts set clicks = clicks + ${clicks} where to_char(month, 'YYYY-MM') in ('${of.join("', '")}')`)

const here = 'database = (select oid from pg_database where datname = current_database())'
const patience = { timeout: 60_000, interval: 50 }

/** The server ends the transaction of a killed export when its answer finds nobody. */
const nobodyWorks = (): Promise<void> =>
  expect
    .poll(
      () =>
        db.query(`select query from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
          and backend_type = 'client backend' and xact_start is not null`),
      patience,
    )
    .toEqual([])

/** Runs `work` while an export that it is given stands before the rows of February; it goes on once the gate is opened. */
const atTheGate = async (
  work: (running: RunningCommand, open: () => Promise<unknown>) => Promise<void>,
  asked: readonly string[] = args('lake'),
): Promise<void> => {
  const gate = await db.database.pool.connect()
  try {
    await gate.query('select pg_advisory_lock(19)')
    const running = startCommand(asked, environment(), folder)
    const waits = `select 1 from pg_locks where locktype = 'advisory' and not granted and ${here}`
    await expect.poll(() => db.query(waits), patience).toHaveLength(1)
    await work(running, () => gate.query('select pg_advisory_unlock(19)'))
  } finally {
    await gate.query('select pg_advisory_unlock_all()')
    gate.release()
    await nobodyWorks()
  }
}

describe('an export by month', () => {
  test('that is killed leaves each month whole, and the next one writes what the killed one began, also when the rows are again as the list has them', async () => {
    expect(await written()).toEqual(months)
    const before = await inFolder()
    await add(1, ...months)
    await atTheGate(async ({ child, result }) => {
      child.kill('SIGKILL')
      expect((await result).signal).toBe('SIGKILL')
    })
    expect(await inFolder()).toEqual({ ...before, [january]: (before[january] ?? 0) + 100 })
    await add(-1, january)
    expect(await written()).toEqual(months)
    expect(await inFolder()).toEqual(await inDatabase())
    expect(await written()).toEqual([])
    const left = months.flatMap((month) => readdirSync(join(folder, 'lake', `export_month=${month}`)))
    expect(left).toEqual(months.map(() => 'data.parquet'))
  })

  test('into a bucket that is killed before an upload is answered leaves each month whole, and the next one completes', async () => {
    const out = `s3://${server.bucket}/lake`
    expect(await written(out)).toEqual(months)
    const before = await inBucket()
    await add(1, january, february)
    const seen = Promise.withResolvers<void>()
    server.fate = ({ method, key }) => {
      if (method === 'GET' || !key.includes(february)) return 'serve'
      seen.resolve()
      return 'hang'
    }
    const { child, result } = startCommand(args(out), environment(), folder)
    await seen.promise
    child.kill('SIGKILL')
    await result
    server.fate = () => 'serve'
    await nobodyWorks()
    expect(await inBucket()).toEqual({ ...before, [january]: (before[january] ?? 0) + 100 })
    await add(-1, january)
    expect(await written(out)).toEqual([january, february])
    expect(await inBucket()).toEqual(await inDatabase())
    expect(await written(out)).toEqual([])
  })

  test('shows one moment while months it has written, and has not, change beside it; the next one writes exactly those', async () => {
    await write()
    await add(1, ...months)
    const moment = await inDatabase()
    await atTheGate(async ({ result }, open) => {
      await add(10, january, march)
      await open()
      expect((await result).events.at(-1)).toMatchObject({ written: months })
    })
    expect(await inFolder()).toEqual(moment)
    expect(await written()).toEqual([january, march])
    expect(await inFolder()).toEqual(await inDatabase())
  })

  test('has its place to itself: a second one into it says so and writes nothing, one into another place goes on', async () => {
    await write()
    await add(1, january, february)
    await atTheGate(async ({ result }, open) => {
      await add(5, january)
      const second = await write()
      expect([second.code, second.stderr]).toEqual([2, expect.stringMatching(/Another export is writing to .*lake; .*again/)])
      const elsewhere = startCommand(args('elsewhere'), environment(), folder)
      await open()
      expect([(await result).code, (await elsewhere.result).code]).toEqual([0, 0])
    })
    expect(await written()).toEqual([january])
    expect(await inFolder()).toEqual(await inDatabase())
  })
})

describe('an export into one file', () => {
  const file = (...filter: string[]) => ['export', 'facts', '--out', 'facts.csv', ...filter, '--json']
  const monthsOf = (): string[] => {
    const [head, ...rows] = readFileSync(join(folder, 'facts.csv'), 'utf8').trimEnd().split('\n')
    expect([head, rows.length % 100]).toEqual(['month,clicks', 0])
    return [...new Set(rows.map((row) => row.slice(0, 7)))].sort()
  }

  test('beside another into the same file is whole, as the other is: the last one stays', async () => {
    await atTheGate(
      async ({ result }, open) => {
        const second = await runWarm(file('--from', march), environment(), folder)
        expect([second.code, monthsOf()], second.stderr).toEqual([0, [march]])
        await open()
        const first = await result
        expect([first.code, first.events.at(-1)], first.stderr).toMatchObject([0, { rows: 200 }])
      },
      file('--to', february),
    )
    expect(monthsOf()).toEqual([january, february])
    expect(readdirSync(folder).filter((name) => name.endsWith('partial'))).toEqual([])
  })

  test('that is killed leaves the file as it was, and what it began goes with an export a day later', async () => {
    await runWarm(file('--from', march), environment(), folder)
    await atTheGate(
      async ({ child, result }) => {
        child.kill('SIGKILL')
        await result
      },
      file('--to', february),
    )
    expect(monthsOf()).toEqual([march])
    const left = (): string[] => readdirSync(folder).filter((name) => name.endsWith('partial'))
    expect(left()).toEqual([expect.stringMatching(/^\./)])
    const yesterday = Date.now() / 1_000 - 25 * 3_600
    for (const name of left()) utimesSync(join(folder, name), yesterday, yesterday)
    await runWarm(file(), environment(), folder)
    expect([monthsOf(), left()]).toEqual([months, []])
  })
})
