// Quota budgets: reserved before a report is submitted, settled by what the service says it used.
import { type RawBuilder, sql } from 'kysely'
import type { Budget } from '../core/budget.ts'
import { EtlError } from '../core/errors.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'

export interface Reservation {
  readonly account: string
  readonly pipeline: string
  readonly budget: Budget
  /** Of the account, over all its pipelines. */
  readonly accountBudget: Budget
  /** Credits the report is thought to cost; null where nobody can say: then 1 is reserved. */
  readonly estimated: number | null
  readonly unitKey: string
}

/** Whose budget is looked at: a pipeline's, or with `pipeline` null the account's. */
interface Purse {
  readonly account: string
  readonly pipeline: string | null
  readonly budget: Budget
}

/** Locks both budgets for the transaction, always in the same order, and throws QUOTA_EXHAUSTED where the report does not fit. */
export const reserveBudget = async (trx: Db, reservation: Reservation): Promise<void> => {
  const { account, pipeline, budget, accountBudget } = reservation
  const setting = { perMonth: `limits.quota_per_month of ${pipeline}`, perDay: `limits.quota_per_day of ${pipeline}` }
  await reserveIn(trx, { account, pipeline, budget: { ...budget, setting } }, reservation)
  await reserveIn(trx, { account, pipeline: null, budget: accountBudget }, reservation)
}

const reserveIn = async (trx: Db, { account, pipeline, budget }: Purse, reservation: Reservation): Promise<void> => {
  const { estimated, unitKey } = reservation
  if (budget.perMonth === null && budget.perDay === null) return
  const key = pipeline === null ? `budget/${account}` : `budget/${account}/${pipeline}`
  await lockByName(trx, key)
  // Quota that is bought or about to be, and whose price nobody has told yet, counts with its estimate, or with 1 where there is none (as in etl.quota).
  const { rows } = await sql<{ month: number; day: number }>`
    select coalesce(sum(credits), 0)::float8 as month, coalesce(sum(credits) filter (where asked_at >= today), 0)::float8 as day
    from (select j.asked_at, date_trunc('day', clock_timestamp() at time zone 'UTC') at time zone 'UTC' as today,
        case when j.used_quota is not null then j.used_quota
          when j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain') then coalesce(j.estimated_quota, 1) else 0 end as credits
      from etl.jobs j join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where j.account = ${account} and (${pipeline}::text is null or p.pipeline = ${pipeline}) and j.report_state is not null
        and ${isSameApi('p', reservation.pipeline)}
        and j.asked_at >= date_trunc('month', clock_timestamp() at time zone 'UTC') at time zone 'UTC') bought`.execute(trx)
  const spent = rows[0] ?? { month: 0, day: 0 }
  const price = estimated ?? 1
  for (const [period, limit, setting] of [
    ['month', budget.perMonth, budget.setting?.perMonth],
    ['day', budget.perDay, budget.setting?.perDay],
  ] as const) {
    if (limit === null || spent[period] + price <= limit) continue
    throw new EtlError(
      'QUOTA_EXHAUSTED',
      `${unitKey}: ${spent[period]} of ${limit} credits ${pipeline === null ? `of account ${account} ` : ''}are spent or reserved this ${period}, ` +
        `the report needs about ${price}. It goes on when the ${period} turns, or raise ${setting ?? 'the budget'}.`,
      // Dearer than the whole budget, so that no turn of it would ever hold the report; or half of it fits into what is left.
      { context: { refused: price > limit || spent[period] + price / 2 <= limit } },
    )
  }
}

/** Whether a row of `etl.pipelines` reads the same API as the pipeline of that name: accounts of two APIs may be named alike. @param alias of the row */
export const isSameApi = (alias: string, pipeline: string): RawBuilder<boolean> => sql<boolean>`
  split_part(${sql.ref(`${alias}.source`)}, '.', 1) =
    (select split_part(own.source, '.', 1) from etl.pipelines own where own.pipeline = ${pipeline} order by own.pipeline_id desc limit 1)`
