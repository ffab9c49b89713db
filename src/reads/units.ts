// Units as the page lists them, and one unit with everything that led to its rows.
import { sql } from 'kysely'
import { type Db, rowsOf } from './row.ts'

export const unitStates = ['planned', 'running', 'waiting', 'landed', 'loaded', 'failed', 'held'] as const

export interface StateCount {
  readonly pipeline: string
  readonly state: string
  readonly units: number
  readonly rows: number
  readonly loaded_at: string | null
}

export const stateCounts = (db: Db): Promise<readonly StateCount[]> =>
  rowsOf(
    db,
    sql<StateCount>`select pipeline, state, count(*)::float8 as units, coalesce(sum(loaded_rows), 0)::float8 as rows,
      max(loaded_at) as loaded_at from etl.units group by 1, 2 order by 1, 2`,
  )

export interface UnitLine {
  readonly unit_id: number
  readonly unit_key: string
  readonly pipeline: string
  readonly state: string
  readonly attempts: number
  readonly rows: number | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly not_before: string | null
  readonly loaded_at: string | null
}

export interface UnitFilter {
  readonly pipeline?: string
  readonly state?: string
  /** `2026-01` */
  readonly month?: string
  readonly runId?: number
}

const conditions = (filter: UnitFilter) =>
  sql.join(
    [
      sql`true`,
      ...(filter.pipeline === undefined ? [] : [sql`u.pipeline = ${filter.pipeline}`]),
      ...(filter.state === undefined ? [] : [sql`u.state = ${filter.state}`]),
      ...(filter.month === undefined
        ? []
        : [
            sql`u.window_from >= ${`${filter.month}-01`}::date and u.window_from < ${`${filter.month}-01`}::date + interval '1 month'`,
          ]),
      ...(filter.runId === undefined
        ? []
        : [sql`exists (select 1 from etl.run_units r where r.unit_id = u.unit_id and r.run_id = ${filter.runId}::bigint)`]),
    ],
    sql` and `,
  )

const line = sql`u.unit_id::float8 as unit_id, u.unit_key, u.pipeline, u.state, u.attempts, u.loaded_rows::float8 as rows,
  u.error_code, u.error_message, u.not_before, u.loaded_at`

/** In the order that needs a person most: held, failed, waiting, running, landed, planned, loaded; then newest window first. */
export const unitLines = (db: Db, filter: UnitFilter, limit: number, offset = 0): Promise<readonly UnitLine[]> =>
  rowsOf(
    db,
    sql<UnitLine>`select ${line} from etl.units u where ${conditions(filter)}
      order by array_position(array['held', 'failed', 'waiting', 'running', 'landed', 'planned', 'loaded'], u.state),
        u.window_from desc, u.unit_id limit ${limit} offset ${offset}`,
  )

export const countUnits = async (db: Db, filter: UnitFilter): Promise<number> => {
  const [row] = await rowsOf(db, sql<{ n: number }>`select count(*)::float8 as n from etl.units u where ${conditions(filter)}`)
  return row?.n ?? 0
}

export interface UnitDetail extends UnitLine {
  readonly window_from: string
  readonly window_to: string
  readonly slice: unknown
  readonly edition: number
  readonly run_id: number | null
  readonly landing: string | null
  readonly landing_sha256: string | null
  readonly landing_bytes: number | null
  readonly loaded_landing: string | null
  readonly source_last_updated: string | null
  readonly source_count: number | null
  readonly checked_at: string | null
  readonly lease_owner: string | null
  readonly created_at: string
  readonly updated_at: string
}

export const unitDetail = async (db: Db, unitId: number): Promise<UnitDetail | null> => {
  const [row] = await rowsOf(
    db,
    sql<UnitDetail>`select ${line}, u.window_from::text as window_from, u.window_to::text as window_to, u.slice, u.edition,
      u.run_id::float8 as run_id, u.landing, u.landing_sha256, u.landing_bytes::float8 as landing_bytes, u.loaded_landing,
      u.source_last_updated, u.source_count::float8 as source_count, u.checked_at, u.lease_owner, u.created_at, u.updated_at
      from etl.units u where u.unit_id = ${unitId}::bigint`,
  )
  return row ?? null
}

export interface LoadLine {
  readonly load_id: number
  readonly run_id: number | null
  readonly outcome: string
  readonly landing: string | null
  readonly loaded_at: string
  readonly rows_read: number
  readonly rows_inserted: number
  readonly rows_updated: number
  readonly rows_ended: number
  readonly rows_unchanged: number
  readonly rows_quarantined: number
  readonly rows_duplicates: number
  readonly drift: unknown
}

export const unitLoads = (db: Db, unitId: number): Promise<readonly LoadLine[]> =>
  rowsOf(
    db,
    sql<LoadLine>`select load_id::float8 as load_id, run_id::float8 as run_id, outcome, landing, loaded_at, rows_read::float8 as rows_read,
      rows_inserted::float8 as rows_inserted, rows_updated::float8 as rows_updated, rows_ended::float8 as rows_ended,
      rows_unchanged::float8 as rows_unchanged, rows_quarantined::float8 as rows_quarantined,
      rows_duplicates::float8 as rows_duplicates, drift
      from etl.loads where unit_id = ${unitId}::bigint order by load_id desc limit 50`,
  )

export interface RequestLine {
  readonly request_id: number
  readonly method: string
  readonly endpoint: string
  readonly part: number | null
  readonly attempt: number
  readonly status: number | null
  readonly error_code: string | null
  readonly bytes: number
  readonly started_at: string
  readonly milliseconds: number
}

export const unitRequests = (db: Db, unitId: number): Promise<readonly RequestLine[]> =>
  rowsOf(
    db,
    sql<RequestLine>`select request_id::float8 as request_id, method, endpoint, part, attempt, status, error_code, bytes::float8 as bytes,
      started_at, milliseconds from etl.requests where unit_id = ${unitId}::bigint order by request_id desc limit 100`,
  )
