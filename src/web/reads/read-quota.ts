// Quota spent and reserved, by day and by month.
import { sql } from 'kysely'
import type { DataPointReading } from '../../core/data-point-counts.ts'
import type { Db } from '../../db/tables.ts'
import { wholeAs } from './first-row.ts'

export interface QuotaDay {
  readonly day: string
  readonly account: string
  readonly pipeline: string
  readonly reports: number
  /** Requests that are paid for one by one. */
  readonly requests: number
  readonly used: number
  readonly reserved: number
}

/** @param fromDay the first one, `YYYY-MM-DD`; left out: a year ago */
export const quotaDays = (db: Db, fromDay?: string): Promise<QuotaDay[]> =>
  db
    .selectFrom('etl.quota as q')
    .select(['q.day', 'q.account', 'q.pipeline', wholeAs('q', 'reports'), wholeAs('q', 'requests')])
    .select(sql<number>`coalesce(q.used_quota, 0)::float8`.as('used'))
    .select(sql<number>`coalesce(q.reserved_quota, 0)::float8`.as('reserved'))
    .where('q.day', '>=', fromDay ?? sql<string>`(clock_timestamp() - interval '1 year')::date`)
    .orderBy('q.day')
    .orderBy('q.account')
    .orderBy('q.pipeline')
    .execute()

export interface QuotaMonth {
  readonly account: string
  readonly pipeline: string
  /** `2026-01` */
  readonly month: string
  readonly reports: number
  readonly requests: number
  readonly used: number
  readonly reserved: number
}

/** The newest month first, then by account and pipeline. */
export const quotaMonths = (days: readonly QuotaDay[]): QuotaMonth[] =>
  [...Map.groupBy(days, ({ day, account, pipeline }) => `${day.slice(0, 7)}/${account}/${pipeline}`).values()]
    .flatMap(([first, ...others]) =>
      first === undefined ? [] : [others.reduce(added, { ...first, month: first.day.slice(0, 7) })],
    )
    .map(({ day: _, ...sum }) => sum)
    .sort((a, b) => b.month.localeCompare(a.month) || a.account.localeCompare(b.account) || a.pipeline.localeCompare(b.pipeline))

const added = <Sum extends { reports: number; requests: number; used: number; reserved: number }>(
  sum: Sum,
  day: QuotaDay,
): Sum => ({
  ...sum,
  reports: sum.reports + day.reports,
  requests: sum.requests + day.requests,
  used: sum.used + day.used,
  reserved: sum.reserved + day.reserved,
})

export interface ReadingLine {
  readonly account: string
  /** `web-analytics.report/traffic_and_engagement` */
  readonly dataset: string
  /** What its data points may be; one: settled. */
  readonly readings: readonly DataPointReading[]
  readonly answer_id: number
}

/** What is known of the data points of each dataset. */
export const dataPointReadings = (db: Db): Promise<ReadingLine[]> =>
  db
    .selectFrom('etl.data_point_readings as r')
    .select(['r.account', 'r.dataset', 'r.readings', wholeAs('r', 'answer_id')])
    .orderBy('r.dataset')
    .orderBy('r.account')
    .execute()
