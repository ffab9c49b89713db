// Forecast of credits at month end, by account and pipeline: what is spent, what is planned, and what nights will buy until then by the calendar and by last month.
import { sql } from 'kysely'
import { sum } from '../core/counted.ts'
import { unitsStillToCome } from '../core/forecast.ts'
import { addRanges, type CreditRange, type PipelinePrice, multiplyRange } from '../core/learned-price.ts'
import type { WindowRule } from '../core/types.ts'
import { type Numbers, query, type Row, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { slicesWanted } from './slices.ts'

export interface Forecast {
  readonly account: string
  readonly pipeline: string
  /** Credits spent and reserved this month (UTC). */
  readonly spent: number
  /** Credits at the end of the month; null: no price is known yet. */
  readonly forecast: number | null
  /** The range of the forecast where the price is not known; null: the price is known, or the range is not either. */
  readonly range: { readonly low: number; readonly high: number } | null
}

/** The sum of several forecasts; one without any counts what it has spent. null: none has any. `low` and `high` are the same where every price is known. */
export const totalForecast = (forecasts: readonly Forecast[]): { readonly low: number; readonly high: number } | null =>
  forecasts.every(({ forecast, range }) => forecast === null && range === null)
    ? null
    : {
        low: forecasts.reduce((sum, { forecast, range, spent }) => sum + (forecast ?? range?.low ?? spent), 0),
        high: forecasts.reduce((sum, { forecast, range, spent }) => sum + (forecast ?? range?.high ?? spent), 0),
      }

/** `720`, or `246 to 720, price not known`; null as `totalForecast` has it. */
export const describeForecast = (forecasts: readonly Forecast[], show: (credits: number) => string): string | null => {
  const end = totalForecast(forecasts)
  if (end === null) return null
  return end.low === end.high ? show(end.low) : `${show(end.low)} to ${show(end.high)}, price not known`
}

/** What is recorded of a pipeline; a pipeline that no run has planned yet has no record. */
interface Known extends Texts<'account' | 'pipeline'>, Numbers<'spent' | 'spent_today'> {
  /** null: the recorded definition has none. */
  readonly window: WindowRule | null
  /** When reports were last bought by a night; null: never. */
  readonly asked_ms: number | null
  /** Planned, not held and not bought yet: credits of reports with a known price, and units of reports without. */
  readonly planned: number
  readonly planned_cells: number
  /** Credits a month that the definition allows; null: no limit of its own. */
  readonly budget: number | null
  /** Cost of last month's requests on the days still to come in this month, and on today's day of the month. `profile` null: none last month, or another price since. */
  readonly profile: number | null
  readonly profile_today: number
}

type Facts = Known & Row<'etl.pipelines', 'pipeline_id' | 'generation'>

/** By account and pipeline, over every version. @param priceOf by its name */
export const forecasts = async (
  db: Db,
  nowMs: number,
  priceOf: (pipeline: string) => Promise<PipelinePrice>,
): Promise<Forecast[]> => {
  const found = (await onRecord(db)).map(async (one) => {
    const price = await priceOf(one.pipeline)
    return foretell(one, price, price.unit === null ? 0 : await slicesWanted(db, one), nowMs)
  })
  return Promise.all(found)
}

/** What a new plan of all its versions would buy, in place of what is recorded as planned; the rest as its newest version has it. */
export interface PlannedNow extends Pick<Facts, 'account' | 'pipeline' | 'window' | 'planned' | 'planned_cells' | 'budget'> {
  readonly price: PipelinePrice
  /** Combinations of the lists' values. */
  readonly values: number
}

/** Forecasts with these plans, in their order. */
export const forecastsWith = async (db: Db, nowMs: number, plans: readonly PlannedNow[]): Promise<Forecast[]> => {
  const all = await onRecord(db)
  return plans.map(({ price, values, ...plan }) => {
    const known = all.find(({ account, pipeline }) => account === plan.account && pipeline === plan.pipeline)
    // Days of the calendar that passed, and this one, are in the plan.
    const now = { asked_ms: nowMs, profile_today: 0, spent_today: 0 }
    return foretell({ spent: 0, profile: null, ...known, ...plan, ...now }, price, values, nowMs)
  })
}

/** Each pipeline once, as its newest version, which nights buy for; what is spent and planned is the sum over all versions. */
const onRecord = async (db: Db): Promise<Facts[]> => {
  const { rows } = await facts.execute(db)
  const versions = [...Map.groupBy(rows, ({ account, pipeline }) => JSON.stringify([account, pipeline])).values()]
  const together = (all: readonly Facts[]) => ({
    ...{ spent: sum(all, 'spent'), planned: sum(all, 'planned'), planned_cells: sum(all, 'planned_cells') },
  })
  return versions.flatMap((all) => all.slice(-1).map((newest) => ({ ...newest, ...together(all) })))
}

const foretell = (one: Known, price: PipelinePrice, values: number, nowMs: number): Forecast => {
  const { account, pipeline, spent } = one
  const toCome = toComeOf(one, price, values, nowMs)
  const end = (credits: number): number => Math.round(withinBudget(one, credits))
  if (toCome === null) return { account, pipeline, spent, forecast: null, range: null }
  if (toCome.likely !== null) return { account, pipeline, spent, forecast: end(toCome.likely), range: null }
  return { account, pipeline, spent, forecast: null, range: { low: end(toCome.low), high: end(toCome.high) } }
}

/** Keeps the forecasts for readers of `bi`; they replace what an earlier run of this month (UTC) computed. */
export const recordForecasts = async (db: Db, runId: number, forecasts: readonly Forecast[]): Promise<void> => {
  const ends = forecasts.map((one) => ({ ...one, low: one.forecast ?? one.range?.low, high: one.forecast ?? one.range?.high }))
  await query(db)`
    insert into etl.forecasts (account, pipeline, month, run_id, spent, low, high)
    select account, pipeline, date_trunc('month', clock_timestamp() at time zone 'UTC'), ${runId}::bigint, spent, low, high
    from jsonb_to_recordset(${JSON.stringify(ends)}::jsonb) as x (account text, pipeline text, spent numeric, low numeric, high numeric)
    on conflict (account, pipeline, month) do update
    set run_id = excluded.run_id, spent = excluded.spent, low = excluded.low, high = excluded.high, computed_at = excluded.computed_at`
}

/** Beyond its budget nothing is bought, whatever is due. */
const withinBudget = ({ budget, spent }: Known, toCome: number): number =>
  budget === null ? spent + toCome : Math.max(spent, Math.min(budget, spent + toCome))

const exactly = (credits: number): CreditRange => ({ low: credits, high: credits, likely: credits })

const toComeOf = (one: Known, { kind, unit }: PipelinePrice, values: number, nowMs: number): CreditRange | null => {
  const { window, asked_ms, planned, planned_cells, profile, profile_today, spent_today } = one
  if (kind === 'walk' && profile !== null) return exactly(planned + profile + Math.max(0, profile_today - spent_today))
  if (window === null) return null
  // Pages of a month that is loaded are asked for again only where it changed.
  const bought = kind === 'walk' ? { ...window, lookBack: 0 } : window
  // Where no night has bought anything yet, the first one is the next of the calendar, as `plan` has it.
  const units = planned_cells + unitsStillToCome(bought, values, asked_ms ?? nowMs, nowMs)
  return addRanges(exactly(planned), multiplyRange(unit, units))
}

// True of every open job. Written so that the partial indexes of ready, waiting and held jobs serve it, and done jobs are not read.
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
      bool_or(s.requests > 0 and s.day < t.month) as has_past, coalesce(sum(s.unpriced) filter (where s.requests > 0 and s.day < t.month), 0) as unpriced
    from etl.spending s cross join today t where s.day >= t.last_month group by 1
  )
  select p.account, p.pipeline, p.pipeline_id, p.generation, p.definition -> 'window' as window,
    (select floor(extract(epoch from max(j.asked_at)) * 1000)::float8 from etl.jobs j join etl.runs r on r.run_id = j.run_id
      where j.pipeline_id = p.pipeline_id and j.report_state is not null and j.approval_id is null and r.command in ('run', 'schedule')) as asked_ms,
    coalesce(o.planned, 0)::float8 as planned, coalesce(o.cells, 0)::float8 as planned_cells,
    coalesce(s.month, 0)::float8 as spent, (p.definition -> 'limits' ->> 'quotaPerMonth')::float8 as budget, coalesce(s.today, 0)::float8 as spent_today,
    case when s.has_past and s.unpriced = 0 and not exists (select from etl.prices x cross join today t where x.account = p.account and x.dataset = p.source
      and x.dropped_at >= t.last_month) then coalesce(s.later, 0)::float8 end as profile, coalesce(s.same_day, 0)::float8 as profile_today
  from etl.pipelines p left join spent s using (pipeline_id) left join lateral (
    select sum(j.estimated_quota) as planned, sum(j.cells) filter (where j.estimated_quota is null) as cells from etl.jobs j cross join today t
    where j.pipeline_id = p.pipeline_id and j.kind = 'report' and j.state = 'open' and ${byPartialIndexes} and j.ask_number is null
      and j.answer_id is null and coalesce(j.not_before, t.day) < t.next_month) o on true order by 1, 2, p.pipeline_id`
