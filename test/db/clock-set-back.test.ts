// What a database whose clock was two days ahead has written down, after it was set right: nothing waits for the difference, and purchases still count.
import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Db } from '../../src/db/tables.ts'
import { createAccountPace } from '../../src/ledger/account-pace.ts'
import { reapDead, registerProcess, renewLease, takeLease, claimInterval } from '../../src/ledger/processes.ts'
import { lastTickMs, newestRelease } from '../../src/ledger/data-releases.ts'
import { continuedSeries, recordHandOver, recordVersion } from '../../src/publish/versions.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { newJob, newPipeline, newProcess, newRun, type PipelineKit, type ProcessKit, takeOne } from '../support/ledger.ts'
import { jobRow } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let pipeline: PipelineKit
let dead: ProcessKit
const k = (): Db => db.database.kysely
const ahead = (seconds: number) => sql<string>`clock_timestamp() + interval '2 days' + ${seconds} * interval '1 second'`

beforeEach(async () => {
  for (const table of ['ticks', 'locks', 'deliveries', 'notifications', 'pace', 'releases'])
    await sql`delete from ${sql.table(`etl.${table}`)}`.execute(k())
  pipeline = await newPipeline(db)
  dead = await newProcess(db, { leaseMs: 2 * 86_400_000 + 20_000 })
})

/** What the next command does first. */
const begin = async () => {
  const own = await registerProcess(k())
  await reapDead(k(), own)
  return own
}

const secondsUntil = async (table: string, column: string): Promise<number[]> => {
  const { rows } = await sql<{ seconds: number }>`
    select extract(epoch from ${sql.ref(column)} - clock_timestamp())::float8 as seconds from ${sql.table(table)}
    where ${sql.ref(column)} is not null order by 1`.execute(k())
  return rows.map(({ seconds }) => seconds)
}

describe('of a clock that was two days ahead', () => {
  test('a report that waited for its next poll is polled when it would have been, and its deadline is as far', async () => {
    const runId = await newRun(db, dead.processId)
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    const times = { not_before: ahead(30), next_poll_at: ahead(30), deadline_at: ahead(3_600), updated_at: ahead(0) }
    await k()
      .updateTable('etl.jobs')
      .set({ ...times, kind: 'report', report_state: 'submitted', report_id: 'r1', asked_at: ahead(-60) })
      .where('job_id', '=', String(jobId))
      .execute()
    await begin()
    const { rows } = await sql<Record<'try' | 'poll' | 'deadline' | 'asked', number>>`
      select extract(epoch from not_before - clock_timestamp())::float8 as try, extract(epoch from next_poll_at - clock_timestamp())::float8 as poll,
        extract(epoch from deadline_at - clock_timestamp())::float8 as deadline, extract(epoch from asked_at - clock_timestamp())::float8 as asked
      from etl.jobs where job_id = ${jobId}`.execute(k())
    const [row] = rows
    for (const seconds of [row?.try, row?.poll]) expect(seconds).toBeGreaterThan(20)
    for (const seconds of [row?.try, row?.poll]) expect(seconds).toBeLessThan(31)
    expect(row?.deadline).toBeGreaterThan(3_500)
    expect(row?.deadline).toBeLessThan(3_601)
    // Counted among the purchases of the last 24 hours, for as long as it may have to be.
    expect(row?.asked).toBeGreaterThan(86_400)
  })

  test('a process of another machine that died is found dead when its lease would be over, and its job is free', async () => {
    const runId = await newRun(db, dead.processId)
    const claim = await takeOne(db, dead, runId, pipeline, await newJob(db, pipeline, { runs: [runId] }))
    await begin()
    const leases = await sql<{ seconds: number }>`select extract(epoch from lease_until - clock_timestamp())::float8 as seconds
      from etl.processes where process_id = ${dead.processId}`.execute(k())
    expect(leases.rows[0]?.seconds).toBeLessThan(21)
    await sql`update etl.processes set lease_until = clock_timestamp() - interval '1 minute' where process_id = ${dead.processId}`.execute(
      k(),
    )
    const own = await begin()
    for (let look = 0; look < 50 && (await jobRow(db, claim.jobId)).holder !== null; look += 1) {
      await reapDead(k(), own)
      await new Promise((done) => setTimeout(done, 200))
    }
    expect((await jobRow(db, claim.jobId)).holder).toBeNull()
  })

  test('nights to come are still to be taken, turns and leases are free, messages go out', async () => {
    for (const due of [ahead(0), ahead(-90_000), sql<string>`clock_timestamp() - interval '1 hour'`])
      await k().insertInto('etl.ticks').values({ pipeline: 'nightly', due_at: due, claimed_by: 'a', kind: 'on time' }).execute()
    for (const name of ['turn', 'lease'])
      await k()
        .insertInto('etl.locks')
        .values({ name, held_by: dead.processId, held_until: ahead(60) })
        .execute()
    await sql`with n as (insert into etl.notifications (cause, kind, severity, message) values ('c', 'overdue', 'error', 'm') returning notification_id)
      insert into etl.deliveries (notification_id, target, event, next_at) select notification_id, 'slack', 'raised', ${ahead(30)} from n`.execute(
      k(),
    )
    const own = await begin()
    expect(await lastTickMs(k(), 'nightly')).toBeLessThan(Date.now())
    expect([await claimInterval(k(), 'turn', own, 60), await takeLease(k(), 'lease', own, 60)]).toEqual([true, true])
    expect(Math.max(...(await secondsUntil('etl.deliveries', 'next_at')))).toBeLessThan(1)
  })

  test('releases heard by then were heard before now, each at a moment of its own, as soon as a process signs on', async () => {
    for (const [day, at] of [
      ['2026-09-30', ahead(-60)],
      ['2026-10-31', ahead(0)],
    ] as const)
      await k()
        .insertInto('etl.releases')
        .values({ account: 'a', every: 'month', available_to: day, heard_by: 'poll', heard_at: at })
        .execute()
    await registerProcess(k())
    const seconds = await secondsUntil('etl.releases', 'heard_at')
    expect(Math.max(...seconds)).toBeLessThan(0)
    expect(Math.min(...seconds)).toBeGreaterThan(-60)
    expect((await newestRelease(k(), 'a', 'month'))?.availableTo).toBe('2026-10-31')
    const { rows } = await sql<{
      order: string
    }>`select string_agg(available_to::text, ' ' order by date_trunc('milliseconds', heard_at)) as order
      from etl.releases`.execute(k())
    expect(rows).toEqual([{ order: '2026-09-30 2026-10-31' }])
  })

  test('an account that was refused by then becomes faster again', async () => {
    await k()
      .insertInto('etl.pace')
      .values({
        account: 'a',
        requests_per_second: 0.1,
        changed_at: ahead(0),
        refused_at: ahead(0),
        next_at: ahead(60),
        noted_at: ahead(0),
      })
      .execute()
    await begin()
    const turn = await createAccountPace(k(), 'a').reserve(0)
    expect(turn.waitMs).toBeLessThan(61_000)
    expect(turn.learnt?.changedMsAgo).toBeGreaterThanOrEqual(0)
  })

  test('a process that lives on and renews its lease does not hide it', async () => {
    const own = await registerProcess(k())
    await sql`update etl.processes set lease_until = ${ahead(0)} where process_id = ${own.processId}`.execute(k())
    await sql`delete from etl.run_jobs`.execute(k())
    const runId = await newRun(db, own.processId)
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    await k()
      .updateTable('etl.jobs')
      .set({ not_before: ahead(30), updated_at: ahead(0) })
      .where('job_id', '=', String(jobId))
      .execute()
    await sql`update etl.processes set lease_until = clock_timestamp() where process_id = ${dead.processId}`.execute(k())
    await renewLease(k(), own)
    await reapDead(k(), own)
    expect(Math.max(...(await secondsUntil('etl.jobs', 'not_before')))).toBeLessThan(31)
  })

  test('a job that is locked at that moment is set right by the next look', async () => {
    const runId = await newRun(db, dead.processId)
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    await k()
      .updateTable('etl.jobs')
      .set({ not_before: ahead(30), updated_at: ahead(0) })
      .where('job_id', '=', String(jobId))
      .execute()
    const lock = await k().startTransaction().execute()
    await sql`select from etl.jobs where job_id = ${jobId} for update`.execute(lock)
    await begin()
    await lock.rollback().execute()
    await begin()
    expect(Math.max(...(await secondsUntil('etl.jobs', 'not_before')))).toBeLessThan(31)
  })

  test('which version bi shows, and what continues it, is what was published last', async () => {
    const [shipped] = await shippedDefinitions()
    if (shipped === undefined) throw new Error('none is shipped')
    const own = { ...shipped, pipeline: 'ended', version: 3 }
    const all = [own, { ...shipped, pipeline: 'next' }]
    await sql`insert into etl.published_versions (pipeline, version, published_at) values ('ended', 1, '-infinity'), ('ended', 2, ${ahead(0)})`.execute(
      k(),
    )
    await sql`insert into etl.hand_overs (pipeline, successor, starts_on, since)
      values ('ended', null, null, '-infinity'), ('ended', 'next', '2026-01-01', ${ahead(0)})`.execute(k())
    for (const _ of ['once', 'again']) {
      await recordVersion(k(), own)
      await recordHandOver(k(), own, all)
    }
    expect((await continuedSeries(k(), own, all)).next).toBeNull()
    const { rows } = await sql`select (select version from etl.published_now where pipeline = 'ended') as version,
      (select count(*)::int from etl.published_versions where pipeline = 'ended') as versions,
      (select count(*)::int from etl.hand_overs where pipeline = 'ended') as hand_overs`.execute(k())
    expect(rows).toEqual([{ version: 3, versions: 3, hand_overs: 3 }])
  })
})
