// What a night is judged by: what the pipeline holds already, what its nights cost of late, and what one of its reports costs.
import { type RawBuilder, sql } from 'kysely'
import type { IsoDate } from '../core/types.ts'
import type { Flags, Lists, Maybe, Texts } from '../db/row.ts'
import type { Db } from '../db/tables.ts'

/** How cells that were never asked for are told apart: see askReasons in candidates.ts. */
export interface UsualRule {
  /** The pipeline holds another version or other key parameters, and nothing of these. */
  readonly isNewVersion: boolean
  /** The newest windows that hold anything; a value that is loaded in one of them is held. */
  readonly heldWindows: readonly IsoDate[]
  /** First day of the oldest window that is no older month. */
  readonly recentFrom: IsoDate
}

/** Windows in which a value is searched for: one alone may lack it for a night. */
const mostHeldWindows = 3

/** @param recentFrom first day of the look-back, or of the newest published window where there is none */
export const usualRule = async (
  db: Db,
  pipelineId: number,
  recentFrom: IsoDate,
  windowAfter: (from: IsoDate) => IsoDate,
): Promise<UsualRule> => {
  const { rows } = await sql<Maybe<Lists<Texts<'held'>>> & Flags<'other'>>`
    select (select array_agg(h.window_from::text order by h.window_from desc) from (
        select w.window_from from etl.windows w where w.pipeline_id = ${pipelineId} and (w.closed_units > 0 or exists (
          select from etl.units u where u.pipeline_id = w.pipeline_id and u.window_from = w.window_from and u.answer_id is not null))
        order by w.window_from desc limit ${mostHeldWindows}) h) as held,
      exists (select from etl.pipelines p join etl.pipelines o on o.pipeline = p.pipeline and o.pipeline_id <> p.pipeline_id
        where p.pipeline_id = ${pipelineId} and exists (select from etl.answers a where a.pipeline_id = o.pipeline_id)) as other`.execute(
    db,
  )
  const held = rows[0]?.held ?? []
  const [newest] = held
  const next = newest === undefined ? recentFrom : windowAfter(newest)
  return {
    isNewVersion: held.length === 0 && rows[0]?.other === true,
    heldWindows: held,
    recentFrom: next < recentFrom ? next : recentFrom,
  }
}

/** Credits of a purchase `j`: as the service named them, else as estimated, else 1 a unit; 0 where nothing was bought. */
const creditsOf = sql<number>`case when j.used_quota is not null then j.used_quota
  when j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain') then coalesce(j.estimated_quota, j.cells) else 0 end`

/** Reasons for which a night buys what it always buys. */
const usualReasons = sql`('new', 'look-back', 'full check', 'unfinished', 'forced')`

/** What nights cost so far, which says what is usual. */
export interface PastNights {
  /** Credits of the dearest night of the last 35 days; 0 where none bought anything. */
  readonly dearest: number
  /** Mean credits of the newest reports; null: none was bought. */
  readonly report: number | null
}

/** A release comes once a month: 35 days hold one in any case. */
const nightsLast = sql`interval '35 days'`

/**
 * Over every version of the pipeline. A night is a run of `run` or `schedule`; of what it bought only the usual counts: neither what a person approved
 * nor new values, older months and changed definitions, so that what is usual does not grow by what was not.
 */
export const pastNights = async (db: Db, pipeline: string): Promise<PastNights> => {
  const { rows } = await sql<PastNights>`
    with bought as materialized (
      select j.job_id, j.run_id, j.asked_at, j.reason, j.approval_id, (${creditsOf})::float8 as credits
      from etl.jobs j join etl.pipelines p using (pipeline_id)
      where p.pipeline = ${pipeline} and j.report_state is not null and j.asked_at > clock_timestamp() - interval '400 days'
    ), nights as (
      select sum(b.credits) as credits from bought b join etl.runs r using (run_id)
      where r.command in ('run', 'schedule') and b.approval_id is null and b.reason in ${usualReasons}
        and b.asked_at > clock_timestamp() - ${nightsLast} group by b.run_id
    )
    select coalesce((select max(credits) from nights), 0) as dearest,
      (select avg(credits) from (select credits from bought where credits > 0 order by asked_at desc limit 50) x) as report`.execute(
    db,
  )
  return rows[0] ?? { dearest: 0, report: null }
}

/** Whether slice `s` is held: loaded in one of the newest windows, or of the first lists there were. */
export const isHeldSlice = (pipelineId: number, { heldWindows }: UsualRule): RawBuilder<boolean> =>
  sql<boolean>`(s.wanted_since <= 1 or exists (select from etl.units h where h.pipeline_id = ${pipelineId}
    and h.window_from = any(${[...heldWindows]}::date[]) and h.slice_id = s.slice_id and h.answer_id is not null))`
