// What of a budget is spent, by reports and by paid requests, this day and this month, and the month by pipeline and tag. Also readings of the service's own counter:
// what it says is left, and what it charged between two readings beyond what is recorded.
import { type RawBuilder, sql } from 'kysely'
import { rounded } from '../core/learned-price.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'
import { type Flags, type Maybe, type Numbers, query, queryOne, queryValue, type Texts } from '../db/typed-row.ts'
import { isPlanningReserve } from './request-credits.ts'
import { isWaitedFor, maybePaid } from './wait-list.ts'

/** Whose budget is meant: a pipeline's; with `pipeline` null the account's; with `tag` that of all pipelines that have it. */
export interface BudgetScope {
  readonly account: string
  readonly pipeline: string | null
  readonly tag?: { readonly name: string; readonly value: string }
}

/** Credits bought or about to be. */
export interface Spent {
  readonly month: number
  readonly day: number
  /** What this month's nights still need if they cost as much as last month's. */
  readonly kept: number
  /** The part of it that the asking pipeline bought beyond the usual. */
  readonly extraMonth: number
  readonly extraDay: number
  /** Purchases in progress of unknown price, or of a price that the service named and no earlier report of the pipeline confirms: `isPriceConfirmed`. */
  readonly unpriced: number
  /** Today's purchases of unknown price whose bill was lost: pages whose process was killed, reports whose submission got no response or that expired. */
  readonly lost: number
  /** Pipelines that wait for credits of this budget, the asking one included. */
  readonly sharers: number
}

/** Of this month and day, by the database's clock (UTC). */
export interface SpentNow extends Spent {
  /** The pipeline of one unpriced purchase, where no process and no live run waits for any of them; else null. */
  readonly leftAlone: string | null
  /** Milliseconds until the day and the month turn (UTC). */
  readonly dayLeftMs: number
  readonly monthLeftMs: number
}

/** Report `j` of pipeline `p`: an earlier report confirms the prices that the service names for the pipeline. Reports that failed, were rejected or expired confirm nothing. */
const isPriceConfirmed = sql<boolean>`(j.said_quota is null or exists (select from etl.jobs b join etl.pipelines o on o.pipeline_id = b.pipeline_id
  where b.account = j.account and o.pipeline = p.pipeline and b.said_quota is not null
    and b.report_state not in ('intent', 'submitted', 'uncertain', 'failed', 'rejected', 'expired')))`

/** Report `j` is in progress at an unknown price. A job that is only recorded, since another clone bought it, does not count: this warehouse would never see its bill. */
const isUnpriced = sql<boolean>`(j.used_quota is null and j.state <> 'replaced' and j.report_state in ('intent', 'submitted') and (j.estimated_quota is null or not ${isPriceConfirmed}))`

/** No run waits for report `j`, and no process is about to poll it: its job is not open, its deadline has passed, or its poll is overdue. */
const isLeft = sql<boolean>`(j.holder is null and not ${isWaitedFor(sql`j.job_id`)}
  and (j.state <> 'open' or coalesce(j.deadline_at <= t.now, false) or coalesce(j.next_poll_at, j.updated_at) < t.now - interval '15 seconds'))`

/** @param ours the asking pipeline: its purchases beyond the usual are counted apart, and only its API is meant */
export const spentOf = (db: Db, { account, pipeline, tag }: BudgetScope, ours: string): Promise<SpentNow> => {
  const tags = tag === undefined ? null : JSON.stringify({ [tag.name]: tag.value })
  // A tag's budget spans all accounts.
  const accounts = tag === undefined ? sql`array[${account}]` : sql`array(select distinct a.account from etl.pipelines a)`
  const isOfPurse = (by: string, tagSet = sql`p.tag_set_id`): RawBuilder<boolean> =>
    sql<boolean>`${sql.ref(`${by}.account`)} = any(${accounts}) and (${pipeline}::text is null or p.pipeline = ${pipeline}) and ${isSameApi('p', ours)}
      and (${tags}::jsonb is null or ${tagSet} in (select s.tag_set_id from etl.tag_sets s where s.tags @> ${tags}::jsonb))`
  // Quota that is bought or about to be, and whose bill is not known yet, counts with its estimate (as in etl.spending); without one it is counted apart.
  return queryOne<SpentNow>(db)`
    with turn as materialized (
      select t.day at time zone 'UTC' as day, date_trunc('month', t.day) at time zone 'UTC' as month,
        (date_trunc('month', t.day) - interval '1 month') at time zone 'UTC' as last_month, t.now
      from (select date_trunc('day', clock_timestamp() at time zone 'UTC') as day, clock_timestamp() as now) t
    ), bought as materialized (
      select j.asked_at >= t.month as is_now, j.asked_at >= t.day as is_today, p.pipeline, j.wanted_by in ('range', 'force', 'approval') as is_extra,
        j.wanted_by = 'night' as is_night,
        case when j.used_quota is not null then j.used_quota
          when j.report_state in ${maybePaid} then coalesce(j.estimated_quota, 0) else 0 end as credits,
        ${isUnpriced} as is_unpriced, ${isUnpriced} and ${isLeft} as is_left,
        (j.report_state in ('uncertain', 'expired') and j.used_quota is null and j.estimated_quota is null and j.asked_at <= t.now)::integer as lost
      from turn t join etl.jobs j on j.asked_at >= t.last_month join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where ${isOfPurse('j', sql`coalesce(j.tag_set_id, p.tag_set_id)`)} and j.report_state is not null
      union all
      select c.day >= (t.month at time zone 'UTC')::date or ${isPlanningReserve}, c.day >= (t.day at time zone 'UTC')::date or ${isPlanningReserve}, p.pipeline, not c.is_night, c.is_night,
        c.credits + c.unpriced * coalesce(sum(c.credits) over same / nullif(sum(c.requests - c.unpriced) over same, 0), 0), false, false, c.lost
      from turn t join etl.request_credits c on c.day >= (t.last_month at time zone 'UTC')::date join etl.pipelines p on p.pipeline_id = c.pipeline_id
      where ${isOfPurse('c', sql`c.tag_set_id`)}
      window same as (partition by c.pipeline_id)
      union all
      select true, true, p.pipeline, j.wanted_by in ('range', 'force', 'approval'), j.wanted_by = 'night',
        j.reserved_credits, j.reserves_all, false, 0
      from etl.jobs j join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where j.holder is not null and j.reserved_credits is not null and ${isOfPurse('j')}
    ), waiting as (
      select count(distinct p.pipeline)::integer as others from etl.jobs j join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where ${pipeline}::text is null and ${isOfPurse('p')} and p.pipeline <> ${ours}
        and j.state = 'open' and j.ask_number is null and (j.error_code = 'QUOTA_EXHAUSTED' or j.approval_id is not null and j.served_by is null)
        and j.updated_at > clock_timestamp() - interval '3 days'
    )
    select coalesce(sum(credits) filter (where is_now), 0)::float8 as month, coalesce(sum(credits) filter (where is_today), 0)::float8 as day,
      greatest(0, coalesce(sum(credits) filter (where is_night and not is_now), 0) - coalesce(sum(credits) filter (where is_night and is_now), 0))::float8 as kept,
      coalesce(sum(credits) filter (where is_extra and is_now and pipeline = ${ours}), 0)::float8 as "extraMonth",
      coalesce(sum(credits) filter (where is_extra and is_today and pipeline = ${ours}), 0)::float8 as "extraDay",
      count(*) filter (where is_unpriced)::integer as unpriced,
      case when bool_and(is_left) filter (where is_unpriced) then min(pipeline) filter (where is_unpriced) end as "leftAlone", coalesce(sum(lost) filter (where is_today), 0)::float8 as lost,
      1 + (select others from waiting) as sharers,
      (select extract(epoch from day + interval '1 day' - now) * 1000 from turn)::float8 as "dayLeftMs",
      (select extract(epoch from ((month at time zone 'UTC') + interval '1 month') at time zone 'UTC' - now) * 1000 from turn)::float8 as "monthLeftMs"
    from bought`
}

/** Whether a row of `etl.pipelines` reads the same API as the pipeline of that name: accounts of two APIs may be named alike. @param alias of the row */
export const isSameApi = (alias: string, pipeline: string): RawBuilder<boolean> => sql<boolean>`
  split_part(${sql.ref(`${alias}.source`)}, '.', 1) =
    (select split_part(own.source, '.', 1) from etl.pipelines own where own.pipeline = ${pipeline} order by own.pipeline_id desc limit 1)`

/** `source`: what the pipeline reads, newest version. */
export type QuotaSpent = Texts<'account' | 'pipeline' | 'source'> & Numbers<'spent'>

/** Credits used and reserved this month (UTC) by account and pipeline. */
export const quotaThisMonth = (db: Db): Promise<readonly QuotaSpent[]> =>
  query<QuotaSpent>(db)`
    select q.account, q.pipeline, (coalesce(sum(q.used_quota), 0) + coalesce(sum(q.reserved_quota), 0))::float8 as spent,
      (select p.source from etl.pipelines p where p.pipeline = q.pipeline order by p.pipeline_id desc limit 1) as source
    from etl.quota q where q.day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date group by q.account, q.pipeline`

type TagSpent = Texts<'api'> & Numbers<'spent'>

/** Credits of this month (UTC) that were charged to a tag, by API. */
export const tagThisMonth = (db: Db, name: string, value: string): Promise<readonly TagSpent[]> =>
  query<TagSpent>(db)`
    select split_part(p.source, '.', 1) as api, (coalesce(sum(s.used_quota), 0) + coalesce(sum(s.reserved_quota), 0))::float8 as spent
    from etl.spending s join etl.pipelines p using (pipeline_id)
    where s.day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date
      and s.tag_set_id in (select t.tag_set_id from etl.tag_sets t where t.tags @> ${JSON.stringify({ [name]: value })}::jsonb) group by 1`

/** Whose counter at the service is read. */
type MeterOf = Texts<'api' | 'account' | 'pipeline'>

/** What is recorded of the account over all time. `isQuiet`: nothing is in progress that is not recorded yet. */
type Charges = Numbers<'requests' | 'reports'> & Flags<'isQuiet'>

/** Whether this process only reads pages of one source for the account, one by one over all its pipelines, and no other process does anything: then the balance shows what a page cost. */
export const isOnlySpender = (
  db: Db,
  { account, pipeline }: Pick<MeterOf, 'account' | 'pipeline'>,
  own: { readonly processId: number; readonly source: string; readonly hasOwnBalance: boolean },
): Promise<boolean> =>
  queryValue<Flags<'alone'>>(db)`
    select not exists (select from etl.jobs j join etl.pipelines o on o.pipeline_id = j.pipeline_id
      where j.state = 'open' and j.account = ${account} and ${isSameApi('o', pipeline)} and (not ${own.hasOwnBalance} or j.kind = 'walk') and (j.report_state in ('intent', 'submitted')
        or j.holder is not null and (j.holder <> ${own.processId} or o.source <> ${own.source}))) as alone`

/** What the ledger says was charged. */
export const chargesOf = (db: Db, { account, pipeline }: MeterOf): Promise<Charges> =>
  queryOne<Charges>(db)`
    select coalesce(sum(s.used_quota) filter (where s.requests > 0), 0)::float8 as requests,
      coalesce(sum(s.used_quota) filter (where s.requests = 0), 0)::float8 as reports,
      not exists (select from etl.jobs j join etl.pipelines o on o.pipeline_id = j.pipeline_id
        where j.state = 'open' and (j.holder is not null or j.report_state in ('intent', 'submitted')) and j.account = ${account}
          and ${isSameApi('o', pipeline)}) as "isQuiet"
    from etl.spending s join etl.pipelines p using (pipeline_id) where s.account = ${account} and ${isSameApi('p', pipeline)}`

/** Whether the account's balance was read this month (UTC): the service refills it when a month begins. */
export const hasReading = async (db: Db, { api, account }: MeterOf): Promise<boolean> =>
  (await newestReading(db, api, account)) !== undefined

const newestReading = (db: Db, api: string, account: string) =>
  db
    .selectFrom('etl.meter_readings')
    .select(sql<Remaining>`json_build_object('requests', remaining_requests, 'credits', remaining_credits)`.as('left'))
    .select(
      sql<Numbers<'requests' | 'reports'>>`json_build_object('requests', counted_requests, 'reports', counted_reports)`.as(
        'counted',
      ),
    )
    .where((eb) => eb.and({ api, account }))
    .where('read_at', '>=', sql<string>`date_trunc('month', clock_timestamp() at time zone 'UTC') at time zone 'UTC'`)
    .orderBy('reading_id', 'desc')
    .limit(1)
    .executeTakeFirst()

/** What the service says is left; null: it does not say. */
type Remaining = Maybe<Numbers<'requests' | 'credits'>>

/** Keeps the reading. Returns what the service charged since the reading before, beyond what is recorded; null: there is none to compare with. */
export const keepReading = (db: Db, { api, account }: MeterOf, left: Remaining, counted: Charges): Promise<number | null> =>
  db.transaction().execute(async (trx) => {
    // Of two at once the second compares with the first: what was charged is counted once.
    await lockByName(trx, `readings of ${api}/${account}`)
    const before = await newestReading(trx, api, account)
    const difference = before === undefined ? null : differenceOf(before, { left, counted })
    await trx
      .insertInto('etl.meter_readings')
      .values({
        ...{ api, account, remaining_requests: left.requests, remaining_credits: left.credits },
        ...{ counted_requests: counted.requests, counted_reports: counted.reports, difference },
      })
      .execute()
    return difference
  })

type Reading = NonNullable<Awaited<ReturnType<typeof newestReading>>>

/**
 * Requests and reports may be paid from one balance. The service then names the same number twice; where it names one, as in V5, it is one balance if it lost most of what
 * requests cost, too. null: it was refilled, or the service named none.
 */
const differenceOf = (before: Reading, now: Reading): number | null => {
  const charged = (balance: keyof Remaining): number | null => {
    const [was, is] = [before.left[balance], now.left[balance]]
    return was === null || is === null || is > was ? null : was - is
  }
  const requests = now.counted.requests - before.counted.requests
  const reports = now.counted.reports - before.counted.reports
  const isSaidTwice = before.left.requests === before.left.credits && now.left.requests === now.left.credits
  const isSaidOnce = before.left.requests === null && now.left.requests === null
  const isOneBalance = isSaidTwice || (isSaidOnce && (charged('credits') ?? 0) - reports > requests / 2)
  const balances = isOneBalance
    ? [{ said: charged('credits'), counted: requests + reports }]
    : [
        { said: charged('requests'), counted: requests },
        { said: charged('credits'), counted: reports },
      ]
  const differences = balances.flatMap(({ said, counted }) => (said === null ? [] : said - counted))
  return differences.length === 0 ? null : rounded(differences.reduce((sum, one) => sum + one, 0))
}
