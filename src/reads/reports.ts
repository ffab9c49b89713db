// Bought reports: those still open, and those of given jobs.
import { sql } from 'kysely'
import type { ReportState } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { type BoxColumns, boxColumns } from './boxes.ts'
import { wholeAs, wholeOrNullAs } from './row.ts'

export interface ReportLine extends BoxColumns {
  readonly job_id: number
  /** Units it is bought for. */
  readonly cells: number
  readonly account: string
  readonly state: ReportState
  readonly report_id: string | null
  readonly status_word: string | null
  readonly polls: number
  readonly estimated_quota: number | null
  readonly used_quota: number | null
  readonly data_points_count: number | null
  readonly error_message: string | null
  /** Submitted, or about to be. */
  readonly created_at: string
  readonly age_seconds: number
  readonly next_poll_at: string | null
  readonly deadline_at: string | null
}

/** Purchases as lines, to be narrowed; `b` is the job. */
export const reportLines = (db: Db) =>
  db
    .selectFrom('etl.jobs as b')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'b.pipeline_id')
    .select(boxColumns)
    .select([
      wholeAs('b', 'job_id'),
      'b.cells',
      'b.account',
      sql<ReportState>`b.report_state`.as('state'),
      'b.report_id',
      'b.status_word',
      'b.polls',
    ])
    .select([wholeOrNullAs('b', 'estimated_quota'), wholeOrNullAs('b', 'used_quota'), wholeOrNullAs('b', 'data_points_count')])
    .select(['b.error_message', 'b.next_poll_at', 'b.deadline_at'])
    .select(sql<string>`coalesce(b.submitted_at, b.created_at)`.as('created_at'))
    .select(sql<number>`extract(epoch from clock_timestamp() - coalesce(b.submitted_at, b.created_at))::float8`.as('age_seconds'))
    .where('b.report_state', 'is not', null)

// Bought or perhaps bought, and not downloaded; written so that the small indexes of open and troubled jobs answer.
const isOpen = sql<boolean>`b.report_state in ('intent', 'submitted', 'ready', 'uncertain')
  and ((b.state = 'open' and b.ask_number is not null) or b.state in ('held', 'failed'))`

/** Oldest first: the one that has waited longest is the one to look at. @param pipelines only these; empty: all */
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
