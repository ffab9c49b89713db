// Quota spent and reserved, day by day.
import { sql } from 'kysely'
import { type Db, rowsOf } from './row.ts'

export interface QuotaDay {
  readonly day: string
  readonly account: string
  readonly pipeline: string
  readonly reports: number
  readonly used: number
  readonly reserved: number
}

export const quotaDays = (db: Db, fromDay: string): Promise<readonly QuotaDay[]> =>
  rowsOf(
    db,
    sql<QuotaDay>`select to_char(day, 'YYYY-MM-DD') as day, account, pipeline, reports::float8 as reports,
      coalesce(used_quota, 0)::float8 as used, coalesce(reserved_quota, 0)::float8 as reserved
      from etl.quota where day >= ${fromDay}::date order by day, account, pipeline`,
  )
