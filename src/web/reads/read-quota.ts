// Quota spent and reserved, by day and by month.
import { sql } from 'kysely'
import { groupedBy, sums } from '../../core/counted.ts'
import type { Db } from '../../db/tables.ts'
import { asNumbers } from './shared-columns.ts'

/** @param fromDay the first one, `YYYY-MM-DD`; left out: a year ago */
export const quotaDays = (db: Db, fromDay?: string) =>
  db
    .selectFrom('etl.quota as q')
    // `requests`: paid requests (pages).
    .select(['q.day', 'q.account', 'q.pipeline', ...asNumbers('q', 'reports', 'requests')])
    .select(sql<number>`coalesce(q.used_quota, 0)::float8`.as('used'))
    .select(sql<number>`coalesce(q.reserved_quota, 0)::float8`.as('reserved'))
    .where('q.day', '>=', fromDay ?? sql<string>`(clock_timestamp() - interval '1 year')::date`)
    .orderBy('q.day')
    .orderBy('q.account')
    .orderBy('q.pipeline')
    .execute()

export type QuotaDay = Awaited<ReturnType<typeof quotaDays>>[number]
export type QuotaMonth = ReturnType<typeof quotaMonths>[number]

/** The newest month (`2026-01`) first, then by account and pipeline. */
export const quotaMonths = (days: readonly QuotaDay[]) => {
  const keyOf = ({ day, account, pipeline }: QuotaDay): string => `${day.slice(0, 7)}/${account}/${pipeline}`
  const months = groupedBy(days, keyOf, ({ day, account, pipeline }, own) => ({
    ...{ account, pipeline, ...sums(own, 'reports', 'requests', 'used', 'reserved'), month: day.slice(0, 7) },
  }))
  return months.sort(
    (a, b) => b.month.localeCompare(a.month) || a.account.localeCompare(b.account) || a.pipeline.localeCompare(b.pipeline),
  )
}

/** Possible meanings of data points for each dataset (`web-analytics.report/traffic_and_engagement`); a single one is settled. */
export const dataPointReadings = (db: Db) =>
  db
    .selectFrom('etl.data_point_readings as r')
    .select(['r.account', 'r.dataset', 'r.readings', ...asNumbers('r', 'answer_id')])
    .orderBy('r.dataset')
    .orderBy('r.account')
    .execute()
