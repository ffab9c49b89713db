// Purchases that a person may want to know of: awaited, uncertain, paid for in vain, or bought and not used.
import { type Selectable, sql } from 'kysely'
import { givenUpBy } from '../core/report.ts'
import type { Db, Tables } from '../db/tables.ts'

/**
 * open: a job waits for it. uncertain: nobody knows whether the submission was taken. lost: bought, or perhaps bought, and nothing will come
 * by itself. given up: a person said so. unused: bought, and no unit was loaded from it.
 */
export const purchaseKinds = ['open', 'uncertain', 'lost', 'given up', 'unused'] as const
export type PurchaseKind = (typeof purchaseKinds)[number]

export interface Purchase
  extends Pick<
    Selectable<Tables['etl.reports']>,
    | 'account'
    | 'pipeline'
    | 'version'
    | 'window_from'
    | 'window_to'
    | 'cells'
    | 'state'
    | 'report_id'
    | 'status_word'
    | 'submitted_at'
  > {
  readonly kind: PurchaseKind
  readonly job_id: number
  readonly job_state: string
  /** Credits the service named, else those that were estimated. */
  readonly quota: number | null
  readonly message: string | null
}

/** Newest first. @param pipelines empty: all */
export const listPurchases = async (
  db: Db,
  { pipelines, limit }: { readonly pipelines: readonly string[]; readonly limit: number },
): Promise<{ rows: Purchase[]; total: number }> => {
  const among = pipelines.length === 0 ? sql`true` : sql`r.pipeline = any(${[...pipelines]}::text[])`
  const { rows } = await sql<Purchase & { readonly total: number }>`
    with purchases as (
      select case
          when r.answer_id is null and r.job_state = 'open' and r.state in ('intent', 'submitted', 'ready') then 'open'
          when r.state = 'uncertain' and r.job_state <> 'replaced' then 'uncertain'
          when r.state in ('failed', 'expired') and r.job_state = 'replaced' and r.error_message like ${`% ${givenUpBy} %`} then 'given up'
          when r.state in ('uncertain', 'expired') or (r.state = 'failed' and r.report_id is null) then 'lost'
          when r.state in ('submitted', 'ready', 'downloaded') and r.job_state <> 'open'
            and not exists (select 1 from etl.loads l where l.answer_id = r.answer_id) then 'unused' end as kind, r.*
      from etl.reports r where ${among}
    )
    select kind, job_id::float8 as job_id, job_state, account, pipeline, version, window_from, window_to, cells, state, report_id,
      status_word, submitted_at, coalesce(used_quota, estimated_quota)::float8 as quota, error_message as message,
      (count(*) over ())::float8 as total
    from purchases where kind is not null order by job_id desc limit ${limit}`.execute(db)
  return { rows: rows.map(({ total: _, ...row }) => row), total: rows[0]?.total ?? 0 }
}
