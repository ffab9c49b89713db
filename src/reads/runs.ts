// Runs with what became of their units, and what they did to the rows night by night.
import { sql } from 'kysely'
import { type Db, rowsOf } from './row.ts'

export interface RunLine {
  readonly run_id: number
  readonly command: string
  readonly arguments: unknown
  readonly state: string
  readonly host: string
  readonly started_at: string
  readonly finished_at: string | null
  readonly planned: number
  readonly loaded: number
  readonly unchanged: number
  readonly waiting: number
  readonly held: number
  readonly failed: number
}

const outcomes = sql`count(*)::float8 as planned, (count(*) filter (where outcome = 'loaded'))::float8 as loaded,
  (count(*) filter (where outcome = 'unchanged'))::float8 as unchanged, (count(*) filter (where outcome = 'waiting'))::float8 as waiting,
  (count(*) filter (where outcome = 'held'))::float8 as held, (count(*) filter (where outcome = 'failed'))::float8 as failed`

const columns = sql`r.run_id::float8 as run_id, r.command, r.arguments, r.state, r.host, r.started_at, r.finished_at,
  o.planned, o.loaded, o.unchanged, o.waiting, o.held, o.failed`

export const lastRuns = (db: Db, limit: number, beforeRunId: number | null = null): Promise<readonly RunLine[]> =>
  rowsOf(
    db,
    sql<RunLine>`select ${columns} from (select * from etl.runs where ${beforeRunId}::bigint is null or run_id < ${beforeRunId}::bigint
        order by run_id desc limit ${limit}) r
      left join lateral (select ${outcomes} from etl.run_units u where u.run_id = r.run_id) o on true order by r.run_id desc`,
  )

export const oneRun = async (db: Db, runId: number): Promise<RunLine | null> => {
  const [row] = await rowsOf(
    db,
    sql<RunLine>`select ${columns} from etl.runs r
      left join lateral (select ${outcomes} from etl.run_units u where u.run_id = r.run_id) o on true
      where r.run_id = ${runId}::bigint`,
  )
  return row ?? null
}

export interface Night {
  readonly day: string
  readonly pipeline: string
  readonly inserted: number
  readonly updated: number
  readonly ended: number
  readonly quarantined: number
}

/** Rows by the day (UTC) their load committed. */
export const nights = (db: Db, fromDay: string): Promise<readonly Night[]> =>
  rowsOf(
    db,
    sql<Night>`select to_char(l.loaded_at at time zone 'UTC', 'YYYY-MM-DD') as day, u.pipeline, sum(l.rows_inserted)::float8 as inserted,
      sum(l.rows_updated)::float8 as updated, sum(l.rows_ended)::float8 as ended, sum(l.rows_quarantined)::float8 as quarantined
      from etl.loads l join etl.units u on u.unit_id = l.unit_id
      where l.loaded_at >= ${fromDay}::date and l.outcome = 'loaded' group by 1, 2 order by 1, 2`,
  )

export interface Restatement {
  readonly load_id: number
  readonly unit_id: number
  readonly unit_key: string
  readonly loaded_at: string
  readonly updated: number
  readonly ended: number
  readonly inserted: number
  readonly rows_read: number
}

/** Loads that changed or ended rows of an earlier load, the largest first. */
export const restatements = (db: Db, fromDay: string, limit: number): Promise<readonly Restatement[]> =>
  rowsOf(
    db,
    sql<Restatement>`select l.load_id::float8 as load_id, l.unit_id::float8 as unit_id, u.unit_key, l.loaded_at,
      l.rows_updated::float8 as updated, l.rows_ended::float8 as ended, l.rows_inserted::float8 as inserted, l.rows_read::float8 as rows_read
      from etl.loads l join etl.units u on u.unit_id = l.unit_id
      where l.loaded_at >= ${fromDay}::date and l.rows_updated + l.rows_ended > 0
      order by l.rows_updated + l.rows_ended desc, l.load_id desc limit ${limit}`,
  )

export interface Event {
  readonly event_id: number
  readonly at: string
  readonly kind: string
  readonly unit_id: number | null
  readonly run_id: number | null
  readonly message: string
}

export const lastEvents = (db: Db, limit: number): Promise<readonly Event[]> =>
  rowsOf(
    db,
    sql<Event>`select event_id::float8 as event_id, at, kind, unit_id::float8 as unit_id, run_id::float8 as run_id, message
      from etl.events order by event_id desc limit ${limit}`,
  )
