// What the service charged by its own books, beside what is on record.
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'

export interface MeterMonth {
  readonly api: string
  readonly account: string
  /** `2026-01` */
  readonly month: string
  readonly readings: number
  /** Credits charged beyond what is on record (below 0: less); null: there are not two readings to compare. */
  readonly difference: number | null
  readonly last_read_at: string
  /** As it said then. */
  readonly remaining: number | null
}

/** The newest month first. @param fromDay the first one, `YYYY-MM-DD` */
export const meterMonths = async (db: Db, fromDay: string): Promise<MeterMonth[]> => {
  const { rows } = await sql<MeterMonth>`
    select r.api, r.account, to_char(r.read_at at time zone 'UTC', 'YYYY-MM') as month, count(*)::integer as readings,
      sum(r.difference)::float8 as difference, max(r.read_at) as last_read_at,
      (array_agg(coalesce(r.remaining_credits, r.remaining_requests) order by r.reading_id desc))[1]::float8 as remaining
    from etl.meter_readings r where r.read_at >= (${fromDay}::date at time zone 'UTC') group by 1, 2, 3 order by 3 desc, 1, 2`.execute(
    db,
  )
  return rows
}
