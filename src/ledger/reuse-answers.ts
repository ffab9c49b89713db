// Reuses answers: what another version or pipeline has loaded, or asked for, with the same question is not bought again.
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import { asksOnRecord, type FetchingNeeds, type RegisteredPipeline } from './pipelines.ts'
import { isBegun, mayYetServe } from './serving.ts'
import { queryColumn, type Row } from '../db/typed-row.ts'
import { isListed, isWaitedFor } from './wait-list.ts'

/** Another pipeline or version of the same source; `places`: for each of our dimensions, its index there. */
interface Sister {
  readonly pipelineId: number
  readonly places: readonly number[]
  /** Whether it asks the same now, so that what it has asked for serves us, too. */
  readonly asksTheSame: boolean
}

/** Pipelines and versions whose answers may serve this one. */
export interface ReuseScope {
  readonly sisters: readonly Sister[]
  /** What is asked, see requestDigest. */
  readonly asks: string
  readonly metrics: readonly string[]
  /** The planning run: a sister's jobs in its list are about to be asked for. */
  readonly runId: number
  /** Accounts whose plans are sure to be bought: the own one, and those that bought something in the last 3 days. */
  readonly accounts: readonly string[]
}

/** null: no other pipeline could have asked the same. */
export const reuseScope = async (
  db: Db,
  { pipelineId, dimensions }: RegisteredPipeline,
  { asks, metrics, source, runId }: Pick<ReuseScope, 'asks' | 'metrics' | 'runId'> & { readonly source: string },
): Promise<ReuseScope | null> => {
  const rows = await db
    .selectFrom('etl.pipelines')
    .select(['pipeline_id', 'dimensions'])
    .select((eb) => eb.ref('definition').$castTo<Partial<FetchingNeeds>>().as('needs'))
    .where('source', '=', source)
    .where('pipeline_id', '<>', pipelineId)
    .execute()
  const sisters = rows
    .filter((row) => [...row.dimensions].sort().join() === [...dimensions].sort().join())
    .map((row) => ({
      pipelineId: row.pipeline_id,
      places: dimensions.map((name) => row.dimensions.indexOf(name)),
      asksTheSame: asksOnRecord(source, row.needs) === asks && metrics.every((one) => row.needs.metrics?.includes(one)),
    }))
  if (sisters.length === 0) return null
  const accounts = await queryColumn<Row<'etl.pipelines', 'account'>>(db)`
    select account from etl.pipelines where pipeline_id = ${pipelineId}
    union select account from etl.jobs where report_state is not null and asked_at > clock_timestamp() - interval '3 days'
    union select account from etl.request_credits where day >= (clock_timestamp() at time zone 'UTC')::date - 3`
  return { sisters, asks, metrics, runId, accounts }
}

/** Our values in the order of the sister's dimensions. */
const theirValues = ({ places }: Sister): RawBuilder<unknown> =>
  sql.join(places.map((_, place) => sql`s."values"[${sql.lit(places.indexOf(place) + 1)}]`))

/** Job `y` waits for the next day or month of its own budget. */
const isLeftByBudget = sql<boolean>`(y.error_code = 'QUOTA_EXHAUSTED' and y.not_before > clock_timestamp())`

/**
 * Job `y` was asked for, at least in part, or is about to be: this run waits for it, or another live run. Plans that no run waits for do not count, nor those that wait for
 * their budget's next day or month, unless this run is about to try them: a person may have raised the budget. Nor do those of an account without recent purchases: it may lack rights or credits.
 */
const isAtIt = ({ runId, accounts }: ReuseScope): RawBuilder<boolean> =>
  sql<boolean>`(${isBegun} or (${isListed(runId, 'y')} or ${isLeftByBudget} is not true and ${isWaitedFor(sql`y.job_id`)})
    and y.account = any(${[...accounts]}::text[]))`

/**
 * The oldest job of a sister that asks for the cell of slice `s` in the window and may serve it, as a subquery of one row: job_id, forced, asked_at and ask_number.
 * @param mayBuyAgain whether lost purchases are bought again, with a person's consent: then they serve no other unit
 */
export const inFlightSisterJob = (scope: ReuseScope, windowFrom: unknown, mayBuyAgain: boolean): RawBuilder<unknown> => {
  const each = scope.sisters
    .filter(({ asksTheSame }) => asksTheSame)
    .map(
      (sister) => sql`
        select y.job_id, y.forced, y.asked_at, y.ask_number from etl.slices o cross join lateral (select u.job_id from etl.units u
          where u.pipeline_id = ${sister.pipelineId} and u.window_from = ${windowFrom}::date and u.slice_id = o.slice_id limit 1) v
        join etl.jobs y on y.job_id = v.job_id and (y.state = 'open' and y.answer_id is not null or ${mayYetServe} and ${mayBuyAgain ? sql`y.state = 'open'` : sql`true`})
          and (y.state <> 'open' or ${isAtIt(scope)}) and y.served_by is null
      where o.pipeline_id = ${sister.pipelineId} and o."values" = array[${theirValues(sister)}]::text[]`,
    )
  return each.length === 0
    ? sql`select null::bigint as job_id, null::boolean as forced, null::timestamptz as asked_at, null::bigint as ask_number`
    : sql`select x.job_id, x.forced, x.asked_at, x.ask_number from (${sql.join(each, sql` union all `)}) x order by x.job_id limit 1`
}

/** Codes of holds that compare an answer with loaded rows: a pipeline without such rows would load what a person is to check. */
const comparing = sql`('SHRUNK', 'SCHEMA', 'TEST_FAILED')`

/**
 * The answer that serves the cell of slice `s` in the window, as a subquery of one row: answer_id, ask_number and asked_at. The newest, loaded or not: an answer that a
 * sister bought and could not load is paid for, too. For a cell `u` without an answer, an answer held by such a comparison comes last. `limit 1` keeps PostgreSQL, which
 * has no statistics of a table that has just grown, from reading the sister's whole window, or every held job, for each slice.
 */
export const reusable = ({ sisters, asks, metrics }: ReuseScope, windowFrom: unknown): RawBuilder<unknown> => {
  const each = sisters.map((sister) => {
    const { pipelineId } = sister
    return sql`select a.answer_id, a.ask_number, a.asked_at, h.is_compared
      from etl.slices o cross join lateral (select u.answer_id, u.job_id, u.held_answer_id, u.held_code from etl.units u
          where u.pipeline_id = ${pipelineId} and u.window_from = ${windowFrom}::date and u.slice_id = o.slice_id limit 1) v
        left join lateral (select j.answer_id from etl.jobs j where j.job_id = v.job_id and j.state in ('open', 'held', 'failed') limit 1) t on true
        cross join lateral (values (v.answer_id, false, false), (t.answer_id, true, false), (v.held_answer_id, true, v.held_code in ${comparing})) h (answer_id, is_left, is_compared)
        cross join lateral (select a.* from etl.answers a where a.answer_id = h.answer_id limit 1) a
      where o.pipeline_id = ${pipelineId} and o."values" = array[${theirValues(sister)}]::text[]
        and a.asks = ${asks} and a.metrics @> ${[...metrics]}::text[] and (h.is_left or coalesce(a.verdict, 'good') = 'good')`
  })
  return sql`select x.answer_id, x.ask_number, x.asked_at from (${sql.join(each, sql` union all `)}) x
    order by u.answer_id is null and x.is_compared, x.ask_number desc limit 1`
}
