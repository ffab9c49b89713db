// The fiscal columns of bi.dim_date: which month the fiscal year begins with is a person's choice.
import { sql } from 'kysely'
import { lockByName } from '../db/named-lock.ts'
import type { Database } from '../db/connect.ts'

/**
 * Idempotent; writes the days that differ and no other. A fiscal year bears the number of the calendar year it ends in.
 * @param firstMonth of the fiscal year, 1 to 12
 * @returns how many days changed
 */
export const setFiscalYear = ({ kysely }: Pick<Database, 'kysely'>, firstMonth: number): Promise<number> =>
  kysely.transaction().execute(async (trx) => {
    await lockByName(trx, 'publish')
    const shifted = sql`(d.month_start + make_interval(months => ${(13 - firstMonth) % 12}::integer))`
    const { numAffectedRows } = await sql`
      update bi.dim_date d set fiscal_year = f.year, fiscal_quarter = f.quarter, fiscal_month = f.month, fiscal_year_name = 'FY' || f.year,
        fiscal_quarter_name = 'FY' || f.year || ' Q' || f.quarter
      from (select d.date, extract(year from ${shifted})::integer as year, extract(quarter from ${shifted})::integer as quarter,
        extract(month from ${shifted})::integer as month from (select date, month_start from bi.dim_date) d) f
      where f.date = d.date and (d.fiscal_year, d.fiscal_month) is distinct from (f.year, f.month)`.execute(trx)
    return Number(numAffectedRows ?? 0n)
  })
