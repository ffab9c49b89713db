// What of a budget is spent: by reports and by requests that are paid for one by one, this day and this month; the month by pipeline and tag.
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import { type Numbers, query, type Texts } from '../db/typed-row.ts'

/** Whose budget is meant: a pipeline's; with `pipeline` null the account's; with `tag` that of all pipelines that have it. */
export interface PurseOf {
  readonly account: string
  readonly pipeline: string | null
  readonly tag?: { readonly name: string; readonly value: string }
}

/** Credits bought or about to be. */
export interface Spent {
  readonly month: number
  readonly day: number
  /** What the usual nights of this month still need, were they as dear as last month's. */
  readonly kept: number
  /** Of them what one pipeline bought beyond the usual. */
  readonly extraMonth: number
  readonly extraDay: number
  /** Purchases under way of unknown price. */
  readonly unpriced: number
  /** Pipelines that wait for a turn of this budget, the asking one included. */
  readonly sharers: number
}

/** Of this month and day, by the database's clock (UTC). */
export interface SpentNow extends Spent {
  /** Milliseconds until the day and the month turn (UTC). */
  readonly dayLeftMs: number
  readonly monthLeftMs: number
}

/** @param ours the pipeline that asks, whose extra purchases are told apart and whose API is meant */
export const spentOf = async (db: Db, { account, pipeline, tag }: PurseOf, ours: string): Promise<SpentNow> => {
  const tags = tag === undefined ? null : JSON.stringify({ [tag.name]: tag.value })
  // A tag is paid for whatever account asks.
  const isOfPurse = (alias: string): RawBuilder<boolean> =>
    tag === undefined
      ? sql<boolean>`${sql.ref(`${alias}.account`)} = ${account}`
      : sql<boolean>`${sql.ref(`${alias}.account`)} = any(array(select distinct a.account from etl.pipelines a))`
  // Quota that is bought or about to be, and whose bill is not known yet, counts with its estimate (as in etl.spending); without one it is counted apart.
  const rows = await query<SpentNow>(db)`
    with turn as materialized (
      select t.day at time zone 'UTC' as day, date_trunc('month', t.day) at time zone 'UTC' as month,
        (date_trunc('month', t.day) - interval '1 month') at time zone 'UTC' as last_month, t.now
      from (select date_trunc('day', clock_timestamp() at time zone 'UTC') as day, clock_timestamp() as now) t
    ), bought as materialized (
      select j.asked_at >= t.month as is_now, j.asked_at >= t.day as is_today, p.pipeline, j.wanted_by in ('range', 'force', 'approval') as is_extra,
        j.wanted_by = 'night' as is_night,
        case when j.used_quota is not null then j.used_quota
          when j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain') then coalesce(j.estimated_quota, 0) else 0 end as credits,
        j.used_quota is null and j.estimated_quota is null and j.report_state in ('intent', 'submitted') as is_unpriced
      from turn t join etl.jobs j on j.asked_at >= t.last_month join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where ${isOfPurse('j')} and (${pipeline}::text is null or p.pipeline = ${pipeline}) and j.report_state is not null
        and (${tags}::jsonb is null or coalesce(j.tag_set_id, p.tag_set_id) in (select s.tag_set_id from etl.tag_sets s where s.tags @> ${tags}::jsonb))
        and ${isSameApi('p', ours)}
      union all
      select c.day >= (t.month at time zone 'UTC')::date, c.day >= (t.day at time zone 'UTC')::date, p.pipeline, not c.is_night, c.is_night, c.credits, false
      from turn t join etl.request_credits c on c.day >= (t.last_month at time zone 'UTC')::date join etl.pipelines p on p.pipeline_id = c.pipeline_id
      where ${isOfPurse('c')} and (${pipeline}::text is null or p.pipeline = ${pipeline})
        and (${tags}::jsonb is null or c.tag_set_id in (select s.tag_set_id from etl.tag_sets s where s.tags @> ${tags}::jsonb))
        and ${isSameApi('p', ours)}
      union all
      select true, true, p.pipeline, j.wanted_by in ('range', 'force', 'approval'), j.wanted_by = 'night',
        case when j.reserved_credits < 'Infinity' then j.reserved_credits else 0 end, j.reserved_credits = 'Infinity'
      from etl.jobs j join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where j.holder is not null and j.reserved_credits is not null and ${isOfPurse('j')} and (${pipeline}::text is null or p.pipeline = ${pipeline})
        and (${tags}::jsonb is null or p.tag_set_id in (select s.tag_set_id from etl.tag_sets s where s.tags @> ${tags}::jsonb))
        and ${isSameApi('p', ours)}
    ), waiting as (
      select count(distinct p.pipeline)::integer as others from etl.jobs j join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where ${pipeline}::text is null and ${isOfPurse('p')} and p.pipeline <> ${ours}
        and (${tags}::jsonb is null or p.tag_set_id in (select s.tag_set_id from etl.tag_sets s where s.tags @> ${tags}::jsonb)) and ${isSameApi('p', ours)}
        and j.state = 'open' and j.ask_number is null and (j.error_code = 'QUOTA_EXHAUSTED' or j.approval_id is not null)
        and j.updated_at > clock_timestamp() - interval '3 days'
    )
    select coalesce(sum(credits) filter (where is_now), 0)::float8 as month, coalesce(sum(credits) filter (where is_today), 0)::float8 as day,
      greatest(0, coalesce(sum(credits) filter (where is_night and not is_now), 0) - coalesce(sum(credits) filter (where is_night and is_now), 0))::float8 as kept,
      coalesce(sum(credits) filter (where is_extra and is_now and pipeline = ${ours}), 0)::float8 as "extraMonth",
      coalesce(sum(credits) filter (where is_extra and is_today and pipeline = ${ours}), 0)::float8 as "extraDay",
      count(*) filter (where is_unpriced)::integer as unpriced,
      1 + (select others from waiting) as sharers,
      (select extract(epoch from day + interval '1 day' - now) * 1000 from turn)::float8 as "dayLeftMs",
      (select extract(epoch from ((month at time zone 'UTC') + interval '1 month') at time zone 'UTC' - now) * 1000 from turn)::float8 as "monthLeftMs"
    from bought`
  return (
    rows[0] ?? { month: 0, day: 0, kept: 0, extraMonth: 0, extraDay: 0, unpriced: 0, sharers: 1, dayLeftMs: 0, monthLeftMs: 0 }
  )
}

/** Whether a row of `etl.pipelines` reads the same API as the pipeline of that name: accounts of two APIs may be named alike. @param alias of the row */
export const isSameApi = (alias: string, pipeline: string): RawBuilder<boolean> => sql<boolean>`
  split_part(${sql.ref(`${alias}.source`)}, '.', 1) =
    (select split_part(own.source, '.', 1) from etl.pipelines own where own.pipeline = ${pipeline} order by own.pipeline_id desc limit 1)`

/** Credits of this month (UTC). */
export interface QuotaSpent {
  readonly account: string
  readonly pipeline: string
  /** What the pipeline reads, newest version. */
  readonly source: string
  readonly spent: number
}

/** Credits used and reserved this month (UTC) by account and pipeline. */
export const quotaThisMonth = async (db: Db): Promise<readonly QuotaSpent[]> => {
  const rows = await query<QuotaSpent>(db)`
    select q.account, q.pipeline, (coalesce(sum(q.used_quota), 0) + coalesce(sum(q.reserved_quota), 0))::float8 as spent,
      (select p.source from etl.pipelines p where p.pipeline = q.pipeline order by p.pipeline_id desc limit 1) as source
    from etl.quota q where q.day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date group by q.account, q.pipeline`
  return rows
}

type TagSpent = Texts<'api'> & Numbers<'spent'>

/** Credits of this month (UTC) that were charged to a tag, by API. */
export const tagThisMonth = async (db: Db, name: string, value: string): Promise<readonly TagSpent[]> => {
  const rows = await query<TagSpent>(db)`
    select split_part(p.source, '.', 1) as api, (coalesce(sum(s.used_quota), 0) + coalesce(sum(s.reserved_quota), 0))::float8 as spent
    from etl.spending s join etl.pipelines p using (pipeline_id)
    where s.day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date
      and s.tag_set_id in (select t.tag_set_id from etl.tag_sets t where t.tags @> ${JSON.stringify({ [name]: value })}::jsonb) group by 1`
  return rows
}
