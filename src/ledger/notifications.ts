// The outbox of notifications: causes that hold now, told once when they begin and once when they end, to each target.
import { type Kysely, sql } from 'kysely'
import type { Tables } from '../db/tables.ts'

type Db = Kysely<Tables>

export type CauseKind = 'failure' | 'held' | 'late' | 'drift' | 'quarantine' | 'quota'

export interface Cause {
  /** Names the cause for as long as it holds: `failure/keywords`. */
  readonly cause: string
  readonly kind: CauseKind
  readonly pipeline: string | null
  readonly message: string
  readonly details: Readonly<Record<string, unknown>>
}

/** Units of causes that were told and are tried again now: neither over before the try has ended well, nor new when it has not. */
const triedAgain = sql`
  select n.kind, u.pipeline, u.error_message
  from etl.notifications n join etl.units u on u.pipeline = n.pipeline and u.state in ('planned', 'running', 'waiting', 'landed')
  where n.resolved_at is null and n.kind in ('failure', 'held') and (
    select r.outcome from etl.run_units r
    where r.unit_id = u.unit_id and r.outcome in ('loaded', 'unchanged', 'held', 'failed')
    order by r.finished_at desc, r.run_id desc limit 1) = case n.kind when 'failure' then 'failed' else 'held' end`

/** What the ledger says is wrong now: failed and held units, rows in quarantine, drift, quota. Lateness is the scheduler's to add. */
export const causesInLedger = async (db: Db): Promise<readonly Cause[]> => {
  const { rows } = await sql<{ kind: CauseKind; pipeline: string; n: number; example: string | null }>`
    select kind, pipeline, count(*)::float8 as n, min(error_message) as example from (
      select case state when 'failed' then 'failure' else 'held' end as kind, pipeline, error_message
      from etl.units where state in ('failed', 'held')
      union all ${triedAgain}) troubled group by kind, pipeline
    union all select 'quarantine', pipeline, count(*)::float8, min(reason) from etl.quarantine where state = 'open' group by pipeline
    union all select 'drift', pipeline, 1, drift::text from (
      select distinct on (u.pipeline) u.pipeline, l.drift from etl.loads l join etl.units u on u.unit_id = l.unit_id
      where l.outcome = 'loaded' order by u.pipeline, l.load_id desc) newest where drift is not null`.execute(db)
  return rows.map(({ kind, pipeline, n, example }) => ({
    cause: `${kind}/${pipeline}`,
    kind,
    pipeline,
    message: wordsOf(kind, pipeline, n, example),
    details: { count: n, example },
  }))
}

const wordsOf = (kind: CauseKind, pipeline: string, n: number, example: string | null): string => {
  const why = example === null ? '' : ` For example: ${example}`
  if (kind === 'failure') return `${n} units of ${pipeline} failed; the next run tries them again.${why}`
  if (kind === 'held') return `${n} units of ${pipeline} wait for a person (millrace status ${pipeline}).${why}`
  if (kind === 'quarantine') return `${n} rows of ${pipeline} are in quarantine (millrace quarantine list ${pipeline}).${why}`
  return `The answers for ${pipeline} have other fields than its definition says: ${example ?? ''}`
}

export interface QuotaSpent {
  readonly account: string
  readonly pipeline: string
  readonly spent: number
}

/** Credits used and reserved this month (UTC) by account and pipeline. */
export const quotaThisMonth = async (db: Db): Promise<readonly QuotaSpent[]> => {
  const { rows } = await sql<QuotaSpent>`
    select account, pipeline, (coalesce(sum(used_quota), 0) + coalesce(sum(reserved_quota), 0))::float8 as spent from etl.quota
    where day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date group by account, pipeline`.execute(db)
  return rows
}

/** Opens a notification for each cause without one, ends those whose cause is gone, and queues both for every target. One transaction. */
export const syncNotifications = (db: Db, causes: readonly Cause[], targets: readonly string[]): Promise<void> =>
  db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended('millrace/notifications', 0))`.execute(trx)
    for (const { cause, kind, pipeline, message, details } of causes)
      await sql`insert into etl.notifications (cause, kind, pipeline, message, details)
        values (${cause}, ${kind}, ${pipeline}, ${message}, ${JSON.stringify(details)}::jsonb)
        on conflict (cause) where resolved_at is null do nothing`.execute(trx)
    await sql`update etl.notifications set resolved_at = clock_timestamp()
      where resolved_at is null and not (cause = any(${causes.map(({ cause }) => cause)}::text[]))`.execute(trx)
    // A target that is new is not told of what ended before it.
    await sql`insert into etl.deliveries (notification_id, target, event)
      select n.notification_id, t.target, 'raised' from etl.notifications n cross join unnest(${[...targets]}::text[]) as t (target)
      where n.resolved_at is null on conflict do nothing`.execute(trx)
    await sql`insert into etl.deliveries (notification_id, target, event)
      select n.notification_id, d.target, 'resolved' from etl.notifications n join etl.deliveries d on d.notification_id = n.notification_id
      where n.resolved_at is not null and d.event = 'raised' and d.target = any(${[...targets]}::text[]) on conflict do nothing`.execute(
      trx,
    )
  })

export interface Delivery {
  readonly notification_id: number
  readonly target: string
  readonly event: 'raised' | 'resolved'
  readonly attempts: number
  readonly kind: CauseKind
  readonly pipeline: string | null
  readonly message: string
  readonly raised_at: string
  readonly resolved_at: string | null
}

const mostAttempts = 12

/**
 * Takes the next due delivery, hands it to `send` while its row is locked, and writes down what became of it; false when none is due.
 * Two senders never take the same one. A resolved event waits until its raised one is out.
 */
export const deliverNext = (
  db: Db,
  targets: readonly string[],
  send: (delivery: Delivery) => Promise<string | null>,
): Promise<boolean> =>
  db.transaction().execute(async (trx) => {
    const { rows } = await sql<Delivery>`
      select d.notification_id::float8 as notification_id, d.target, d.event, d.attempts, n.kind, n.pipeline, n.message, n.raised_at, n.resolved_at
      from etl.deliveries d join etl.notifications n on n.notification_id = d.notification_id
      where d.sent_at is null and d.next_at <= clock_timestamp() and d.attempts < ${mostAttempts} and d.target = any(${[...targets]}::text[])
        and (d.event = 'raised' or exists (select 1 from etl.deliveries r where r.notification_id = d.notification_id
          and r.target = d.target and r.event = 'raised' and (r.sent_at is not null or r.attempts >= ${mostAttempts})))
      order by d.next_at, d.notification_id, d.event limit 1 for update of d skip locked`.execute(trx)
    const [delivery] = rows
    if (delivery === undefined) return false
    const problem = await send(delivery)
    const { notification_id, target, event } = delivery
    if (problem === null)
      await sql`update etl.deliveries set sent_at = clock_timestamp(), attempts = attempts + 1, last_error = null
        where notification_id = ${notification_id}::bigint and target = ${target} and event = ${event}`.execute(trx)
    else
      await sql`update etl.deliveries set attempts = attempts + 1, last_error = ${problem},
          next_at = clock_timestamp() + least(interval '6 hours', interval '10 seconds' * power(3, attempts))
        where notification_id = ${notification_id}::bigint and target = ${target} and event = ${event}`.execute(trx)
    return true
  })
