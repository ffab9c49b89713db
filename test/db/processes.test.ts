// Processes, their leases, and what becomes of their jobs and runs when they die, or only seem to.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { startMark, bootMark } from '../../src/db/process-mark.ts'
import type { Db } from '../../src/db/tables.ts'
import { finishJob, lostJobs } from '../../src/ledger/claim-fence.ts'
import { isLeaseOver } from '../../src/ledger/lease-over.ts'
import { endProcess, type OwnProcess, reapDead, registerProcess, renewLease } from '../../src/ledger/processes.ts'
import { runState, startRun } from '../../src/ledger/runs.ts'
import { keepLease } from '../../src/run/lease.ts'
import { newJob, newPipeline, newProcess, newRun, type PipelineKit, type ProcessKit, takeOne } from '../support/ledger.ts'
import { jobRow } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let pipeline: PipelineKit
let own: OwnProcess
const k = (): Db => db.database.kysely

beforeEach(async () => {
  pipeline = await newPipeline(db)
  own = await registerProcess(k())
})

/** A process with a run and a job of it at hand. */
const atWork = async (process: ProcessKit) => {
  const runId = await newRun(db, process.processId)
  const jobId = await newJob(db, pipeline, { runs: [runId] })
  return { process, runId, claim: await takeOne(db, process, runId, pipeline, jobId) }
}

const isAlive = async ({ processId }: ProcessKit): Promise<boolean> => {
  const { rows } = await sql<{ alive: boolean }>`
    select ended_at is null as alive from etl.processes where process_id = ${processId}`.execute(k())
  return rows[0]?.alive === true
}

/** The server may have begun a moment ago: then leases get a grace. */
const reapLapsed = async (what: ProcessKit): Promise<void> => {
  for (let look = 0; look < 50; look += 1) {
    await reapDead(k(), own)
    if (!(await isAlive(what))) return
    await sleep(200)
  }
  throw new Error('still thought to live')
}

const here = (pid: number, begun: string) => ({ host: hostname(), boot: bootMark(), pid, begun })
const deadPid = (): number => spawnSync('true').pid

describe('a process', () => {
  test('has a row, with what tells it from every other one', async () => {
    const twin = await registerProcess(k())
    expect(twin.name).not.toBe(own.name)
    const { rows } = await sql<Record<string, unknown>>`
      select host, boot, system_process_id, begun, lease_until > clock_timestamp() + interval '15 seconds' as leased
      from etl.processes where process_id = ${own.processId}`.execute(k())
    expect(rows).toEqual([
      { host: hostname(), boot: bootMark(), system_process_id: process.pid, begun: startMark(process.pid), leased: true },
    ])
    expect(bootMark()).not.toBe('')
  })

  test('that ends frees its jobs and closes its runs at once', async () => {
    const { runId, claim } = await atWork(own)
    await endProcess(k(), own)
    expect(await jobRow(db, claim.jobId)).toMatchObject({ holder: null, state: 'open' })
    expect(await runState(k(), runId)).toBe('interrupted')
  })

  test('is left alone while its lease lasts, or while it can be seen to live', async () => {
    const elsewhere = await atWork(await newProcess(db))
    const twin = await atWork(await registerProcess(k()))
    await reapDead(k(), own)
    expect(await isAlive(elsewhere.process)).toBe(true)
    expect(await isAlive(twin.process)).toBe(true)
    expect(await jobRow(db, twin.claim.jobId)).toMatchObject({ holder: twin.process.processId })
  })
})

describe('a process is dead', () => {
  test('when its lease is over: its jobs are free at once, its run is closed', async () => {
    const { process, runId, claim } = await atWork(await newProcess(db, { leaseMs: -60_000 }))
    await reapLapsed(process)
    expect(await jobRow(db, claim.jobId)).toMatchObject({ holder: null, fence: claim.fence })
    expect(await runState(k(), runId)).toBe('interrupted')
    const next = await newRun(db, own.processId)
    await sql`insert into etl.run_jobs (run_id, job_id, priority, units) values (${next}, ${claim.jobId}, 1, 1)`.execute(k())
    expect(await takeOne(db, own, next, pipeline, claim.jobId)).toMatchObject({ fence: String(Number(claim.fence) + 1) })
  })

  test('not by a lease that is over for a moment: the clock jumps, or the database was away, and it renews', async () => {
    const silent = await newProcess(db, { leaseMs: -60_000 })
    const living = await registerProcess(k())
    await sql`update etl.processes set lease_until = clock_timestamp() - interval '1 day' where process_id = ${living.processId}`.execute(
      k(),
    )
    const over = async () =>
      (
        await sql<{
          over: boolean
        }>`select ${isLeaseOver} as over from etl.processes h where process_id = ${silent.processId}`.execute(k())
      ).rows[0]?.over
    await expect.poll(over, { timeout: 20_000 }).toBe(true)
    // However often at once: what counts is the time that it had.
    for (let look = 0; look < 10; look += 1) await reapDead(k(), own)
    expect([await isAlive(silent), await isAlive(living)]).toEqual([true, true])
    await renewLease(k(), living)
    await reapLapsed(silent)
    expect(await isAlive(living)).toBe(true)
  })

  test('when it is one of this machine that has ended, however long its lease', async () => {
    const { process, runId, claim } = await atWork(await newProcess(db, here(deadPid(), '1')))
    await reapDead(k(), own)
    expect(await isAlive(process)).toBe(false)
    expect(await jobRow(db, claim.jobId)).toMatchObject({ holder: null })
    expect(await runState(k(), runId)).toBe('interrupted')
  })

  test('when its number has gone to a later one: a container that came back with the same name and number', async () => {
    const process_ = await newProcess(db, here(process.pid, '1'))
    await reapDead(k(), own)
    expect(await isAlive(process_)).toBe(false)
  })

  test('when it has ended and its parent has not been told', async () => {
    // It ends once its parent is `sleep`, which never asks; a shell that still is one may have noticed.
    const child = 'until read -r name < /proc/$$/comm && [ "$name" = sleep ]; do :; done'
    const shell = spawn('sh', ['-c', `(${child}) & echo $!; exec sleep 30`], { stdio: ['ignore', 'pipe', 'ignore'] })
    const [said] = (await once(shell.stdout, 'data')) as [Buffer]
    const pid = Number(said.toString().trim())
    await expect.poll(() => startMark(pid), { timeout: 20_000 }).toBeNull()
    const process_ = await newProcess(db, here(pid, '1'))
    await reapDead(k(), own)
    expect(await isAlive(process_)).toBe(false)
    shell.kill('SIGKILL')
  })

  test.each([
    ['host', { host: 'elsewhere' }],
    ['boot or container', { boot: 'another' }],
  ])('never because of a number, where the %s is another', async (_, other) => {
    const process_ = await newProcess(db, { ...here(deadPid(), '1'), ...other })
    await reapDead(k(), own)
    expect(await isAlive(process_)).toBe(true)
  })

  test('for whoever notices: several at once change nothing twice, and the next run that starts notices too', async () => {
    const dead = await atWork(await newProcess(db, here(deadPid(), '1')))
    const others = await Promise.all([registerProcess(k()), registerProcess(k()), registerProcess(k())])
    await Promise.all(others.map((other) => reapDead(k(), other)))
    expect(await runState(k(), dead.runId)).toBe('interrupted')
    const again = await atWork(await newProcess(db, here(deadPid(), '1')))
    await startRun(k(), own, { command: 'run', arguments: {} })
    expect(await runState(k(), again.runId)).toBe('interrupted')
  })

  test('and a job whose row its own transaction still locks is freed once that is over', async () => {
    const { process, claim } = await atWork(await newProcess(db, here(deadPid(), '1')))
    await k()
      .transaction()
      .execute(async (trx) => {
        await sql`select from etl.jobs where job_id = ${claim.jobId} for update`.execute(trx)
        await reapDead(k(), own)
        expect(await isAlive(process)).toBe(false)
      })
    expect(await jobRow(db, claim.jobId)).toMatchObject({ holder: process.processId })
    await reapDead(k(), own)
    expect(await jobRow(db, claim.jobId)).toMatchObject({ holder: null })
  })
})

describe('a process that was thought dead and is back', () => {
  test('has its run again, and its jobs where nobody took them', async () => {
    const { process, runId, claim } = await atWork(await newProcess(db, { leaseMs: -60_000 }))
    const taken = await atWork(process)
    await reapLapsed(process)
    const two = await newProcess(db)
    const other = await newRun(db, two.processId)
    await sql`insert into etl.run_jobs (run_id, job_id, priority, units) values (${other}, ${taken.claim.jobId}, 1, 1)`.execute(
      k(),
    )
    await takeOne(db, two, other, pipeline, taken.claim.jobId)
    await renewLease(k(), process)
    expect(await isAlive(process)).toBe(true)
    expect(await runState(k(), runId)).toBe('running')
    expect(await lostJobs(k(), [claim, taken.claim])).toEqual([taken.claim])
    expect(await jobRow(db, claim.jobId)).toMatchObject({ holder: process.processId })
    await finishJob(k(), claim, 'loaded')
    await expect(finishJob(k(), taken.claim, 'loaded')).rejects.toMatchObject({ code: 'FENCED' })
    await reapDead(k(), own)
    expect(await isAlive(process)).toBe(true)
  })

  test('has its run again also where it comes back while that is being closed', async () => {
    const { process, runId } = await atWork(await newProcess(db, { leaseMs: -60_000 }))
    await sql`update etl.processes set ended_at = clock_timestamp() where process_id = ${process.processId}`.execute(k())
    const waiting = async (count: number): Promise<void> => {
      for (;;) {
        const { rows } =
          await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(k())
        if (rows.length >= count) return
        await sleep(20)
      }
    }
    // Somebody's lock keeps the run from being closed until the process is about to renew its lease.
    const { reaped, renewed } = await db.database.kysely.transaction().execute(async (trx) => {
      await sql`select from etl.runs where run_id = ${runId} for update`.execute(trx)
      const reaping = { reaped: reapDead(k(), own) }
      await waiting(1)
      const both = { ...reaping, renewed: renewLease(k(), process) }
      await waiting(2)
      return both
    })
    await Promise.all([reaped, renewed])
    expect(await isAlive(process)).toBe(true)
    expect(await runState(k(), runId)).toBe('running')
  })

  test('does not get runs again that had ended by themselves', async () => {
    const process = await newProcess(db, { leaseMs: -60_000 })
    const runId = await newRun(db, process.processId)
    await sql`update etl.runs set state = 'interrupted', finished_at = clock_timestamp() where run_id = ${runId}`.execute(k())
    await reapLapsed(process)
    await renewLease(k(), process)
    expect(await runState(k(), runId)).toBe('interrupted')
  })
})

test('a renewal that comes between the look and the verdict saves the process', async () => {
  for (let time = 0; time < 20; time += 1) {
    const { process, claim } = await atWork(await newProcess(db, { leaseMs: -60_000 }))
    await Promise.all([reapDead(k(), own), renewLease(k(), process), reapDead(k(), own)])
    await renewLease(k(), process)
    expect(await isAlive(process)).toBe(true)
    expect(await lostJobs(k(), [claim])).toEqual([])
  }
})

describe('keeping the lease', () => {
  const leaseOf = async (): Promise<string | undefined> =>
    (
      await sql<{ until: string }>`select lease_until as until from etl.processes where process_id = ${own.processId}`.execute(
        k(),
      )
    ).rows[0]?.until

  test('renews it over a connection of its own while all others are taken, and frees what dead ones had', async () => {
    const dead = await atWork(await newProcess(db, here(deadPid(), '1')))
    const before = await leaseOf()
    const lease = await keepLease(db.database, own, silentLog)
    const busy = Promise.all(Array.from({ length: 10 }, () => sql`select pg_sleep(6)`.execute(k())))
    await sleep(5_500)
    await busy
    expect(Date.parse((await leaseOf()) ?? '')).toBeGreaterThan(Date.parse(before ?? '') + 3_000)
    expect(await jobRow(db, dead.claim.jobId)).toMatchObject({ holder: null })
    await lease.end()
    expect(await isAlive(own)).toBe(false)
  })

  test('tells that the ledger is another one now, restored from a backup, and leaves who has its number there alone', async () => {
    let lost = 0
    const lease = await keepLease(db.database, own, silentLog, { onLost: () => (lost += 1) })
    await sql`update etl.processes set name = 'other:1-0' where process_id = ${own.processId}`.execute(k())
    const before = await leaseOf()
    await sleep(8_500)
    expect(lost).toBe(1)
    expect(await leaseOf()).toBe(before)
    await lease.end()
    expect(await isAlive(own)).toBe(true)
  })

  test('tells that the ledger is an older one now, restored from a backup that knows the process', async () => {
    let lost = 0
    const before = own.seen.lease
    const lease = await keepLease(db.database, own, silentLog, { onLost: () => (lost += 1) })
    await vi.waitFor(() => expect(own.seen.lease).not.toBe(before), 15_000)
    await sql`update etl.processes set lease_until = lease_until - interval '9 seconds' where process_id = ${own.processId}`.execute(
      k(),
    )
    await vi.waitFor(() => expect(lost).toBe(1), 15_000)
    await lease.end()
  })

  test('is over at once for a command that ends before its first look', async () => {
    const started = performance.now()
    const lease = await keepLease(db.database, own, silentLog)
    await lease.end()
    expect(performance.now() - started).toBeLessThan(4_000)
    expect(await isAlive(own)).toBe(false)
  })
})
