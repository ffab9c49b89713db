// The outbox of notifications: causes that hold now, sent once when they begin and once when they end, to each target that a route names.
import { sql } from 'kysely'
import { type AlarmKind, type Cause, kindsWithoutEnd, severityOf } from '../core/alarm.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'

/** Kinds of which the ledger alone knows nothing. */
const byDefinition: AlarmKind[] = ['late', 'due', 'quota']

/** Who is to hear of a cause. */
export type TargetsOf = (cause: Cause) => readonly string[]

/**
 * Opens a notification for each cause without one, brings open ones up to date, ends those whose cause is gone, and queues both for those they are
 * routed to. One transaction. @param known every target there is: one that is gone gets nothing more
 * @param judged pipelines whose definitions are at hand; null: all there are. Causes that only a definition shows are not ended for others
 */
export const syncNotifications = (
  db: Db,
  causes: readonly Cause[],
  targetsOf: TargetsOf,
  known: readonly string[],
  judged: readonly string[] | null = null,
): Promise<void> =>
  db.transaction().execute(async (trx) => {
    await lockByName(trx, 'notifications')
    for (const cause of causes) await open(trx, cause)
    await sql`update etl.notifications set resolved_at = clock_timestamp()
      where resolved_at is null and not (cause = any(${causes.map(({ cause }) => cause)}::text[]))
        and (${judged === null} or pipeline is null or not (kind = any(${byDefinition}::text[])) or pipeline = any(${[...(judged ?? [])]}::text[]))`.execute(
      trx,
    )
    const pairs = causes.flatMap((cause) => targetsOf(cause).map((target) => ({ cause: cause.cause, target })))
    // A target that is new hears nothing of what ended before it.
    await sql`insert into etl.deliveries (notification_id, target, event)
      select n.notification_id, t.target, 'raised' from unnest(${pairs.map(({ cause }) => cause)}::text[], ${pairs.map(({ target }) => target)}::text[]) as t (cause, target)
        join etl.notifications n on n.cause = t.cause and n.resolved_at is null
      order by 1, 2 on conflict do nothing`.execute(trx)
    await sql`insert into etl.deliveries (notification_id, target, event)
      select n.notification_id, d.target, 'resolved' from etl.notifications n join etl.deliveries d on d.notification_id = n.notification_id
      where n.resolved_at is not null and not (n.kind = any(${[...kindsWithoutEnd]}::text[])) and d.event = 'raised' and d.target = any(${[...known]}::text[])
        and (d.outcome in ('sent', 'uncertain') or d.outcome is null and (d.attempts > 0 or d.sending_at is not null))
      order by 1, 2 on conflict do nothing`.execute(trx)
    await dropOver(trx)
  })

const open = async (trx: Db, cause: Cause): Promise<void> => {
  const { kind, pipeline, grouping = null, message, changed = null, nextStep = null } = cause
  // What was sent stays as it was sent.
  const untold = sql`not exists (select from etl.deliveries d where d.notification_id = etl.notifications.notification_id
    and (d.attempts > 0 or d.sending_at is not null or d.outcome is not null))`
  await sql`insert into etl.notifications (cause, kind, severity, grouping, pipeline, message, changed, next_step, details)
    values (${cause.cause}, ${kind}, ${severityOf(cause)}, ${grouping}, ${pipeline}, ${message}, ${changed}, ${nextStep}, ${JSON.stringify(cause.details)}::jsonb)
    on conflict (cause) where resolved_at is null do update set details = excluded.details,
        message = case when ${untold} then excluded.message else etl.notifications.message end,
        changed = case when ${untold} then excluded.changed else etl.notifications.changed end
      where etl.notifications.details is distinct from excluded.details`.execute(trx)
}

/** What was over before anybody heard of it is no news, nor is the end of what nobody heard of. */
const dropOver = async (trx: Db): Promise<void> => {
  await sql`update etl.deliveries d set outcome = 'not needed' from etl.notifications n
    where n.notification_id = d.notification_id and n.resolved_at is not null and d.event = 'raised' and d.outcome is null
      and d.attempts = 0 and d.sending_at is null`.execute(trx)
  await sql`update etl.deliveries d set outcome = 'not needed'
    where d.event = 'resolved' and d.outcome is null and exists (select from etl.deliveries r where r.notification_id = d.notification_id
      and r.target = d.target and r.event = 'raised' and r.outcome in ('given up', 'not needed'))`.execute(trx)
}
