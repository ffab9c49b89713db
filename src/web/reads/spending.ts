// What credits were spent on: by account, pipeline and tag, and for values that left the lists. Every sum is of the same rows of etl.spending. Also what
// the service charged according to its own balance.
import { sql } from 'kysely'
import { groupedBy, sum, sums } from '../../core/counted.ts'
import { rounded } from '../../core/learned-price.ts'
import type { Db } from '../../db/tables.ts'
import { type Flags, type Lists, type Maybe, type Numbers, query, type Texts } from '../../db/typed-row.ts'
import { maybePaid } from '../../ledger/wait-list.ts'

/**
 * Credits of a month, by account, pipeline and the tags at the time of the purchase. `requests`: paid requests (pages); `used`: credits of reports, as the
 * service named them, and of requests, by their bills; `reserved`: estimates for reports in progress; `unpriced`: reports and requests without a known price.
 */
type Spending = Texts<'month' | 'account' | 'pipeline'> &
  Numbers<'reports' | 'requests' | 'report_credits' | 'request_credits' | 'used' | 'reserved' | 'unpriced'> & {
    readonly tags: Readonly<Record<string, string>>
  }

/** The newest month first, then by account, pipeline and tags. @param fromDay the first one, `YYYY-MM-DD` */
export const spendingByMonth = (db: Db, fromDay: string): Promise<Spending[]> =>
  query<Spending>(db)`
    select to_char(s.day, 'YYYY-MM') as month, s.account, s.pipeline, t.tags, sum(s.reports)::float8 as reports, sum(s.requests)::float8 as requests,
      coalesce(sum(s.used_quota) filter (where s.requests = 0), 0)::float8 as report_credits,
      coalesce(sum(s.used_quota) filter (where s.requests > 0), 0)::float8 as request_credits,
      coalesce(sum(s.used_quota), 0)::float8 as used, sum(s.reserved_quota)::float8 as reserved, sum(s.unpriced)::float8 as unpriced
    from etl.spending s join etl.tag_sets t using (tag_set_id) where s.day >= ${fromDay}::date
    group by 1, 2, 3, t.tag_set_id, t.tags order by 1 desc, 2, 3, t.tags::text`

/** For each tag in use, all spending by the tag's values; null: purchases without the tag. */
export const spendingByTag = (spending: readonly Spending[]) => {
  const names = [...new Set(spending.flatMap(({ tags }) => Object.keys(tags)))].sort()
  return names.flatMap((tag) => {
    const keyOf = ({ month, tags }: Spending): string => JSON.stringify([month, tags[tag] ?? null])
    return groupedBy(spending, keyOf, ({ month, tags }, group) => ({
      ...{ month, tag, value: tags[tag] ?? null },
      pipelines: [...new Set(group.map(({ pipeline }) => pipeline))].sort(),
      ...sums(group, 'used', 'reserved'),
    }))
  })
}

/** `wanted`: the value is still in a list. Both are null for spending that belongs to no known value. */
type ValueSpending = Texts<'pipeline' | 'dimension'> & Maybe<Texts<'value'> & Flags<'wanted'>> & Numbers<'credits'>

/**
 * A CTE `shared`: the credits of a month's purchases, divided among their slices in equal parts. Left-over credits are spread one by one, so that the parts
 * add up to the price. Purchases whose slices are no longer known are left out.
 */
const perSlice = (month: string) => sql`
  with bought as (
    select j.pipeline_id, j.slice_ids, coalesce(j.used_quota, case when j.report_state in ${maybePaid} then coalesce(j.estimated_quota, 0) else 0 end) as credits
    from etl.jobs j where j.report_state is not null and coalesce(j.asked_at, j.created_at) >= (${month}::date at time zone 'UTC')
      and coalesce(j.asked_at, j.created_at) < ((${month}::date + interval '1 month') at time zone 'UTC')
    union all
    select j.pipeline_id, j.slice_ids, sum(q.credits) from etl.requests q join etl.jobs j on j.job_id = q.job_id
    where q.credits > 0 and q.started_at >= (${month}::date at time zone 'UTC') and q.started_at < ((${month}::date + interval '1 month') at time zone 'UTC')
    group by q.job_id, j.pipeline_id, j.slice_ids
  ), shared as (
    select b.pipeline_id, s.slice_id, (b.credits * s.place / cardinality(b.slice_ids)) - (b.credits * (s.place - 1) / cardinality(b.slice_ids)) as credits
    from bought b cross join lateral unnest(b.slice_ids) with ordinality as s (slice_id, place) where b.credits > 0
  )`

/**
 * By value of one dimension, most expensive first; then spending without a known value: MILLRACE_LEDGER_DAYS deletes old requests, and a pipeline may lack the
 * dimension. The total equals that of `spending`. @param month its first day @param spending of this month
 */
export const spendingByValue = async (db: Db, month: string, dimension: string, spending: readonly Spending[]) => {
  const known = await query<ValueSpending>(db)`
    ${perSlice(month)}
    select p.pipeline, ${dimension} as dimension, s."values"[array_position(p.dimensions, ${dimension})] as value, bool_or(s.wanted_until is null) as wanted,
      sum(h.credits)::float8 as credits
    from shared h join etl.slices s using (slice_id) join etl.pipelines p on p.pipeline_id = h.pipeline_id
    where ${dimension} = any(p.dimensions) group by 1, 3 order by 5 desc, 1, 3`
  const rest = groupedBy(
    spending,
    ({ pipeline }) => pipeline,
    ({ pipeline }, own): ValueSpending => {
      const told = sum(known, (one) => (one.pipeline === pipeline ? one.credits : 0))
      return { pipeline, dimension, value: null, wanted: null, credits: rounded(sum(own, 'used') + sum(own, 'reserved') - told) }
    },
  )
  return [...known, ...rest.filter(({ credits }) => credits !== 0)]
}

/** Slices that left the lists and were bought for in the month, with the first few as examples. */
type UnwantedSpending = Texts<'pipeline'> & Numbers<'slices' | 'credits'> & Lists<Texts<'examples'>>

/** Bought in a month for values since removed from the lists. @param month its first day */
export const unwantedSpending = (db: Db, month: string): Promise<UnwantedSpending[]> =>
  query<UnwantedSpending>(db)`
    ${perSlice(month)}
    select p.pipeline, count(distinct h.slice_id)::integer as slices, (array_agg(distinct array_to_string(s."values", ', ')))[1:3] as examples,
      sum(h.credits)::float8 as credits
    from shared h join etl.slices s using (slice_id) join etl.pipelines p on p.pipeline_id = h.pipeline_id
    where s.wanted_until is not null group by 1 having sum(h.credits) > 0 order by 4 desc, 1`

/** `difference`: credits charged beyond the recorded ones (below 0: fewer); null: fewer than two readings. `remaining`: at the last reading. */
type MeterMonth = Texts<'api' | 'account' | 'month' | 'last_read_at'> &
  Numbers<'readings'> &
  Maybe<Numbers<'difference' | 'remaining'>>

/** The newest month first. @param fromDay the first one, `YYYY-MM-DD` */
export const meterMonths = (db: Db, fromDay: string): Promise<MeterMonth[]> =>
  query<MeterMonth>(db)`
    select r.api, r.account, to_char(r.read_at at time zone 'UTC', 'YYYY-MM') as month, count(*)::integer as readings,
      sum(r.difference)::float8 as difference, max(r.read_at) as last_read_at,
      (array_agg(coalesce(r.remaining_credits, r.remaining_requests) order by r.reading_id desc))[1]::float8 as remaining
    from etl.meter_readings r where r.read_at >= (${fromDay}::date at time zone 'UTC') group by 1, 2, 3 order by 3 desc, 1, 2`
