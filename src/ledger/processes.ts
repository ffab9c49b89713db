// Processes that work on this ledger: each has a row and one lease for all its jobs and runs. Also leases for work outside transactions. A dead process loses what it held.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { startMark, bootMark, processIsAlive } from '../db/process-mark.ts'
import type { Db, ProcessesTable } from '../db/tables.ts'
import { countRows, prepared, query, type Texts } from '../db/typed-row.ts'
import { databaseNow, msFromNow } from '../db/database-clock.ts'
import { isLeaseOver } from './lease-over.ts'
import { countLost, type LostReservation } from './request-credits.ts'

/** This process as the others see it. */
export interface OwnProcess {
  readonly processId: number
  /** For people: `host:4711-1a2b3c4d`, unique over all hosts and starts. */
  readonly name: string
  /** The end of the lease as last written. A row with an earlier end belongs to an older ledger, restored from a backup that has the process. */
  readonly seen: { lease: string | null; readonly overdue?: Map<number, Overdue> }
}

/** An expired lease: how many checks found it so, and when the last check was, by the machine's monotonic clock in milliseconds. */
interface Overdue {
  readonly lease: string
  readonly looks: number
  readonly at: number
}

/** A living process renews every 4 seconds. */
const leaseMs = 16_000
/** So many checks, so far apart, must find the same lease expired: after an outage, a clock jump or a pause of this process, live processes renew theirs meanwhile. */
const looksForDeath = 4
const lookMs = 1_500

const leaseEnd = msFromNow(leaseMs)

/** Registers this process with a full lease. First corrects times that a wrong clock wrote. */
export const registerProcess = async (db: Db): Promise<OwnProcess> => {
  await settleTimes(db)
  const host = hostname()
  const name = `${host}:${process.pid}-${randomBytes(4).toString('hex')}`
  const row = await db
    .insertInto('etl.processes')
    .values({
      ...{ name, host, boot: bootMark(), lease_until: leaseEnd },
      ...{ system_process_id: process.pid, begun: startMark(process.pid) ?? '' },
    })
    .returning('process_id')
    .executeTakeFirstOrThrow()
  return { processId: row.process_id, name, seen: { lease: null, overdue: new Map() } }
}

/**
 * The row of this process. Without it the database was replaced, and another process may have its number there. Where the lease last seen ends later than a
 * new one would, the clock was set back since: then the row's end proves nothing.
 */
export const isRowOf = ({ processId, name, seen: { lease } }: OwnProcess): RawBuilder<boolean> =>
  sql<boolean>`(process_id = ${processId} and name = ${name}
    and (lease_until >= coalesce(${lease}::timestamptz, '-infinity') or ${lease}::timestamptz > ${leaseEnd}))`

/** False: the process may buy nothing here and claim no tick. */
export const isRegistered = async (db: Db, own: OwnProcess): Promise<boolean> =>
  (await db.selectFrom('etl.processes').select('process_id').where(isRowOf(own)).executeTakeFirst()) !== undefined

/** Why a process without its row buys nothing. */
export const databaseReplaced = 'This database was replaced by another one since the command began.'

/**
 * Renews to a full lease. A longer lease shows that the clock was set back; it stays until `settleTimes` corrects it. Revives a process that was declared dead (see
 * `revive`). False: the database was replaced, perhaps by a restored backup.
 */
export const renewLease = async (db: Db, own: OwnProcess): Promise<boolean> => {
  const [renewed] = await prepared<Texts<'lease'>>(db)`
    update etl.processes set lease_until = greatest(lease_until, ${leaseEnd})
    where ${isRowOf(own)} and ended_at is null returning lease_until::text as lease`
  if (renewed === undefined) return db.transaction().execute((trx) => revive(trx, own))
  own.seen.lease = renewed.lease
  return true
}

/**
 * Revives the process and its runs that were closed with it; its jobs are still its own where no process took them (see `lostJobs`). A statement of its own locks the
 * row: it waits for the process that buries this one, and only a later statement sees the runs that were closed.
 */
const revive = async (trx: Db, own: OwnProcess): Promise<boolean> => {
  const { processId } = own
  const known = trx.selectFrom('etl.processes').select('process_id').where(isRowOf(own))
  if ((await known.forNoKeyUpdate().execute()).length === 0) return false
  await query(trx)`
    update etl.runs r set state = 'running', finished_at = null from etl.processes p
    where p.process_id = ${processId} and r.process_id = p.process_id and r.state = 'interrupted' and r.finished_at = p.ended_at`
  await trx
    .updateTable('etl.processes')
    .set({ lease_until: leaseEnd, ended_at: null })
    .where('process_id', '=', processId)
    .execute()
  return true
}

/** Ends the process: others can claim its jobs at once, and its runs are closed. */
export const endProcess = async (db: Db, { processId, name }: OwnProcess): Promise<void> => {
  await ending(db, processId).where('name', '=', name).execute()
  await bury(db, processId)
}

const ending = (db: Db, processId: number) =>
  db
    .updateTable('etl.processes')
    .set({ ended_at: databaseNow })
    .where((eb) => eb.and({ process_id: processId, ended_at: null }))

/** Frees the jobs and closes the runs of dead processes, and corrects times that a wrong clock wrote. Costs two small queries where there is nothing to do. */
export const reapDead = (db: Db, { processId, seen: { overdue = new Map() } }: OwnProcess): Promise<void> =>
  reap(db, processId, ({ process_id, lease_until: lease }) => {
    const at = performance.now()
    const before = overdue.get(process_id)
    const isSame = before?.lease === lease
    if (!isSame || at - before.at >= lookMs) overdue.set(process_id, { lease, looks: isSame ? before.looks + 1 : 1, at })
    return (overdue.get(process_id)?.looks ?? 0) >= looksForDeath
  })

/** The same where a person decides about their jobs: one expired lease is enough. */
export const reapOverdue = (db: Db, processId: number): Promise<void> => reap(db, processId, () => true)

const reap = async (db: Db, processId: number, isDeath: (overdue: Known) => boolean): Promise<void> => {
  await settleTimes(db)
  const here = { host: hostname(), boot: bootMark() }
  for (const one of await othersWithSomething(db, processId)) {
    if (!one.has_ended && !isDeadHere(one, here) && !(one.is_over && isDeath(one))) continue
    if (one.has_ended || (await declareDead(db, one))) await bury(db, one.process_id)
  }
}

type Known = Pick<Selectable<ProcessesTable>, 'process_id' | 'host' | 'boot' | 'system_process_id' | 'begun' | 'lease_until'> & {
  readonly has_ended: boolean
  readonly is_over: boolean
}

/** Other processes: live ones, and those that ended and still have jobs or runs. */
const othersWithSomething = (db: Db, processId: number): Promise<Known[]> =>
  prepared<Known>(db)`
    select process_id, host, boot, system_process_id, begun, lease_until, ended_at is not null as has_ended, ${isLeaseOver} as is_over
    from etl.processes h where process_id <> ${processId} and process_id in (
      select process_id from etl.processes where ended_at is null
      union select process_id from etl.runs where state = 'running'
      union select holder from etl.jobs where holder is not null)
    order by process_id`

/** A process of this machine (and container) has ended, or the system has given its number to a later process. */
const isDeadHere = (known: Known, here: { readonly host: string; readonly boot: string }): boolean => {
  if (known.host !== here.host || known.boot !== here.boot) return false
  if (!processIsAlive(known.system_process_id)) return true
  const begun = startMark(known.system_process_id)
  return begun === null || (begun !== '' && known.begun !== '' && begun !== known.begun)
}

/** False where it renewed its lease meanwhile. */
const declareDead = async (db: Db, { process_id, lease_until }: Known): Promise<boolean> => {
  const rows = await ending(db, process_id).where('lease_until', '=', lease_until).returning('process_id').execute()
  return rows.length > 0
}

/**
 * The fence of its jobs stays: if the process is alive after all, they are its own until another process takes them. A job whose row is locked, perhaps
 * by its own transaction, is freed the next time. A run that is not running waits for nothing, whatever its list says.
 */
const bury = async (db: Db, processId: number): Promise<void> => {
  await db.transaction().execute((trx) => freeJobs(trx, processId))
  await query(db)`
    with dead as (
      select process_id, ended_at from etl.processes where process_id = ${processId} and ended_at is not null for share
    )
    update etl.runs r set state = 'interrupted', finished_at = dead.ended_at from dead
    where r.process_id = dead.process_id and r.state = 'running'`
}

/** Credits that it reserved for in-flight pages count as paid at once: the jobs may be withdrawn, and the responses were not seen. */
const freeJobs = async (trx: Db, processId: number): Promise<void> => {
  const freed = await query<LostReservation>(trx)`
    with freed as (
      select j.job_id, j.reserved_credits from etl.jobs j join etl.processes p on p.process_id = j.holder
      where j.holder = ${processId} and p.ended_at is not null order by j.job_id for update of j skip locked
    )
    update etl.jobs j set holder = null, updated_at = clock_timestamp(), reserved_credits = null, reserves_all = false
    from freed f where j.job_id = f.job_id
    returning j.job_id::float8 as "jobId", j.pipeline_id as "pipelineId", j.account, f.reserved_credits::float8 as reserved`
  await countLost(trx, freed)
}

const isOver = sql<boolean>`coalesce(etl.locks.held_until, '-infinity') <= clock_timestamp()`

const take = async (db: Db, name: string, processId: number, forSeconds: number, mayTake: RawBuilder<boolean>) => {
  const taken = await countRows(db)`
    insert into etl.locks (name, held_by, held_until) values (${name}, ${processId}, ${msFromNow(forSeconds * 1_000)})
    on conflict (name) do update set held_by = excluded.held_by, held_until = excluded.held_until where ${mayTake} returning name`
  return taken > 0
}

/** Takes the lease for so many seconds from now; false: another live process has it. Taking it again renews it. */
export const takeLease = (db: Db, name: string, { processId }: OwnProcess, forSeconds: number): Promise<boolean> =>
  take(
    db,
    name,
    processId,
    forSeconds,
    sql<boolean>`${isOver} or etl.locks.held_by = excluded.held_by or exists (select from etl.processes p
      where p.process_id = etl.locks.held_by and (p.ended_at is not null or p.lease_until < clock_timestamp()))`,
  )

/** For work at intervals: true for one of all processes once in so many seconds. */
export const claimInterval = (db: Db, name: string, { processId }: OwnProcess, everySeconds: number): Promise<boolean> =>
  take(db, name, processId, everySeconds, isOver)

/** Ends the lease where this process has it. */
export const endLease = async (db: Db, name: string, { processId }: OwnProcess): Promise<void> => {
  await db
    .updateTable('etl.locks')
    .set({ held_until: null, held_by: null })
    .where((eb) => eb.and({ name, held_by: processId }))
    .execute()
}

/** A moment further ahead than this, or than this beyond a full lease, was written by a clock that was ahead. */
const marginMs = 5_000
const ahead = msFromNow(marginMs)

/** Jobs written by a clock that was ahead: their times keep their distance from the moment of writing. */
const openAhead = sql`select job_id from etl.jobs where state = 'open' and updated_at > ${ahead} order by job_id`
const tooFar = sql`(updated_at - clock_timestamp())`

/**
 * Corrects times that a clock ahead wrote. A lease shows it: processes renew every few seconds, so another clock wrote a lease that ends later than a new one would. Purchases
 * keep their time, since the guard counts by it: rather too long than too short. A locked job is left to the next check. Costs one small query where all is right.
 */
const settleTimes = async (db: Db): Promise<void> => {
  const fromFuture = sql<boolean>`lease_until > ${msFromNow(leaseMs + marginMs)}`
  if ((await db.selectFrom('etl.processes').select('process_id').where(fromFuture).limit(1).execute()).length === 0) return
  const corrections = [
    sql`update etl.jobs set not_before = not_before - ${tooFar}, next_poll_at = next_poll_at - ${tooFar}, deadline_at = deadline_at - ${tooFar},
      updated_at = clock_timestamp() where job_id in (${openAhead} for update skip locked)`,
    // No process can have claimed a tick of a later night.
    sql`delete from etl.ticks where due_at > ${ahead}`,
    sql`update etl.locks set held_until = clock_timestamp() where held_until > ${ahead}`,
    // Each release gets a moment of its own, since ticks carry it.
    sql`update etl.releases r set heard_at = clock_timestamp() - interval '2 milliseconds' * (
        select count(*) from etl.releases o where o.account = r.account and o.heard_at >= r.heard_at)
      where r.heard_at > clock_timestamp()`,
    sql`update etl.deliveries set next_at = clock_timestamp() where outcome is null and next_at > ${ahead}`,
    sql`update etl.pace set changed_at = least(changed_at, clock_timestamp()), refused_at = least(refused_at, clock_timestamp()),
      trouble_seen_at = least(trouble_seen_at, clock_timestamp())`,
    sql`update etl.processes set lease_until = ${leaseEnd} where ${fromFuture} and not exists (${openAhead})`,
  ]
  await db.transaction().execute(async (trx) => {
    for (const correction of corrections) await correction.execute(trx)
  })
}
