// The ledger's tables as Kysely sees them. bigint and numeric are text in JavaScript; timestamps are ISO text (see connect.ts).
import type { Generated, ColumnType as SqlColumn } from 'kysely'

import type { ReportState, UnitState } from '../core/types.ts'

/** Read as text; written as text, number or bigint. */
type BigintText = SqlColumn<string, string | number | bigint, string | number | bigint>
type NullableBigint = SqlColumn<string | null, string | number | bigint | null | undefined, string | number | bigint | null>
type GeneratedBigint = SqlColumn<string, never, never>
/** jsonb: parsed on reading, JSON text on writing. */
type Json = SqlColumn<unknown, string, string>
type Timestamp = SqlColumn<string, string | undefined, string>
type NullableTimestamp = SqlColumn<string | null, string | null | undefined, string | null>

export interface RunsTable {
  run_id: GeneratedBigint
  command: string
  arguments: Json
  state: Generated<'running' | 'done' | 'failed' | 'cancelled' | 'interrupted'>
  host: string
  process_id: number
  started_at: Timestamp
  finished_at: NullableTimestamp
  cancel_requested_at: NullableTimestamp
  summary: SqlColumn<unknown, string | null | undefined, string | null>
}

export interface UnitsTable {
  unit_id: GeneratedBigint
  unit_key: string
  pipeline: string
  version: number
  window_from: string
  window_to: string
  slice: Json
  state: Generated<UnitState>
  /** How many times the unit was asked for anew; reports are reused within an edition, never across. */
  edition: Generated<number>
  attempts: Generated<number>
  /** Grows with every claim; a write that names an older fence changes nothing. */
  fence: SqlColumn<string, string | undefined, string>
  lease_owner: string | null
  lease_until: NullableTimestamp
  not_before: NullableTimestamp
  error_code: string | null
  error_message: string | null
  /** A person allowed the held unit to load as it is. */
  released: Generated<boolean>
  /** To be loaded again even where nothing changed. */
  forced: Generated<boolean>
  run_id: NullableBigint
  /** The landing's locator (see extract/landing.ts), not an absolute path. */
  landing: string | null
  landing_sha256: string | null
  landing_bytes: NullableBigint
  loaded_at: NullableTimestamp
  loaded_edition: number | null
  loaded_load_id: NullableBigint
  loaded_rows: NullableBigint
  loaded_sha256: string | null
  /** The landing the loaded rows came from. */
  loaded_landing: string | null
  source_last_updated: string | null
  source_count: NullableBigint
  /** When the service was last asked whether the unit changed. */
  checked_at: NullableTimestamp
  created_at: Timestamp
  updated_at: Timestamp
}

export type RunOutcome = 'loaded' | 'unchanged' | 'waiting' | 'held' | 'failed'

export interface RunUnitsTable {
  run_id: BigintText
  unit_id: BigintText
  edition: number
  outcome: RunOutcome | null
  finished_at: NullableTimestamp
}

export interface ReportsTable {
  report_key: GeneratedBigint
  unit_id: BigintText
  edition: number
  submission: Generated<number>
  run_id: NullableBigint
  account: string
  pipeline: string
  endpoint: string
  request_hash: string
  request: Json
  state: ReportState
  report_id: string | null
  status_word: string | null
  polls: Generated<number>
  next_poll_at: NullableTimestamp
  retries: Generated<number>
  estimated_quota: NullableBigint
  used_quota: NullableBigint
  data_points_count: NullableBigint
  error_message: string | null
  created_at: Timestamp
  submitted_at: NullableTimestamp
  completed_at: NullableTimestamp
  deadline_at: NullableTimestamp
  updated_at: Timestamp
}

export interface RequestsTable {
  request_id: GeneratedBigint
  run_id: NullableBigint
  unit_id: NullableBigint
  edition: number | null
  account: string
  method: string
  endpoint: string
  parameters: Json
  part: number | null
  attempt: Generated<number>
  status: number | null
  error_code: string | null
  bytes: BigintText
  sha256: string | null
  started_at: string
  milliseconds: number
}

export interface LoadsTable {
  load_id: GeneratedBigint
  unit_id: BigintText
  edition: number
  run_id: NullableBigint
  report_key: NullableBigint
  outcome: 'loaded' | 'unchanged'
  landing: string | null
  landing_sha256: string | null
  landing_bytes: NullableBigint
  source_last_updated: string | null
  source_count: NullableBigint
  rows_read: BigintText
  rows_inserted: BigintText
  rows_updated: BigintText
  rows_ended: BigintText
  rows_unchanged: BigintText
  rows_quarantined: BigintText
  rows_duplicates: BigintText
  drift: SqlColumn<unknown, string | null | undefined, string | null>
  loaded_at: Timestamp
  milliseconds: number | null
}

export interface QuarantineTable {
  quarantine_id: GeneratedBigint
  unit_id: BigintText
  edition: number
  run_id: NullableBigint
  pipeline: string
  landing: string | null
  part: number
  line: BigintText
  column_name: string | null
  reason: string
  raw: string
  state: Generated<'open' | 'resolved' | 'superseded'>
  created_at: Timestamp
  resolved_at: NullableTimestamp
}

export interface EventsTable {
  event_id: GeneratedBigint
  at: Timestamp
  kind: string
  pipeline: string | null
  unit_id: NullableBigint
  run_id: NullableBigint
  report_key: NullableBigint
  message: string
  details: Json
}

export interface TicksTable {
  pipeline: string
  due_at: string
  claimed_by: string
  claimed_at: Timestamp
  kind: 'on time' | 'caught up' | 'skipped'
  run_id: NullableBigint
  finished_at: NullableTimestamp
}

export interface QuotaView {
  account: string
  pipeline: string
  day: string
  reports: string
  used_quota: string | null
  reserved_quota: string
}

export interface Tables {
  'etl.runs': RunsTable
  'etl.units': UnitsTable
  'etl.run_units': RunUnitsTable
  'etl.reports': ReportsTable
  'etl.requests': RequestsTable
  'etl.loads': LoadsTable
  'etl.quarantine': QuarantineTable
  'etl.events': EventsTable
  'etl.ticks': TicksTable
  'etl.quota': QuotaView
}
