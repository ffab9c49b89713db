// Quota that is bought or about to be, and whose price nobody has told yet, counts with its estimate, or with 1 where there is none.
import { type Kysely, sql } from 'kysely'

const statements = [
  `create or replace view etl.quota as
    select account, pipeline, (created_at at time zone 'UTC')::date as day,
      count(*) filter (where state <> 'intent') as reports,
      sum(used_quota) as used_quota,
      sum(case when used_quota is null and state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain')
        then coalesce(estimated_quota, 1) else 0 end) as reserved_quota
    from etl.reports group by 1, 2, 3`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
