// Bought reports: open ones, those of given jobs, and those that may need a person.
import { sql } from 'kysely'
import { givenUpBy } from '../../core/report-shape.ts'
import type { ReportState } from '../../core/types.ts'
import type { Db } from '../../db/tables.ts'
import { type Maybe, type Numbers, query, type Row, type Texts } from '../../db/typed-row.ts'
import { boxColumns, asNumbersOrNull } from './shared-columns.ts'

/** The base query of purchases, for further conditions; `b` is the job. The age counts from the submission. */
export const reportLines = (db: Db) =>
  db
    .selectFrom('etl.jobs as b')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'b.pipeline_id')
    .select(boxColumns)
    .select(['b.cells', 'b.account', sql<ReportState>`b.report_state`.as('state'), 'b.report_id', 'b.status_word', 'b.polls'])
    .select([...asNumbersOrNull('b', 'estimated_quota', 'used_quota'), 'b.error_message', 'b.next_poll_at'])
    .select(sql<string>`coalesce(b.submitted_at, b.created_at)`.as('asked_at'))
    .select(sql<number>`extract(epoch from clock_timestamp() - coalesce(b.submitted_at, b.created_at))::float8`.as('age_seconds'))
    .where('b.report_state', 'is not', null)

export type ReportLine = Awaited<ReturnType<ReturnType<typeof reportLines>['execute']>>[number]

// Bought or perhaps bought, and not downloaded. Written so that PostgreSQL uses the small partial indexes of open and troubled jobs.
const isOpen = sql<boolean>`b.report_state in ('intent', 'submitted', 'ready', 'uncertain')
  and ((b.state = 'open' and b.ask_number is not null) or b.state in ('held', 'failed'))`

/** Oldest first, because the longest wait matters most. @param pipelines only these; empty: all */
export const openReports = (db: Db, limit: number, pipelines: readonly string[] = []): Promise<ReportLine[]> =>
  reportLines(db)
    .where(isOpen)
    .$if(pipelines.length > 0, (query) => query.where('p.pipeline', 'in', pipelines))
    .orderBy('b.created_at')
    .orderBy('b.job_id')
    .limit(limit)
    .execute()

export const countOpenReports = (db: Db): Promise<{ readonly open: number; readonly uncertain: number }> =>
  db
    .selectFrom('etl.jobs as b')
    .select(sql<number>`count(*)::float8`.as('open'))
    .select(sql<number>`(count(*) filter (where b.report_state = 'uncertain'))::float8`.as('uncertain'))
    .where(isOpen)
    .executeTakeFirstOrThrow()

/**
 * open: a job waits for the report. uncertain: it is not known whether the service took the submission. lost: bought or perhaps bought, and no
 * job waits for it. given up: by a person. unused: bought, but no unit was loaded from it. A job that is done without an
 * answer got exactly the bytes that are loaded already.
 */
type PurchaseKind = 'open' | 'uncertain' | 'lost' | 'given up' | 'unused'

/** `quota`: credits the service named, else those that were estimated. */
type Purchase = Row<'etl.reports', 'account' | 'pipeline' | 'version' | 'window_from' | 'window_to' | 'cells' | 'state'> &
  Row<'etl.reports', 'report_id' | 'status_word' | 'submitted_at'> &
  Texts<'job_state'> &
  Numbers<'job_id'> &
  Maybe<Numbers<'quota'> & Texts<'message'>> & { readonly kind: PurchaseKind }

/** Newest first. @param pipelines empty: all */
export const listPurchases = async (
  db: Db,
  { pipelines, limit }: { readonly pipelines: readonly string[]; readonly limit: number },
): Promise<{ rows: Purchase[]; total: number }> => {
  const among = pipelines.length === 0 ? sql`true` : sql`r.pipeline = any(${[...pipelines]}::text[])`
  const rows = await query<Purchase & Numbers<'total'>>(db)`
    with purchases as (
      select case
          when r.answer_id is null and r.job_state = 'open' and r.state in ('intent', 'submitted', 'ready') then 'open'
          when r.state = 'uncertain' and r.job_state <> 'replaced' then 'uncertain'
          when r.state in ('failed', 'expired') and r.job_state = 'replaced' and r.error_message like ${`% ${givenUpBy} %`} then 'given up'
          when r.state in ('uncertain', 'expired') or (r.state = 'failed' and r.report_id is null) then 'lost'
          when r.state in ('submitted', 'ready', 'downloaded') and r.job_state <> 'open' and not (r.job_state = 'done' and r.answer_id is null)
            and not exists (select 1 from etl.loads l where l.answer_id = r.answer_id) then 'unused' end as kind, r.*
      from etl.reports r where ${among}
    )
    select kind, job_id::float8 as job_id, job_state, account, pipeline, version, window_from, window_to, cells, state, report_id,
      status_word, submitted_at, coalesce(used_quota, estimated_quota)::float8 as quota, error_message as message,
      (count(*) over ())::float8 as total
    from purchases where kind is not null order by job_id desc limit ${limit}`
  return { rows: rows.map(({ total: _, ...row }) => row), total: rows[0]?.total ?? 0 }
}
