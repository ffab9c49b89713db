// The queue of units: pg-boss over our own pool and inside our own transactions. The ledger decides; the queue only hands out.
import { hostname } from 'node:os'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { fromKysely, PgBoss } from 'pg-boss'
import { z } from 'zod'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Database } from '../db/connect.ts'
import { executePrepared } from '../db/prepared.ts'
import { processIsAlive } from '../db/process-alive.ts'
import type { Tables } from '../db/tables.ts'

type Db = Kysely<Tables>

export interface UnitJob {
  /** Stays the same over retries; together with `attempt` it names one holder. */
  readonly id: string
  /** Grows whenever the job is handed out again; who names an older one holds nothing any more. */
  readonly attempt: number
  readonly unitId: number
  readonly runId: number
}

/** What names a holder of a job. */
export interface Holding {
  readonly id: string
  readonly attempt: number | string
}

export interface JobToQueue {
  readonly unitId: number
  readonly runId: number
  /** Higher goes first. */
  readonly priority: number
}

export interface Queue {
  /** In the caller's transaction, one statement for all. A unit that is queued or at work already is left as it is. */
  enqueue(trx: Db, jobs: readonly JobToQueue[]): Promise<void>
  fetch(count: number): Promise<UnitJob[]>
  /**
   * Says that the jobs are still worked on; without it another process takes them over after 10 seconds. A holder that was silent and
   * comes back before anyone took its job keeps it. Returns the jobs that are not its own any more.
   */
  beat(jobs: readonly UnitJob[]): Promise<UnitJob[]>
  /** Whether nobody else was handed the job since, as a condition for a statement on the ledger. */
  holds(job: UnitJob): RawBuilder<boolean>
  /** The job goes. Somebody else's newer hold on it is left alone, as by `again`. */
  finish(db: Db, job: UnitJob): Promise<void>
  /** The statement of `finish`, as part of a larger one, where `when` holds. */
  removal(job: Holding, when: RawBuilder<unknown>): RawBuilder<unknown>
  /** The same unit again at `notBeforeMs`, in the caller's transaction; one statement. */
  again(trx: Db, job: UnitJob, notBeforeMs: number): Promise<void>
  /** Jobs that were fetched and not begun, for others to take at once; those that are somebody else's by now are left alone. */
  giveBack(jobs: readonly UnitJob[]): Promise<void>
  /** Units of the run that are to be worked on and have no job are queued again; returns how many. */
  requeueLost(runId: number): Promise<number>
  /** Jobs of the run that nobody holds go. */
  cancelRun(runId: number): Promise<void>
  stop(): Promise<void>
}

const schema = 'pgboss'
const name = 'units'
/** The least pg-boss allows: a killed worker's units are taken over after this and one look of the supervisor. */
const heartbeatSeconds = 10
const superviseSeconds = 2
const dayS = 86_400
/** A lost heartbeat is no failure of the unit; the ledger counts the tries that are. */
const retryLimit = 1_000_000

const jobData = z.object({ unitId: z.number().int(), runId: z.number().int() })

/** Starts quickly where the schema exists; safe when two processes make it at once. */
export const startQueue = async (database: Database, log: Log): Promise<Queue> => {
  const found = await database.pool.query<{ there: boolean }>('select to_regnamespace($1) is not null as there', [schema])
  const boss = new PgBoss({
    schema,
    // A loader that may make no schema may still fill the one made for it.
    createSchema: found.rows[0]?.there !== true,
    db: { executeSql: async (text, values) => database.pool.query(text, values as unknown[] | undefined) },
    schedule: false,
    supervise: true,
    superviseIntervalSeconds: superviseSeconds,
    monitorIntervalSeconds: superviseSeconds,
  })
  boss.on('error', (error) => log.warn({ error: messageOf(error) }, 'queue'))
  const stop = (): Promise<void> => boss.stop({ graceful: false, close: false })
  try {
    await boss.start()
    await prepareQueue(boss)
    await releaseDead(database, boss)
  } catch (error) {
    // Its timers would keep asking a database that is closed by then.
    await stop()
    throw error
  }
  return queueOf(boss, database, stop)
}

const prepareQueue = async (boss: PgBoss): Promise<void> => {
  if ((await boss.getQueue(name)) === null) {
    await boss.createQueue(name, {
      policy: 'exclusive',
      heartbeatSeconds,
      retryLimit,
      retryDelay: 0,
      expireInSeconds: dayS - 1,
      deleteAfterSeconds: 60,
    })
  }
}

const jobTable = sql.table(`${schema}.job`)

/** A job that missed its heartbeat is in `retry` until somebody takes it, which raises the count; so long its holder may still settle it. */
const isHeld = (job: Holding): RawBuilder<unknown> =>
  sql`j.name = ${name} and j.id = ${job.id}::uuid and j.retry_count = ${job.attempt} and j.state in ('active', 'retry')`

const heldList = (jobs: readonly Holding[]): RawBuilder<unknown> =>
  sql`jsonb_to_recordset(${JSON.stringify(jobs)}::jsonb) as held(id uuid, attempt integer)`

const removal = (job: Holding, when: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`delete from ${jobTable} j where ${isHeld(job)} and ${when}`

const queueOf = (boss: PgBoss, database: Database, stop: () => Promise<void>): Queue => ({
  enqueue: async (trx, jobs) => {
    if (jobs.length === 0) return
    const records = jobs.map(({ unitId, runId, priority }) => ({
      data: { unitId, runId },
      priority,
      singletonKey: String(unitId),
    }))
    await boss.insert(name, records, { db: fromKysely(trx) })
    await bringForward(trx, jobs)
  },
  fetch: async (count) => {
    const jobs = await boss.fetch<unknown>(name, { batchSize: count })
    return jobs.map((job) => ({ id: job.id, attempt: job.retryCount, ...jobData.parse(job.data) }))
  },
  beat: async (jobs) => {
    const { rows } = await sql<{ id: string }>`
      update ${jobTable} j set state = 'active', heartbeat_on = clock_timestamp()
      from ${heldList(jobs)}
      where j.name = ${name} and j.id = held.id and j.retry_count = held.attempt and j.state in ('active', 'retry')
      returning j.id::text`.execute(database.kysely)
    const kept = new Set(rows.map(({ id }) => id))
    return jobs.filter(({ id }) => !kept.has(id))
  },
  holds: (job) => sql<boolean>`exists (select 1 from ${jobTable} j where ${isHeld(job)})`,
  finish: async (db, job) => void (await executePrepared(db, removal(job, sql`true`))),
  removal,
  // The raised count takes the job from a heartbeat that is on its way; pg-boss keeps a job two weeks from its start. Half the priority:
  // looks at open reports neither crowd out what is not begun yet nor wait for all of it.
  again: async (trx, job, notBeforeMs) => {
    const at = sql`${new Date(notBeforeMs).toISOString()}::timestamptz`
    await sql`
      update ${jobTable} j set state = 'retry', retry_count = j.retry_count + 1, heartbeat_on = null, start_after = ${at},
        priority = j.priority / 2,
        keep_until = ${at} + interval '14 days'
      where ${isHeld(job)}`.execute(trx)
  },
  giveBack: async (jobs) => {
    await sql`
      update ${jobTable} j set state = 'retry', retry_count = j.retry_count + 1, heartbeat_on = null, start_after = clock_timestamp()
      from ${heldList(jobs)}
      where j.name = ${name} and j.id = held.id and j.retry_count = held.attempt and j.state in ('active', 'retry')`.execute(
      database.kysely,
    )
  },
  requeueLost: async (runId) => {
    const { rows } = await sql<{ unit_id: string }>`
      select u.unit_id from etl.run_units r join etl.units u on u.unit_id = r.unit_id
      where r.run_id = ${runId}::bigint and r.outcome is null and u.state in ('planned', 'waiting', 'landed', 'running')
        and not exists (select 1 from ${jobTable} j where j.name = ${name}
          and j.singleton_key = u.unit_id::text and j.state in ('created', 'retry', 'active'))`.execute(database.kysely)
    const records = rows.map((row) => ({ data: { unitId: Number(row.unit_id), runId }, singletonKey: row.unit_id }))
    if (records.length > 0) await boss.insert(name, records)
    return records.length
  },
  cancelRun: async (runId) => {
    // One statement: a job that is taken meanwhile is active and stays.
    await sql`
      delete from ${jobTable}
      where name = ${name} and state in ('created', 'retry') and (data->>'runId')::bigint = ${runId}::bigint`.execute(
      database.kysely,
    )
  },
  stop,
})

/** A unit that waits in the queue for an earlier run belongs to this one now, and is looked at at once. */
const bringForward = async (trx: Db, jobs: readonly JobToQueue[]): Promise<void> => {
  await sql`
    update ${jobTable} j set data = jsonb_build_object('unitId', w."unitId", 'runId', w."runId"),
      start_after = clock_timestamp(), priority = w.priority
    from jsonb_to_recordset(${JSON.stringify(jobs)}::jsonb) as w("unitId" bigint, "runId" bigint, priority integer)
    where j.name = ${name} and j.state in ('created', 'retry') and j.singleton_key = w."unitId"::text
      and (j.data->>'runId')::bigint <> w."runId"`.execute(trx)
}

/** The name under which a process is connected and holds leases. */
export const processName = (): string => `${hostname()}:${process.pid}`.slice(-50)

/** Jobs of processes that died come back at once: a command that was killed and started again need not wait for the heartbeat. */
const releaseDead = async (database: Database, boss: PgBoss): Promise<void> => {
  const { rows } = await sql<{ id: string; retryCount: number; owner: string | null }>`
    select j.id::text, j.retry_count as "retryCount", u.lease_owner as owner from ${jobTable} j
      left join etl.units u on u.unit_id = (j.data->>'unitId')::bigint and u.state = 'running'
    where j.name = ${name} and j.state = 'active'`.execute(database.kysely)
  if (rows.length === 0) return
  const alone = await isAlone(database)
  const dead = rows
    .filter(({ owner }) => alone || (owner !== null && isDeadHere(owner)))
    .map(({ id, retryCount }) => ({ id, retryCount }))
  if (dead.length > 0) await boss.fail(name, dead, { reason: 'the process that held it is gone' })
}

const isDeadHere = (owner: string): boolean => {
  const [, pid] = /:(\d+)$/.exec(owner) ?? []
  return pid !== undefined && owner === `${hostname()}:${pid}`.slice(-50) && !processIsAlive(Number(pid))
}

/** Whether no other living Millrace is connected to this database. */
const isAlone = async (database: Database): Promise<boolean> => {
  const { rows } = await sql<{ name: string }>`
    select distinct application_name as name from pg_stat_activity
    where datname = current_database() and application_name like 'millrace %'`.execute(database.kysely)
  return rows.map((row) => row.name.slice('millrace '.length)).every((owner) => owner === processName() || isDeadHere(owner))
}
