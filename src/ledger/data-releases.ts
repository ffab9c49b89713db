// Records what starts runs: releases of data, each new day once, the subscriptions that announce them, and ticks of schedules, each claimed by one process.
import { sql, type UpdateObject } from 'kysely'
import type { Release, ReleasedData } from '../core/release-month.ts'
import { lockByName } from '../db/named-lock.ts'
import { databaseNow } from '../db/database-clock.ts'
import type { Db, Tables } from '../db/tables.ts'
import type { Numbers, Texts } from '../db/typed-row.ts'

interface HeardRelease extends Release {
  /** The API and the account in it. */
  readonly account: string
  readonly heardBy: 'message' | 'poll'
}

/** `new`: it starts a run. `first`: a poll found it and no release was known before, so it may be old. `known`: it, or a newer one, is recorded. */
export type Heard = 'new' | 'first' | 'known'

/** Records the release, in one transaction: of two processes that hear of it at once, one finds it known. */
export const recordRelease = (db: Db, { account, every, availableTo, heardBy }: HeardRelease): Promise<Heard> =>
  db.transaction().execute(async (trx) => {
    await lockByName(trx, `releases of ${account}`)
    if (heardBy === 'poll') await deleteUnreported(trx, account, every, availableTo)
    const newest = await newestRelease(trx, account, every)
    if (newest !== null && newest.availableTo >= availableTo) return 'known'
    const wakes = newest !== null || heardBy === 'message'
    await trx
      .insertInto('etl.releases')
      .values({ account, every, available_to: availableTo, heard_by: heardBy, wakes, heard_at: nextMoment(account) })
      .execute()
    return wakes ? 'new' : 'first'
  })

/** Deletes releases that only polls reported and the newest poll no longer reports: the service was wrong. */
const deleteUnreported = async (trx: Db, account: string, every: ReleasedData, availableTo: string): Promise<void> => {
  await trx
    .deleteFrom('etl.releases')
    .where((eb) => eb.and({ account, every, heard_by: 'poll' }))
    .where('available_to', '>', availableTo)
    .execute()
}

/** Ticks of a release carry its moment, to the millisecond: so no two releases of an account have the same. */
const nextMoment = (account: string) =>
  sql<string>`greatest(date_trunc('milliseconds', clock_timestamp()),
    (select max(r.heard_at) + interval '1 millisecond' from etl.releases r where r.account = ${account}))`

/** The lock (see `claimInterval`) that a test message takes: any server may answer the service, but only this warehouse records the message. */
export const testTurn = (account: string): string => `test message to ${account}`

/** When the last test message came in; null: none ever did. */
export const lastTest = async (db: Db, account: string): Promise<string | null> => {
  const moment = sql<string>`held_until::text`.as('moment')
  return (
    (await db.selectFrom('etl.locks').select(moment).where('name', '=', testTurn(account)).executeTakeFirst())?.moment ?? null
  )
}

const heard = (db: Db) =>
  db
    .selectFrom('etl.releases')
    .select(['account', 'every', 'available_to as availableTo'])
    .select(sql<number>`floor(extract(epoch from heard_at) * 1000)::float8`.as('heardMs'))

/** null: none is known. A day later than tomorrow cannot be published yet and is ignored. */
export const newestRelease = async (db: Db, account: string, every: ReleasedData) =>
  (await heard(db)
    .where((eb) => eb.and({ account, every }))
    .where('available_to', '<=', sql<string>`(clock_timestamp() at time zone 'UTC')::date + 1`)
    .orderBy('available_to', 'desc')
    .limit(1)
    .executeTakeFirst()) ?? null

export type WakingRelease = Awaited<ReturnType<typeof releasesSince>>[number]

/** Releases that wake runs, heard after that moment, in the order they were heard. */
export const releasesSince = (db: Db, sinceMs: number) =>
  heard(db)
    .where('wakes', '=', true)
    .where('heard_at', '>', new Date(sinceMs).toISOString())
    .orderBy('heard_at')
    .orderBy('release_id')
    .execute()

/** The subscription that the account has; null: none. */
export const subscriptionOf = async (db: Db, account: string, every: ReleasedData): Promise<string | null> => {
  const row = await db
    .selectFrom('etl.subscriptions')
    .select('subscription_id')
    .where((eb) => eb.and({ account, every }))
    .executeTakeFirst()
  return row?.subscription_id ?? null
}

export const keepSubscription = async (db: Db, account: string, every: ReleasedData, subscriptionId: string): Promise<void> => {
  await db
    .insertInto('etl.subscriptions')
    .values({ account, every, subscription_id: subscriptionId })
    .onConflict((conflict) =>
      conflict.columns(['account', 'every']).doUpdateSet({ subscription_id: subscriptionId, made_at: databaseNow }),
    )
    .execute()
}

export const forgetSubscription = async (db: Db, account: string, every: ReleasedData): Promise<void> => {
  await db.deleteFrom('etl.subscriptions').where('account', '=', account).where('every', '=', every).execute()
}

/** Least time between two polls of a report that messages hasten: repeated messages cause no more polls. */
const betweenLooks = sql`interval '2 seconds'`

/** Makes the next poll of a report due now. `held`: a process holds the job, and polls it. `other`: there is no such job, or it awaits no report. */
export const makePollDue = async (db: Db, jobId: number): Promise<'hastened' | 'held' | 'other'> => {
  const soon = sql<string>`greatest(clock_timestamp(), updated_at + ${betweenLooks})`
  const rows = await db
    .updateTable('etl.jobs')
    .set({ not_before: sql<string>`least(not_before, ${soon})`, next_poll_at: sql<string>`least(next_poll_at, ${soon})` })
    .where((eb) => eb.and({ job_id: String(jobId), state: 'open', report_state: 'submitted', holder: null }))
    .returning('job_id')
    .execute()
  if (rows.length > 0) return 'hastened'
  const held = await db
    .selectFrom('etl.jobs')
    .select('job_id')
    .where((eb) => eb.and({ job_id: String(jobId), state: 'open' }))
    .where('report_state', 'in', ['intent', 'submitted'])
    .where('holder', 'is not', null)
    .executeTakeFirst()
  return held === undefined ? 'other' : 'held'
}

/** A tick that a process takes. */
interface TickClaim extends Texts<'pipeline' | 'owner'>, Numbers<'dueMs'> {
  readonly kind: 'on time' | 'caught up' | 'skipped' | 'released'
}

/** How often one tick is started: a night that kills its process each time (out of memory, say) waits for the next tick. */
const mostBegun = 10

/** Whether so many runs of the tick were killed. A run that was only stopped has its summary; a run that lost its database still has its process. */
const isGivenUp = sql<boolean>`((select count(*) from etl.runs r join etl.processes p on p.process_id = r.process_id and p.ended_at is not null
  where r.command = 'schedule' and r.state in ('running', 'interrupted') and r.summary is null
  and r.arguments ->> 'pipeline' = etl.ticks.pipeline and (r.arguments ->> 'due_at')::timestamptz = etl.ticks.due_at) >= ${mostBegun})`

/** Its process ended before its run did, and no person cancelled the run: the process that takes the tick plans what is due then. A skipped tick has no run. @param idle see `isAtWork` */
const isInterrupted = (idle: string | null) => sql<boolean>`(${isLetGo(idle)} and not ${isGivenUp})`

const isLetGo = (idle: string | null) => sql<boolean>`(etl.ticks.finished_at is null and etl.ticks.kind <> 'skipped'
  and (etl.ticks.run_id is null or exists (select from etl.runs r where r.run_id = etl.ticks.run_id and r.state in ('running', 'interrupted') and r.cancel_requested_at is null))
  and exists (select from etl.processes p where p.name = etl.ticks.claimed_by
    and (p.ended_at is not null or p.name = ${idle} and etl.ticks.run_id is null)))`

/** A live process works on the tick. @param idle the asking process, if it works on no tick of the pipeline: the response to its own claim may have been lost. null: it works on one */
const isAtWork = (idle: string | null) => sql<boolean>`(etl.ticks.finished_at is null and exists (select from etl.processes p
  where p.name = etl.ticks.claimed_by and p.ended_at is null and p.name is distinct from ${idle}))`

/** Claims the tick. Call under the lock of `lockTicks`, in the transaction that found the tick free or lost. */
export const claimTick = async (db: Db, { pipeline, dueMs, owner, kind }: TickClaim): Promise<void> => {
  await db
    .insertInto('etl.ticks')
    .values({ pipeline, due_at: new Date(dueMs).toISOString(), claimed_by: owner, kind })
    .onConflict((conflict) =>
      conflict.columns(['pipeline', 'due_at']).doUpdateSet({ claimed_by: owner, claimed_at: databaseNow, kind, run_id: null }),
    )
    .execute()
}

/** One process at a time decides the next tick of the pipeline. */
export const lockTicks = (trx: Db, pipeline: string): Promise<void> => lockByName(trx, `ticks of ${pipeline}`)

type Tick = Pick<TickClaim, 'pipeline' | 'dueMs' | 'owner'>

/** A process that was declared dead changes no tick that another process has claimed since. */
const setTick = async (db: Db, { pipeline, dueMs, owner }: Tick, change: UpdateObject<Tables, 'etl.ticks'>): Promise<void> => {
  await db
    .updateTable('etl.ticks')
    .set(change)
    .where((eb) => eb.and({ pipeline, due_at: new Date(dueMs).toISOString(), claimed_by: owner }))
    .execute()
}

/** What is due is planned in that run; null: the run came to nothing, and the tick is to be claimed again. */
export const assignTick = (db: Db, tick: Tick, runId: number | null): Promise<void> => setTick(db, tick, { run_id: runId })

export const finishTick = (db: Db, tick: Tick): Promise<void> => setTick(db, tick, { finished_at: databaseNow })

/** When the pipeline last ticked; null: never. A lost tick does not count, nor those skipped for it. Where no other is left: right before the first tick. */
export const lastTickMs = async (db: Db, pipeline: string, idle: string | null = null): Promise<number | null> => {
  const ticks = db.selectFrom('etl.ticks as s').where('s.pipeline', '=', pipeline)
  const isForLost = sql<boolean>`(select ${isInterrupted(idle)} from etl.ticks where pipeline = s.pipeline and due_at <= s.due_at and kind <> 'skipped'
    order by due_at desc limit 1)`
  const last = ticks.select('s.due_at').where(isForLost, 'is not', true).orderBy('s.due_at', 'desc').limit(1)
  const first = ticks.select(sql<string>`s.due_at - interval '1 millisecond'`.as('at')).orderBy('s.due_at').limit(1)
  const { at } = await db.selectNoFrom((eb) => eb.fn.coalesce(last, first).as('at')).executeTakeFirstOrThrow()
  return at === null ? null : Date.parse(at)
}

/** When the newest tick was due, where it was started so often that it is given up; else null. */
export const givenUpMs = async (db: Db, pipeline: string): Promise<number | null> => {
  const ticks = db.selectFrom('etl.ticks').where('pipeline', '=', pipeline).where('kind', '<>', 'skipped')
  const newest = await ticks
    .select(['due_at', sql<boolean>`${isLetGo(null)} and ${isGivenUp}`.as('is_given_up')])
    .orderBy('due_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  return newest?.is_given_up === true ? Date.parse(newest.due_at) : null
}

/** When the newest `millrace run` of all that is due of the pipeline began, among those that reached their end; null: there is none. */
export const lastRunMs = async (db: Db, pipeline: string): Promise<number | null> => {
  const { at } = await db
    .selectFrom('etl.runs')
    .select((eb) => eb.fn.max('started_at').as('at'))
    .where('command', '=', 'run')
    .where('summary', 'is not', null)
    .where('state', 'in', ['done', 'failed'])
    .where(
      sql<boolean>`arguments ->> 'only' is null and (arguments -> 'pipelines' = '[]'::jsonb or arguments -> 'pipelines' ? ${pipeline})`,
    )
    .executeTakeFirstOrThrow()
  return at === null ? null : Date.parse(at)
}

/** The newest tick that was not skipped: when it was claimed and finished, and whether a live process works on it. null: there is none. */
export const newestRunTick = async (db: Db, pipeline: string, idle: string | null) =>
  (await db
    .selectFrom('etl.ticks')
    .select(['claimed_at', 'finished_at', isAtWork(idle).as('is_at_work')])
    .where('pipeline', '=', pipeline)
    .where('kind', '<>', 'skipped')
    .orderBy('due_at', 'desc')
    .limit(1)
    .executeTakeFirst()) ?? null
