// A process that is stopped (SIGSTOP) at the worst moments for longer than its lease, while another takes its jobs over: nothing is doubled, no id is lost.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { calmTruth } from '../storm/calm-truth.ts'
import { createStormWorld, type StormWorld, stormPipelines } from '../storm/storm-world.ts'
import { digestWarehouse, loadsTwice, type UnitDigest } from '../storm/warehouse-digest.ts'
import { type RunningCommand, runCommand, startCommand } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

let world: StormWorld
let truth: ReadonlyMap<string, UnitDigest>
let bought: number

/** Answers of more than 64 KB of rows: they go by COPY. */
const startLarge = (): Promise<Sandbox> =>
  startSandbox({
    seed: 7,
    keywordsPerDomain: 2_000,
    requestsPerSecond: null,
    reportDurationMs: 300,
    openReports: 10_000,
    now: '2026-03-20',
  })

beforeAll(async () => {
  world = createStormWorld(8)
  for (const pipeline of stormPipelines) {
    const file = join(world.folder, 'pipelines', `${pipeline}.yaml`)
    writeFileSync(
      file,
      readFileSync(file, 'utf8')
        .replace('page_size: 15', 'page_size: 1000')
        .replace('timeout: 1s', 'timeout: 90s')
        .replace('deadline: 8s', 'deadline: 10m'),
    )
  }
  ;({ truth, bought } = await calmTruth(world, startLarge))
})
afterAll(() => world.remove())

/** What stops a command at one moment, for certain: the service or the way to the database holds it there. */
interface Moment {
  /** The database's address for the process that is to be stopped. */
  readonly url: string
  readonly reached: Promise<void>
  /** Once it is stopped: what held it is passed on. */
  readonly goOn: () => void
  readonly close: () => Promise<void>
}

const onTheWay = async (db: TestDatabase, hold: 'holdAfterCommit' | 'holdAfterStatement', what: RegExp): Promise<Moment> => {
  const proxy = await startTcpProxy(db.url)
  return {
    url: proxy.url,
    reached: proxy[hold]((statements) => what.test(statements)),
    goOn: () => proxy.release(),
    close: () => proxy.close(),
  }
}

const moments: Readonly<Record<string, (db: TestDatabase, sandbox: Sandbox) => Promise<Moment>>> = {
  // The service takes the submission and answers while nobody listens.
  'at a submission': async (db, sandbox) => {
    sandbox.configure({ faults: [{ kind: 'slow', on: 'submit', delayMs: 3_000, times: 1 }] })
    const isAsked = (): boolean => sandbox.books().requests.some(({ fault }) => fault === 'slow')
    const reached = (async () => {
      while (!isAsked()) await wait(10)
    })()
    return { url: db.url, reached, goOn: () => undefined, close: async () => undefined }
  },
  'in a COPY': (db) => onTheWay(db, 'holdAfterStatement', /copy \S+ \(.*\) from stdin/s),
  'in COMMIT': (db) => onTheWay(db, 'holdAfterCommit', /etl"?\."?loads/),
}

/** Longer than its lease, by the database's clock, and until its successor has thought it dead or has nothing left to do. */
const untilDead = async ({ database }: TestDatabase, pid: number | undefined, successor: RunningCommand): Promise<void> => {
  let isOver = false
  void successor.result.then(() => {
    isOver = true
  })
  const isDead = async (): Promise<boolean> => {
    const { rows } = await database.pool.query<{ buried: boolean }>(
      `select ended_at is not null as buried from etl.processes where system_process_id = $1 and lease_until < clock_timestamp()`,
      [pid],
    )
    return rows.some(({ buried }) => buried || isOver)
  }
  while (!(await isDead())) await wait(200)
}

/** What must not be. */
const stopAt = async (name: string): Promise<readonly string[]> => {
  const db = await createTestDatabase()
  const sandbox = await startLarge()
  const moment = await moments[name]?.(db, sandbox)
  if (moment === undefined) throw new Error(name)
  const environment = world.environment(sandbox, db.url, name.replaceAll(' ', '-'))
  const sleeper = startCommand(world.command, { ...environment, DATABASE_URL: moment.url }, world.folder)
  await moment.reached
  sleeper.child.kill('SIGSTOP')
  moment.goOn()
  const successor = startCommand(world.command, environment, world.folder)
  await untilDead(db, sleeper.child.pid, successor)
  sleeper.child.kill('SIGCONT')
  const ends = await Promise.all([sleeper.result, successor.result])
  await moment.close()
  const again = await runCommand(world.command, environment, world.folder)
  // Stopped between its note and its submission nobody but the sleeper knew that nothing had left: with consent it is sent. One that had left would be bought twice.
  const last = again.code === 0 ? again : await runCommand([...world.command, '--resubmit-uncertain'], environment, world.folder)
  const wrong: string[] = []
  for (const { code, stderr } of ends)
    if (code !== 0 && code !== 1) wrong.push(`${name}: a command ended with ${code}: ${stderr.slice(-500)}`)
  if (last.code !== 0)
    wrong.push(`${name}: the last command ended with ${last.code}: ${last.stderr.slice(-800)}${last.stdout.slice(-1_600)}`)
  const found = await digestWarehouse(db.database.pool)
  for (const [key, digest] of truth)
    if (JSON.stringify(found.get(key)) !== JSON.stringify(digest)) wrong.push(`${name}: ${key} differs`)
  if ((await loadsTwice(db.database.pool)).length > 0) wrong.push(`${name}: a unit took an answer twice`)
  const submissions = sandbox.books().submissions.map(({ id }) => id)
  if (submissions.length !== bought) wrong.push(`${name}: ${submissions.length} reports bought, ${bought} needed`)
  const rows = await db.query<{ id: string }>('select report_id as id from etl.jobs where report_id is not null')
  const held = await db.database.pool.query<{ why: string }>(
    `select concat_ws(' ', job_id, state, report_state, error_code, error_message) as why from etl.jobs where state not in ('done', 'replaced')`,
  )
  wrong.push(...held.rows.map(({ why }) => `${name}: not done: ${why}`))
  for (const id of submissions) if (!rows.some((row) => row.id === id)) wrong.push(`${name}: the ledger lost the id ${id}`)
  await sandbox.close()
  await db.drop()
  return wrong
}

test.concurrent.each(Object.keys(moments))(
  'stopped %s for longer than the lease: nothing is doubled and no id is lost',
  async (name) => {
    expect(await stopAt(name)).toEqual([])
  },
  300_000,
)
