// Notifications of causes, raised and resolved, and the deliveries of each message: marked, sent outside any transaction, then the outcome is recorded.
import { type RawBuilder, sql } from 'kysely'
import { type AlarmKind, type Cause, kindsWithoutEnd, type Severity, severityOf } from '../core/alarm.ts'
import { lockByName } from '../db/named-lock.ts'
import { databaseNow, msFromNow } from '../db/database-clock.ts'
import type { Db } from '../db/tables.ts'
import { type Maybe, type Numbers, query, type Row, type Texts } from '../db/typed-row.ts'

/** What delivering needs to know of a receiver. */
export interface ReceiverTraits {
  readonly name: string
  /** People: causes of one kind and grouping come in one message. A machine gets each by itself. */
  readonly grouped: boolean
  /** It recognises a repeated message by its id, so that a message of unknown fate may be sent again. */
  readonly repeatable: boolean
}

/** One cause as it is sent. */
export type AlarmCause = Numbers<'notificationId'> &
  Texts<'kind' | 'message' | 'raisedAt'> &
  Maybe<Texts<'pipeline' | 'changed' | 'nextStep' | 'resolvedAt'>> & { readonly severity: Severity }

/** One message: what began, or what is over. */
export interface Alarm {
  readonly target: string
  readonly event: 'raised' | 'resolved'
  /** At least one; of one kind. */
  readonly causes: readonly AlarmCause[]
}

/** How a message leaves. */
export interface Transport {
  /** Milliseconds that a message of this severity waits for the receiver's quiet hours to end; 0: it is sent now. */
  readonly waitMs: (target: string, severity: Severity) => number
  /** null: the receiver accepted it; else why not. */
  readonly send: (alarm: Alarm) => Promise<string | null>
}

const mostAttempts = 12
/** Causes named in one message. */
const mostInOne = 50

/** A receiver whose failed sends took so long in one pass waits for the next pass; shorter than one timeout. */
const patienceMs = 5_000

/**
 * One pass: sends what is due until nothing is, or `goesOn` says no. A receiver that does not answer delays neither the other receivers nor the run that
 * sends. @param nowMs measures how long a receiver takes
 */
export const deliverDue = async (
  db: Db,
  receivers: readonly ReceiverTraits[],
  transport: Transport,
  goesOn: () => Promise<boolean>,
  nowMs: () => number = () => performance.now(),
): Promise<void> => {
  const inVain = new Map<string, number>()
  const send: Transport['send'] = async (alarm) => {
    const beganMs = nowMs()
    const problem = await transport.send(alarm)
    if (problem !== null) inVain.set(alarm.target, (inVain.get(alarm.target) ?? 0) + nowMs() - beganMs)
    return problem
  }
  const answering = () => receivers.filter(({ name }) => (inVain.get(name) ?? 0) < patienceMs)
  while ((await deliverNext(db, answering(), { ...transport, send })) && (await goesOn()));
}

/**
 * Sends the next message that is due, or puts it off; false: none is due. Only for the one process that may send (see takeLease): then the mark of another
 * process means that it ended while it sent.
 */
export const deliverNext = async (db: Db, receivers: readonly ReceiverTraits[], transport: Transport): Promise<boolean> => {
  const taken = await takeNext(db, receivers, transport)
  if (taken === null || taken === 'put off') return taken !== null
  const problem = await transport.send(taken)
  await settle(db, taken, problem)
  return true
}

/** Settles messages whose sender ended while it sent: sent again where the receiver recognises a repetition, else never. */
export const settleInterrupted = async (db: Db, receivers: readonly ReceiverTraits[]): Promise<void> => {
  const repeatable = receivers.filter((one) => one.repeatable).map(({ name }) => name)
  await query(db)`update etl.deliveries set sending_at = null,
      outcome = case when target = any(${repeatable}::text[]) then null else 'uncertain' end,
      last_error = 'The process ended before the receiver answered; the message may have arrived.'
    where sending_at is not null and outcome is null`
}

type DueRow = AlarmCause & Row<'etl.deliveries', 'target' | 'event'> & Row<'etl.notifications', 'grouping'>

/** Due deliveries, oldest first. A `resolved` message waits until its `raised` message has an outcome. */
const dueRows = (db: Db, targets: readonly string[], condition: RawBuilder<unknown>, most: number) =>
  query<DueRow>(db)`
    select x.notification_id::float8 as "notificationId", x.target, x.event, n.kind, n.severity, n.grouping, n.pipeline, n.message, n.changed,
      n.next_step as "nextStep", n.raised_at as "raisedAt", n.resolved_at as "resolvedAt"
    from etl.deliveries x join etl.notifications n on n.notification_id = x.notification_id
    where x.outcome is null and x.sending_at is null and x.next_at <= clock_timestamp() and x.target = any(${[...targets]}::text[]) and ${condition}
      and (x.event = 'raised' or exists (select from etl.deliveries r where r.notification_id = x.notification_id
        and r.target = x.target and r.event = 'raised' and r.outcome is not null))
    order by x.next_at, x.notification_id, x.event limit ${most} for update of x skip locked`

const takeNext = (db: Db, receivers: readonly ReceiverTraits[], { waitMs }: Transport): Promise<Alarm | 'put off' | null> =>
  db.transaction().execute(async (trx) => {
    const names = receivers.map(({ name }) => name)
    const [first] = await dueRows(trx, names, sql`true`, 1)
    if (first === undefined) return null
    const isGrouped = first.grouping !== null && receivers.some(({ name, grouped }) => grouped && name === first.target)
    const alike = sql`x.event = ${first.event} and n.kind = ${first.kind} and n.severity = ${first.severity} and n.grouping = ${first.grouping}`
    const rows = isGrouped ? await dueRows(trx, [first.target], alike, mostInOne) : [first]
    const { target, event, severity } = first
    const alarm = { target, event, causes: rows.map(({ target: _target, event: _event, grouping: _grouping, ...one }) => one) }
    const wait = waitMs(target, severity)
    await deliveriesOf(trx, alarm)
      .set(wait > 0 ? { next_at: msFromNow(Math.ceil(wait)) } : { sending_at: databaseNow })
      .execute()
    return wait > 0 ? 'put off' : alarm
  })

const deliveriesOf = (db: Db, { target, event, causes }: Alarm) =>
  db
    .updateTable('etl.deliveries')
    .where((eb) => eb('notification_id', '=', eb.fn.any(eb.val(causes.map(({ notificationId }) => String(notificationId))))))
    .where((eb) => eb.and({ target, event }))

const settle = async (db: Db, alarm: Alarm, problem: string | null): Promise<void> => {
  const nextAt = sql<string>`clock_timestamp() + least(interval '6 hours', interval '10 seconds' * power(3, attempts))`
  await deliveriesOf(db, alarm)
    .set((eb) => ({
      attempts: eb('attempts', '+', 1),
      sending_at: null,
      last_error: problem,
      ...(problem === null
        ? { sent_at: databaseNow, outcome: 'sent' as const }
        : {
            next_at: nextAt,
            outcome: sql<'given up' | null>`case when attempts + 1 >= ${mostAttempts} then 'given up' end`,
          }),
    }))
    .where('outcome', 'is', null)
    .execute()
}

/** Kinds that only definitions show: the ledger alone does not know them. */
const byDefinition: AlarmKind[] = ['late', 'due', 'quota']

/** The targets of a cause. */
type TargetsOf = (cause: Cause) => readonly string[]

/**
 * Opens a notification for each cause without one, updates open ones, resolves those whose cause is gone, and queues messages for their targets. One
 * transaction. @param known every target there is: a removed one gets nothing more
 * @param judged pipelines whose definitions are loaded; null: all. Causes that only a definition shows are not resolved for other pipelines
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
    await query(trx)`update etl.notifications set resolved_at = clock_timestamp()
      where resolved_at is null and not (cause = any(${causes.map(({ cause }) => cause)}::text[]))
        and (${judged === null} or pipeline is null or not (kind = any(${byDefinition}::text[])) or pipeline = any(${[...(judged ?? [])]}::text[]))`
    const pairs = causes.flatMap((cause) => targetsOf(cause).map((target) => ({ cause: cause.cause, target })))
    // A new target gets no message about causes that ended before it.
    await query(trx)`insert into etl.deliveries (notification_id, target, event)
      select n.notification_id, t.target, 'raised' from unnest(${pairs.map(({ cause }) => cause)}::text[], ${pairs.map(({ target }) => target)}::text[]) as t (cause, target)
        join etl.notifications n on n.cause = t.cause and n.resolved_at is null
      order by 1, 2 on conflict do nothing`
    await query(trx)`insert into etl.deliveries (notification_id, target, event)
      select n.notification_id, d.target, 'resolved' from etl.notifications n join etl.deliveries d on d.notification_id = n.notification_id
      where n.resolved_at is not null and not (n.kind = any(${[...kindsWithoutEnd]}::text[])) and d.event = 'raised' and d.target = any(${[...known]}::text[])
        and (d.outcome in ('sent', 'uncertain') or d.outcome is null and (d.attempts > 0 or d.sending_at is not null))
      order by 1, 2 on conflict do nothing`
    await dropOver(trx)
  })

const open = async (trx: Db, cause: Cause): Promise<void> => {
  const { kind, pipeline, grouping = null, message, changed = null, nextStep = null } = cause
  // A message that was sent, or is being sent, keeps its text.
  const untold = sql`not exists (select from etl.deliveries d where d.notification_id = etl.notifications.notification_id
    and (d.attempts > 0 or d.sending_at is not null or d.outcome is not null))`
  await query(trx)`insert into etl.notifications (cause, kind, severity, grouping, pipeline, message, changed, next_step, details)
    values (${cause.cause}, ${kind}, ${severityOf(cause)}, ${grouping}, ${pipeline}, ${message}, ${changed}, ${nextStep}, ${JSON.stringify(cause.details)}::jsonb)
    on conflict (cause) where resolved_at is null do update set details = excluded.details,
        message = case when ${untold} then excluded.message else etl.notifications.message end,
        changed = case when ${untold} then excluded.changed else etl.notifications.changed end
      where etl.notifications.details is distinct from excluded.details`
}

/** A cause that ended before its message was sent needs no message, nor does the end of a cause that was never sent. */
const dropOver = async (trx: Db): Promise<void> => {
  await query(trx)`update etl.deliveries d set outcome = 'not needed' from etl.notifications n
    where n.notification_id = d.notification_id and n.resolved_at is not null and d.event = 'raised' and d.outcome is null
      and d.attempts = 0 and d.sending_at is null`
  await query(trx)`update etl.deliveries d set outcome = 'not needed'
    where d.event = 'resolved' and d.outcome is null and exists (select from etl.deliveries r where r.notification_id = d.notification_id
      and r.target = d.target and r.event = 'raised' and r.outcome in ('given up', 'not needed'))`
}
