// Credits of this month by account and pipeline, for the alarms of budgets.
import { sql } from 'kysely'
import type { Numbers, Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'

/** Credits of this month (UTC). */
export interface QuotaSpent {
  readonly account: string
  readonly pipeline: string
  /** What the pipeline reads, newest version. */
  readonly source: string
  readonly spent: number
}

/** Credits used and reserved this month (UTC) by account and pipeline. */
export const quotaThisMonth = async (db: Db): Promise<readonly QuotaSpent[]> => {
  const { rows } = await sql<QuotaSpent>`
    select q.account, q.pipeline, (coalesce(sum(q.used_quota), 0) + coalesce(sum(q.reserved_quota), 0))::float8 as spent,
      (select p.source from etl.pipelines p where p.pipeline = q.pipeline order by p.pipeline_id desc limit 1) as source
    from etl.quota q where q.day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date group by q.account, q.pipeline`.execute(
    db,
  )
  return rows
}

type TagSpent = Texts<'api'> & Numbers<'spent'>

/** Credits of this month (UTC) that were charged to a tag, by API. */
export const tagThisMonth = async (db: Db, name: string, value: string): Promise<readonly TagSpent[]> => {
  const { rows } = await sql<TagSpent>`
    select split_part(p.source, '.', 1) as api, (coalesce(sum(s.used_quota), 0) + coalesce(sum(s.reserved_quota), 0))::float8 as spent
    from etl.spending s join etl.pipelines p using (pipeline_id)
    where s.day >= date_trunc('month', clock_timestamp() at time zone 'UTC')::date
      and s.tag_set_id in (select t.tag_set_id from etl.tag_sets t where t.tags @> ${JSON.stringify({ [name]: value })}::jsonb) group by 1`.execute(
    db,
  )
  return rows
}
