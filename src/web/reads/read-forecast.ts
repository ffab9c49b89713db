// What will have been spent when the month is over: what is spent, what is planned, and what the nights until then will buy as far as calendar and past tell.
import { sql } from 'kysely'
import { unitsStillToCome } from '../../core/forecast.ts'
import type { WindowRule } from '../../core/types.ts'
import type { Db } from '../../db/tables.ts'
import { slicesWanted } from './read-months.ts'

export interface Forecast {
  readonly account: string
  readonly pipeline: string
  /** Credits spent and reserved this month (UTC). */
  readonly spent: number
  /** Credits at the end of the month; null: no price is known yet, or pages of keywords have no past. */
  readonly forecast: number | null
}

interface Facts {
  readonly account: string
  readonly pipeline: string
  readonly pipeline_id: number
  readonly generation: number
  readonly window: WindowRule
  /** Credits of a unit of a report; null: none was bought. */
  readonly per_unit: number | null
  /** When reports were last bought by a night; null: never. */
  readonly asked_ms: number | null
  /** Planned, allowed and not bought yet. */
  readonly planned: number
  readonly spent: number
  /** Credits a month that the definition allows; null: no limit of its own. */
  readonly budget: number | null
  readonly spent_today: number
  /** What requests cost last month on days that are still to come in this one, and on the day of the month that is today; null: nothing last month. */
  readonly profile: number | null
  readonly profile_today: number
}

/** By account and pipeline, over every version. */
export const forecasts = async (db: Db, nowMs: number): Promise<Forecast[]> => {
  const { rows } = await facts.execute(db)
  const byPipeline = Map.groupBy(rows, ({ account, pipeline }) => JSON.stringify([account, pipeline]))
  const found = [...byPipeline.values()].map(async (versions): Promise<Forecast[]> => {
    // Nights buy for the newest version.
    const newest = versions.at(-1)
    if (newest === undefined) return []
    const { account, pipeline, per_unit } = newest
    const spent = versions.reduce((sum, one) => sum + one.spent, 0)
    const values = per_unit === null ? 0 : await slicesWanted(db, newest)
    const toCome = toComeOf(newest, values, nowMs)
    return [{ account, pipeline, spent, forecast: toCome === null ? null : Math.round(withinBudget(newest, spent, toCome)) }]
  })
  return (await Promise.all(found)).flat()
}

/** Beyond its budget nothing is bought, whatever is due. */
const withinBudget = ({ budget }: Facts, spent: number, toCome: number): number =>
  budget === null ? spent + toCome : Math.max(spent, Math.min(budget, spent + toCome))

const toComeOf = (one: Facts, values: number, nowMs: number): number | null => {
  const { window, per_unit, asked_ms, planned, profile, profile_today, spent_today } = one
  // Where no night has bought anything yet, the first one is the next of the calendar, as `plan` has it.
  if (per_unit !== null) return planned + per_unit * unitsStillToCome(window, values, asked_ms ?? nowMs, nowMs)
  return profile === null ? null : profile + Math.max(0, profile_today - spent_today)
}

// True of every open job; in these words the indexes of ready, waiting and held ones answer, and done jobs are not read.
const byPartialIndexes = sql<boolean>`(j.state = 'open' and j.holder is null and j.not_before is null
  or j.state = 'open' and j.holder is null and j.not_before is not null or j.holder is not null)`

const facts = sql<Facts>`
  with today as materialized (
    select t.day, date_trunc('month', t.day)::date as month, (date_trunc('month', t.day) - interval '1 month')::date as last_month,
      (date_trunc('month', t.day) + interval '1 month') at time zone 'UTC' as next_month
    from (select (clock_timestamp() at time zone 'UTC')::date as day) t
  ), spent as (
    select s.pipeline_id, sum(coalesce(s.used_quota, 0) + s.reserved_quota) filter (where s.day >= t.month) as month,
      sum(s.used_quota) filter (where s.requests > 0 and s.day = t.day) as today,
      sum(s.used_quota) filter (where s.requests > 0 and s.day < t.month and extract(day from s.day) > extract(day from t.day)
      and extract(day from s.day) <= extract(day from t.month + interval '1 month' - interval '1 day')) as later,
      sum(s.used_quota) filter (where s.requests > 0 and s.day < t.month and extract(day from s.day) = extract(day from t.day)) as same_day,
      bool_or(s.requests > 0 and s.day < t.month) as has_past
    from etl.spending s cross join today t where s.day >= t.last_month group by 1
  )
  select p.account, p.pipeline, p.pipeline_id, p.generation, p.definition -> 'window' as window,
    (select avg(x.price)::float8 from (select j.used_quota::float8 / j.cells as price from etl.jobs j
      where j.pipeline_id = p.pipeline_id and j.report_state is not null and j.used_quota > 0 and j.asked_at is not null order by j.asked_at desc limit 200) x) as per_unit,
    (select floor(extract(epoch from max(j.asked_at)) * 1000)::float8 from etl.jobs j join etl.runs r on r.run_id = j.run_id
      where j.pipeline_id = p.pipeline_id and j.report_state is not null and j.approval_id is null and r.command in ('run', 'schedule')) as asked_ms,
    coalesce((select sum(coalesce(j.estimated_quota, j.cells)) from etl.jobs j cross join today t where j.pipeline_id = p.pipeline_id and j.kind = 'report'
      and j.state = 'open' and ${byPartialIndexes} and j.ask_number is null and j.answer_id is null and coalesce(j.not_before, t.day) < t.next_month), 0)::float8 as planned,
    coalesce(s.month, 0)::float8 as spent, (p.definition -> 'limits' ->> 'quotaPerMonth')::float8 as budget, coalesce(s.today, 0)::float8 as spent_today,
    case when s.has_past then coalesce(s.later, 0)::float8 end as profile, coalesce(s.same_day, 0)::float8 as profile_today
  from etl.pipelines p left join spent s using (pipeline_id) order by 1, 2, p.pipeline_id`
