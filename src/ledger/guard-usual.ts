// What a night is judged by: what the pipeline has loaded already, what nights of its account have cost lately, and what one of its reports costs.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { IsoDate } from '../core/types.ts'
import { type Flags, type Lists, type Maybe, queryOne, type Texts } from '../db/typed-row.ts'
import type { Db, JobsTable } from '../db/tables.ts'
import { isSameApi } from './spent.ts'

/** Who first wanted a purchase: a night as usual, a night beyond its usual, or a person. */
export type WantedBy = Selectable<JobsTable>['wanted_by']

/** How cells that were never asked for are told apart: see askReasons in candidates.ts. */
export interface UsualRule {
  /** Another version of the pipeline, or other key parameters, has answers, and this one has loaded nothing. */
  readonly isNewVersion: boolean
  /** The newest windows with loaded units. A value that is loaded in one of them is known, not new. */
  readonly loadedWindows: readonly IsoDate[]
  /** First day of the oldest window that is no `older month`; earlier ones are, unless a night has asked for the value from there on. */
  readonly recentFrom: IsoDate
}

/** How many windows are searched for a value: a single one may lack it for a night. */
const mostLoadedWindows = 3

/** @param recentFrom first day of the look-back, or of the window before the newest published one where there is none */
export const usualRule = async (db: Db, pipelineId: number, recentFrom: IsoDate): Promise<UsualRule> => {
  const { held, other } = await queryOne<Maybe<Lists<Texts<'held'>>> & Flags<'other'>>(db)`
    select (select array_agg(h.window_from::text order by h.window_from desc) from (
        select w.window_from from etl.windows w where w.pipeline_id = ${pipelineId} and (w.closed_units > 0 or exists (
          select from etl.units u where u.pipeline_id = w.pipeline_id and u.window_from = w.window_from and u.answer_id is not null))
        order by w.window_from desc limit ${mostLoadedWindows}) h) as held,
      exists (select from etl.pipelines p join etl.pipelines o on o.pipeline = p.pipeline and o.pipeline_id <> p.pipeline_id
        where p.pipeline_id = ${pipelineId} and exists (select from etl.answers a where a.pipeline_id = o.pipeline_id)) as other`
  return { isNewVersion: held === null && other, loadedWindows: held ?? [], recentFrom }
}

/** Slice `s` is known, not new: it is loaded in one of the newest windows, or was in the first lists. */
export const isKnownSlice = (pipelineId: number, { loadedWindows }: UsualRule): RawBuilder<boolean> =>
  sql<boolean>`(s.wanted_since <= 1 or exists (select from etl.units h where h.pipeline_id = ${pipelineId}
    and h.window_from = any(${[...loadedWindows]}::date[]) and h.slice_id = s.slice_id and h.answer_id is not null))`

/** Credits of purchases that no person asked for. */
export interface Unasked {
  /** Usual purchases of the most expensive recent day (UTC); 0 where nights bought nothing. */
  readonly dearest: number
  /** Of the last 24 hours, bought, or planned by a run at work: usual purchases, and those beyond. */
  readonly usual: number
  readonly beyond: number
}

/** What nights cost so far, which says what is usual. */
export interface PastNights {
  readonly pipeline: Unasked
  /** Over all pipelines that are paid for by the same account. */
  readonly account: Unasked
  /** Credits of ranges of the pipeline that people named in the last 24 hours. */
  readonly named: number
  /** Mean credits of the newest reports that nights wanted by themselves; 0: only others were bought; null: no report was. */
  readonly report: number | null
}

/** A release comes once a month: 35 days hold one in any case. */
const nightsLast = sql`interval '35 days'`

/** Less than a day, so that a night does not count against the next one, which may begin an hour earlier where clocks change. */
const nightsApart = sql`interval '22 hours'`

/** Credits of a purchase `j`: as the service named them, else as estimated, else 1 a unit; 0 where nothing was bought. */
const creditsOf = sql<number>`case when j.used_quota is not null then j.used_quota
  when j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain') then coalesce(j.estimated_quota, j.cells) else 0 end`

/**
 * Over every version of the pipeline, reports and pages alike. Only purchases that nights wanted by themselves count, whatever run bought them, and none
 * that a person named, forced or approved. So purchases beyond the usual do not raise the usual.
 */
export const pastNights = (db: Db, { pipeline, account }: { pipeline: string; account: string }): Promise<PastNights> => {
  const isOwn = sql<boolean>`p.pipeline = ${pipeline}`
  return queryOne<PastNights>(db)`
    with reports as materialized (
      select ${isOwn} as is_own, j.wanted_by, (j.asked_at at time zone 'UTC')::date as day, (${creditsOf})::float8 as credits,
        j.asked_at > clock_timestamp() - interval '24 hours' and coalesce(r.started_at > clock_timestamp() - ${nightsApart}, true) as is_new
      from etl.jobs j join etl.pipelines p using (pipeline_id) left join etl.runs r using (run_id)
      where j.account = ${account} and ${isSameApi('p', pipeline)} and j.report_state is not null and j.asked_at > clock_timestamp() - ${nightsLast}
    ), pages as (
      select ${isOwn} as is_own, case when c.is_night then 'night' else 'beyond' end as wanted_by, c.day, c.credits::float8 as credits, false as is_new
      from etl.request_credits c join etl.pipelines p using (pipeline_id)
      where c.account = ${account} and ${isSameApi('p', pipeline)} and c.day > (clock_timestamp() - ${nightsLast})::date
    ), pages_now as (
      select ${isOwn} as is_own, coalesce(j.wanted_by, case when r.command in ('run', 'schedule') then 'night' else 'range' end) as wanted_by,
        null::date as day, q.credits::float8 as credits, true as is_new
      from etl.runs r join etl.requests q on q.run_id = r.run_id and q.credits > 0 join etl.jobs j on j.job_id = q.job_id
        join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where r.started_at > clock_timestamp() - ${nightsApart} and q.account = ${account} and ${isSameApi('p', pipeline)}
    ), planned as (
      select distinct on (j.job_id) ${isOwn} as is_own, j.wanted_by, null::date as day, coalesce(j.estimated_quota, j.cells)::float8 as credits, true as is_new
      from etl.runs r join etl.run_jobs w on w.run_id = r.run_id and w.outcome is null join etl.jobs j on j.job_id = w.job_id
        join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where r.state = 'running' and r.cancel_requested_at is null and j.account = ${account} and ${isSameApi('p', pipeline)}
        and j.state = 'open' and j.report_state is null and j.answer_id is null
    ), counted as (
      select * from reports union all select * from pages union all select * from pages_now union all select * from planned
    )
    select ${unasked(sql`is_own`)} as pipeline, ${unasked(sql`true`)} as account,
      (select coalesce(sum(credits), 0) from counted where is_new and is_own and wanted_by in ('range', 'force')) as named,
      (select coalesce(avg(credits) filter (where wanted_by = 'night'), case when count(*) > 0 then 0 end) from (
        select j.wanted_by, (${creditsOf})::float8 as credits from etl.jobs j join etl.pipelines p using (pipeline_id)
        where ${isOwn} and j.report_state is not null and (${creditsOf}) > 0 and j.asked_at > clock_timestamp() - interval '400 days'
        order by j.wanted_by = 'night' desc, j.asked_at desc limit 50) x) as report`
}

/** @param whose condition on the rows of `counted` */
const unasked = (whose: RawBuilder<unknown>): RawBuilder<Unasked> => sql<Unasked>`(
    select json_build_object(
      'dearest', coalesce((select max(credits) from (
        select sum(credits) as credits from counted where ${whose} and wanted_by = 'night' and day is not null group by day) d), 0),
      'usual', coalesce(sum(credits) filter (where wanted_by = 'night'), 0), 'beyond', coalesce(sum(credits) filter (where wanted_by = 'beyond'), 0))
    from counted where ${whose} and is_new)`
