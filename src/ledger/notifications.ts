// The outbox of notifications: causes that hold now, told once when they begin and once when they end, to each target.
import { type RawBuilder, sql } from 'kysely'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'

export type CauseKind = 'failure' | 'held' | 'late' | 'drift' | 'quarantine' | 'quota' | 'approval'

export interface Cause {
  /** Names the cause for as long as it holds: `failure/keywords`. */
  readonly cause: string
  readonly kind: CauseKind
  readonly pipeline: string | null
  readonly message: string
  readonly details: Readonly<Record<string, unknown>>
}

/** Units a notification remembers: a cause of more is over when these are mended and no other is in trouble. */
const mostRemembered = 1_000

// The load that a unit's rows are as of: another one, and something was loaded since, or found unchanged.
const loadOf = (unit: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`coalesce((select max(l.load_id) from etl.loads l where l.answer_id = ${unit}.answer_id and l.window_from = ${unit}.window_from), 0)`

// Units of causes that were told and are neither in trouble now nor loaded since: a try under way mends nothing, nor does one that was cancelled,
// after which the unit may not even stand in the ledger any more. Hence they are remembered by pipeline, window and slice.
const remembered = sql`
  select n.kind, p.pipeline, s.pipeline_id, r.at[2]::date as window_from, s.slice_id, u.error_message
  from etl.notifications n
    cross join lateral (select string_to_array(x.place, '/') as at, x.load_id::bigint as load_id
      from jsonb_each_text(n.details -> 'units') as x (place, load_id)) r
    join etl.slices s on s.slice_id = r.at[3]::integer join etl.pipelines p on p.pipeline_id = s.pipeline_id
    left join etl.unit_list u on u.pipeline_id = s.pipeline_id and u.window_from = r.at[2]::date and u.slice_id = s.slice_id
  where n.resolved_at is null and n.kind in ('failure', 'held') and coalesce(u.state, 'planned') not in ('held', 'failed')
    and (s.wanted_until is null or u.job_id is not null) and ${loadOf(sql`u`)} = r.load_id`

const troubled = sql`
  select case t.state when 'failed' then 'failure' else 'held' end as kind, p.pipeline, t.pipeline_id, t.window_from, t.slice_id, t.error_message
  from etl.troubled_units t join etl.pipelines p on p.pipeline_id = t.pipeline_id`

interface CauseRow {
  readonly kind: CauseKind
  readonly pipeline: string
  readonly n: number
  readonly example: string | null
  readonly units: unknown
}

/** What the ledger says is wrong now: failed and held units, rows in quarantine, drift, what waits for approval. Quota and lateness are for others to add. */
export const causesInLedger = async (db: Db): Promise<readonly Cause[]> => [
  ...(await troubles(db)),
  ...(await approvalCauses(db)),
]

/** One cause for all that waits of a pipeline; another one whenever that changes. */
const approvalCauses = async (db: Db): Promise<readonly Cause[]> => {
  const rows = await db
    .selectFrom('etl.approvals as a')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'a.pipeline_id')
    .select(['a.approval_id', 'p.pipeline', 'a.units', 'a.reports', 'a.credits', 'a.allowed'])
    .where('a.state', '=', 'waiting')
    .where('a.units', '>', '0')
    .orderBy('a.approval_id')
    .execute()
  return rows.map(({ approval_id, pipeline, units, reports, credits, allowed }) => ({
    cause: `approval/${pipeline}/${approval_id}`,
    kind: 'approval',
    pipeline,
    message:
      `${pipeline}: ${units} units (${reports} reports, about ${credits} credits) need approval${allowed === null ? '' : `: a night may cost ${allowed}`}. ` +
      `\`millrace plan ${pipeline}\` shows them, \`millrace approve ${pipeline}\` allows them.`,
    details: { approval_id: Number(approval_id), units: Number(units), reports, credits: Number(credits) },
  }))
}

const troubles = async (db: Db): Promise<readonly Cause[]> => {
  const { rows } = await sql<CauseRow>`
    select c.kind, c.pipeline, count(*)::float8 as n, min(c.error_message) as example,
      jsonb_object_agg(concat_ws('/', c.pipeline_id, c.window_from, c.slice_id), ${loadOf(sql`u`)}) filter (where c.place <= ${mostRemembered}) as units
    from (select x.*, row_number() over (partition by x.kind, x.pipeline order by x.pipeline_id, x.window_from, x.slice_id) as place
        from (${troubled} union all ${remembered}) x) c
      left join etl.units u on c.place <= ${mostRemembered} and u.pipeline_id = c.pipeline_id and u.window_from = c.window_from
        and u.slice_id = c.slice_id
    group by 1, 2
    union all select 'quarantine', pipeline, count(*)::float8, min(reason), null from etl.quarantine where state = 'open' group by pipeline
    union all select 'drift', pipeline, 1, min(drift::text), null from etl.last_loads where drift is not null group by pipeline`.execute(
    db,
  )
  return rows.map(({ kind, pipeline, n, example, units }) => ({
    cause: `${kind}/${pipeline}`,
    kind,
    pipeline,
    message: wordsOf(kind, pipeline, n, example),
    details: { count: n, example, ...(units === null ? {} : { units }) },
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
  /** What the pipeline reads, newest version. */
  readonly source: string
  readonly spent: number
}

/** Credits used and reserved this month (UTC) by account and pipeline. */
export const quotaThisMonth = async (db: Db): Promise<readonly QuotaSpent[]> => {
  const { rows } = await sql<QuotaSpent>`
    select q.account, q.pipeline, (coalesce(sum(q.used_quota), 0) + coalesce(sum(q.reserved_quota), 0))::float8 as spent,
      (select p.source from etl.pipelines p where p.pipeline = q.pipeline order by p.pipeline_id desc limit 1) as source
    from etl.quota q where q.day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date group by q.account, q.pipeline`.execute(
    db,
  )
  return rows
}

/** Opens a notification for each cause without one, brings the details of open ones up to date, ends those whose cause is gone, and queues both for every target. One transaction. */
export const syncNotifications = (db: Db, causes: readonly Cause[], targets: readonly string[]): Promise<void> =>
  db.transaction().execute(async (trx) => {
    await lockByName(trx, 'notifications')
    for (const { cause, kind, pipeline, message, details } of causes)
      await sql`insert into etl.notifications (cause, kind, pipeline, message, details)
        values (${cause}, ${kind}, ${pipeline}, ${message}, ${JSON.stringify(details)}::jsonb)
        on conflict (cause) where resolved_at is null do update set details = excluded.details
          where etl.notifications.details is distinct from excluded.details`.execute(trx)
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
/** A sender that has said nothing for that long is given up; another one sends again. */
const sendingFor = sql`interval '1 minute'`

/**
 * Takes the next due delivery, hands it to `send`, and writes down what became of it; false when none is due. No transaction is open meanwhile.
 * Two senders never take the same one. A resolved event waits until its raised one is out.
 * @param send null: it was taken; else why not
 */
export const deliverNext = async (
  db: Db,
  targets: readonly string[],
  send: (delivery: Delivery) => Promise<string | null>,
): Promise<boolean> => {
  const delivery = await takeNext(db, targets)
  if (delivery === undefined) return false
  const problem = await send(delivery)
  const nextAt = sql<string>`clock_timestamp() + least(interval '6 hours', interval '10 seconds' * power(3, attempts))`
  await db
    .updateTable('etl.deliveries')
    .set((eb) => ({
      attempts: eb('attempts', '+', 1),
      last_error: problem,
      ...(problem === null ? { sent_at: sql<string>`clock_timestamp()` } : { next_at: nextAt }),
    }))
    .where('notification_id', '=', String(delivery.notification_id))
    .where('target', '=', delivery.target)
    .where('event', '=', delivery.event)
    .execute()
  return true
}

const takeNext = async (db: Db, targets: readonly string[]): Promise<Delivery | undefined> => {
  const { rows } = await sql<Delivery>`
    with due as materialized (
      select x.notification_id, x.target, x.event from etl.deliveries x
      where x.sent_at is null and x.next_at <= clock_timestamp() and x.attempts < ${mostAttempts} and x.target = any(${[...targets]}::text[])
        and (x.event = 'raised' or exists (select 1 from etl.deliveries r where r.notification_id = x.notification_id
          and r.target = x.target and r.event = 'raised' and (r.sent_at is not null or r.attempts >= ${mostAttempts})))
      order by x.next_at, x.notification_id, x.event limit 1 for update of x skip locked)
    update etl.deliveries d set next_at = clock_timestamp() + ${sendingFor} from etl.notifications n, due
    where d.notification_id = due.notification_id and d.target = due.target and d.event = due.event and n.notification_id = d.notification_id
    returning d.notification_id::float8 as notification_id, d.target, d.event, d.attempts, n.kind, n.pipeline, n.message, n.raised_at, n.resolved_at`.execute(
    db,
  )
  return rows[0]
}
