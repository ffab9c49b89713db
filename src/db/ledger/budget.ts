// Quota budgets: reserved before a report is submitted, settled by what the service says it used.
import { type Kysely, sql } from 'kysely'
import { EtlError } from '../../core/errors.ts'
import type { Tables } from '../tables.ts'

export interface Reservation {
  readonly account: string
  readonly pipeline: string
  readonly budget: { readonly perMonth: number | null; readonly perDay: number | null }
  /** Credits the report is thought to cost; null where nobody can say: then 1 is reserved. */
  readonly estimated: number | null
  readonly unitKey: string
}

/** Locks the pipeline's budget for the transaction and throws QUOTA_EXHAUSTED where the report does not fit. */
export const reserveBudget = async (trx: Kysely<Tables>, reservation: Reservation): Promise<void> => {
  const { perMonth, perDay } = reservation.budget
  if (perMonth === null && perDay === null) return
  const key = `budget/${reservation.account}/${reservation.pipeline}`
  await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`.execute(trx)
  const { rows } = await sql<{ month: number; day: number }>`
    select coalesce(sum(used_quota + reserved_quota), 0)::float8 as month,
      coalesce(sum(used_quota + reserved_quota) filter (where day = (clock_timestamp() at time zone 'UTC')::date), 0)::float8 as day
    from (select day, coalesce(used_quota, 0) as used_quota, reserved_quota from etl.quota
      where account = ${reservation.account} and pipeline = ${reservation.pipeline}
        and day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date) spent`.execute(trx)
  const spent = rows[0] ?? { month: 0, day: 0 }
  refuseOver(reservation, 'month', spent.month, perMonth)
  refuseOver(reservation, 'day', spent.day, perDay)
}

const refuseOver = (reservation: Reservation, period: 'month' | 'day', spent: number, limit: number | null): void => {
  const price = reservation.estimated ?? 1
  if (limit === null || spent + price <= limit) return
  throw new EtlError(
    'QUOTA_EXHAUSTED',
    `${reservation.unitKey}: ${spent} of ${limit} credits are spent or reserved this ${period}, the report needs about ${price}. ` +
      `It goes on when the ${period} turns, or raise limits.quota_per_${period} of ${reservation.pipeline}.`,
  )
}
