// Runs: started, summed up from what the ledger holds, cancelled, finished; those whose process died are seen.
import { hostname } from 'node:os'
import { type Kysely, sql } from 'kysely'
import type { RowCounts } from '../core/types.ts'
import { processIsAlive } from '../db/process-alive.ts'
import type { Tables } from '../db/tables.ts'
import { databaseNow } from './database-now.ts'

type Db = Kysely<Tables>

export interface RunSummary {
  readonly units: Readonly<Record<'planned' | 'loaded' | 'unchanged' | 'waiting' | 'held' | 'failed', number>>
  readonly rows: Readonly<RowCounts>
  readonly requests: number
  readonly reports_submitted: number
  readonly quota_used: number
  readonly bytes: number
}

export type RunState = 'running' | 'done' | 'failed' | 'cancelled' | 'interrupted'

export const startRun = async (
  db: Db,
  run: { command: string; arguments: Readonly<Record<string, unknown>> },
): Promise<number> => {
  await reapDeadRuns(db)
  const row = await db
    .insertInto('etl.runs')
    .values({ command: run.command, arguments: JSON.stringify(run.arguments), host: hostname(), process_id: process.pid })
    .returning('run_id')
    .executeTakeFirstOrThrow()
  return Number(row.run_id)
}

/** Runs of this host whose process no longer lives are over; their units go on in the next run. */
export const reapDeadRuns = async (db: Db): Promise<void> => {
  const running = await db
    .selectFrom('etl.runs')
    .select(['run_id', 'process_id'])
    .where('state', '=', 'running')
    .where('host', '=', hostname())
    .execute()
  const dead = running.filter(({ process_id }) => !processIsAlive(process_id)).map(({ run_id }) => run_id)
  if (dead.length === 0) return
  await db
    .updateTable('etl.runs')
    .set({ state: 'interrupted', finished_at: databaseNow })
    .where('run_id', 'in', dead)
    .where('state', '=', 'running')
    .execute()
}

/** @param summary null keeps none. A run that was cancelled stays cancelled. */
export const finishRun = async (db: Db, runId: number, state: RunState, summary: unknown): Promise<void> => {
  await db
    .updateTable('etl.runs')
    .set({ state, finished_at: databaseNow, ...(summary === null ? {} : { summary: JSON.stringify(summary) }) })
    .where('run_id', '=', String(runId))
    .where('state', 'in', state === 'cancelled' ? ['running', 'cancelled'] : ['running'])
    .execute()
}

export const runState = async (db: Db, runId: number): Promise<RunState | null> => {
  const row = await db.selectFrom('etl.runs').select('state').where('run_id', '=', String(runId)).executeTakeFirst()
  return row?.state ?? null
}

/** From here on nothing is submitted for the run: an intent looks at this mark in its own transaction. */
export const requestCancel = async (db: Db, runId: number): Promise<void> => {
  await db.updateTable('etl.runs').set({ cancel_requested_at: databaseNow }).where('run_id', '=', String(runId)).execute()
}

/** Those of `runIds` that someone asked to cancel. */
export const cancelledRuns = async (db: Db, runIds: readonly number[]): Promise<number[]> => {
  const rows = await db
    .selectFrom('etl.runs')
    .select('run_id')
    .where('run_id', 'in', runIds.map(String))
    .where('cancel_requested_at', 'is not', null)
    .execute()
  return rows.map((row) => Number(row.run_id))
}

/** Units of the run that are not settled yet, and whether the run was cancelled. */
export const openUnits = async (db: Db, runId: number): Promise<{ count: number; cancelled: boolean }> => {
  const { rows } = await sql<{ count: number; cancelled: boolean }>`
    select (select count(*)::int from etl.run_units where run_id = ${runId}::bigint and outcome is null) as count,
      (select cancel_requested_at is not null from etl.runs where run_id = ${runId}::bigint) as cancelled`.execute(db)
  return rows[0] ?? { count: 0, cancelled: false }
}

/** Units of the run that some process holds now. */
export const unitsAtHand = async (db: Db, runId: number): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from etl.run_units r join etl.units u on u.unit_id = r.unit_id
    where r.run_id = ${runId}::bigint and r.outcome is null and u.state = 'running' and u.run_id = r.run_id`.execute(db)
  return rows[0]?.count ?? 0
}

/** Runs of other commands than `command` on record. */
export const foreignRuns = async (db: Db, command: string): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from etl.runs where command not in (${command}, 'replay', 'quarantine retry')`.execute(db)
  return rows[0]?.count ?? 0
}

/** What the run did, counted from its units, loads, requests and reports. */
export const runSummary = async (db: Db, runId: number): Promise<RunSummary> => {
  const { rows } = await sql<{ summary: RunSummary }>`
    select jsonb_build_object(
      'units', (select jsonb_build_object(
          'planned', count(*), 'loaded', count(*) filter (where outcome = 'loaded'),
          'unchanged', count(*) filter (where outcome = 'unchanged'), 'waiting', count(*) filter (where outcome = 'waiting'),
          'held', count(*) filter (where outcome = 'held'), 'failed', count(*) filter (where outcome = 'failed'))
        from etl.run_units where run_id = ${runId}::bigint),
      'rows', (select jsonb_build_object(
          'read', coalesce(sum(rows_read), 0), 'inserted', coalesce(sum(rows_inserted), 0),
          'updated', coalesce(sum(rows_updated), 0), 'ended', coalesce(sum(rows_ended), 0),
          'unchanged', coalesce(sum(rows_unchanged), 0), 'quarantined', coalesce(sum(rows_quarantined), 0),
          'duplicates', coalesce(sum(rows_duplicates), 0))
        from etl.loads where run_id = ${runId}::bigint),
      'requests', (select count(*) from etl.requests where run_id = ${runId}::bigint),
      'reports_submitted', (select count(*) from etl.reports where run_id = ${runId}::bigint and submitted_at is not null),
      'quota_used', (select coalesce(sum(used_quota), 0) from etl.reports where run_id = ${runId}::bigint),
      'bytes', (select coalesce(sum(bytes), 0) from etl.requests where run_id = ${runId}::bigint)
    ) as summary`.execute(db)
  return rows[0]?.summary ?? emptySummary
}

/** Requests that were not made because one free look showed the loaded answer still stands: what that answer once took, less the look. */
export const requestsSpared = async (db: Db, runId: number): Promise<number> => {
  const { rows } = await sql<{ spared: number }>`
    select coalesce(sum(greatest(0, once.n - now.n)), 0)::int as spared
    from etl.loads l
      cross join lateral (select max(edition) as edition from etl.loads p
        where p.unit_id = l.unit_id and p.outcome = 'loaded' and p.load_id < l.load_id) loaded
      cross join lateral (select count(*) as n from etl.requests q
        where q.unit_id = l.unit_id and q.edition = loaded.edition and q.attempt = 1) once
      cross join lateral (select count(*) as n from etl.requests q
        where q.unit_id = l.unit_id and q.edition = l.edition and q.attempt = 1) now
    where l.run_id = ${runId}::bigint and l.outcome = 'unchanged'`.execute(db)
  return rows[0]?.spared ?? 0
}

const emptySummary: RunSummary = {
  units: { planned: 0, loaded: 0, unchanged: 0, waiting: 0, held: 0, failed: 0 },
  rows: { read: 0, inserted: 0, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 },
  requests: 0,
  reports_submitted: 0,
  quota_used: 0,
  bytes: 0,
}
