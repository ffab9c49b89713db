// Bought reports: those still open, and those of one unit.
import { sql } from 'kysely'
import { type Db, rowsOf } from './row.ts'

export interface ReportLine {
  readonly report_key: number
  readonly unit_id: number
  readonly unit_key: string
  readonly account: string
  readonly pipeline: string
  readonly state: string
  readonly report_id: string | null
  readonly status_word: string | null
  readonly polls: number
  readonly estimated_quota: number | null
  readonly used_quota: number | null
  readonly data_points_count: number | null
  readonly error_message: string | null
  readonly created_at: string
  readonly next_poll_at: string | null
  readonly deadline_at: string | null
}

const line = sql`r.report_key::float8 as report_key, r.unit_id::float8 as unit_id, u.unit_key, r.account, r.pipeline, r.state, r.report_id,
  r.status_word, r.polls, r.estimated_quota::float8 as estimated_quota, r.used_quota::float8 as used_quota,
  r.data_points_count::float8 as data_points_count, r.error_message, coalesce(r.submitted_at, r.created_at) as created_at,
  r.next_poll_at, r.deadline_at`

/** Oldest first: the one that has waited longest is the one to look at. */
export const openReports = (db: Db, limit: number): Promise<readonly ReportLine[]> =>
  rowsOf(
    db,
    sql<ReportLine>`select ${line} from etl.reports r join etl.units u on u.unit_id = r.unit_id
      where r.state in ('intent', 'submitted', 'ready', 'uncertain') order by r.created_at, r.report_key limit ${limit}`,
  )

export const countOpenReports = async (db: Db): Promise<{ readonly open: number; readonly uncertain: number }> => {
  const [row] = await rowsOf(
    db,
    sql<{ open: number; uncertain: number }>`select count(*)::float8 as open,
      (count(*) filter (where state = 'uncertain'))::float8 as uncertain
      from etl.reports where state in ('intent', 'submitted', 'ready', 'uncertain')`,
  )
  return row ?? { open: 0, uncertain: 0 }
}

export const unitReports = (db: Db, unitId: number): Promise<readonly ReportLine[]> =>
  rowsOf(
    db,
    sql<ReportLine>`select ${line} from etl.reports r join etl.units u on u.unit_id = r.unit_id
      where r.unit_id = ${unitId}::bigint order by r.report_key desc limit 50`,
  )
