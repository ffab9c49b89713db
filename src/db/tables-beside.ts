// What the ledger keeps beside units and jobs: the warehouse's name, HTTP requests, rejected rows, events, ticks, messages.
import type { Generated } from 'kysely'
import type { TestAction } from '../core/data-test.ts'
import type { BigintText, GeneratedBigint, Json, NullableBigint, NullableTimestamp, Timestamp } from './column-kinds.ts'

/** One row an HTTP request, without secrets. */
export interface RequestsTable {
  request_id: GeneratedBigint
  run_id: NullableBigint
  job_id: NullableBigint
  ask_number: NullableBigint
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
  /** null: it is free, or nobody knows its price. */
  credits: NullableBigint
  unpriced: Generated<boolean>
  started_at: string
  milliseconds: number
}

/** Records that could not be loaded. */
export interface QuarantineTable {
  quarantine_id: GeneratedBigint
  answer_id: BigintText
  job_id: BigintText
  /** null: nobody can tell whose record it is. */
  unit_id: NullableBigint
  run_id: NullableBigint
  pipeline: string
  part: number
  line: BigintText
  column_name: string | null
  reason: string
  raw: string
  state: Generated<'open' | 'resolved' | 'superseded'>
  created_at: Timestamp
  resolved_at: NullableTimestamp
}

/** A test of a definition that the rows of a unit failed. */
export interface TestFailuresTable {
  unit_id: BigintText
  answer_id: BigintText
  /** Its name in the definition. */
  test: string
  pipeline_id: number
  window_from: string
  run_id: NullableBigint
  kind: string
  on_failure: TestAction
  /** A person has allowed the answer. */
  released: Generated<boolean>
  rows_tested: BigintText
  rows_failing: BigintText
  found: string | null
  expected: string | null
  message: string
  tested_at: Timestamp
}

/** What happened that no other table tells, for people. */
export interface EventsTable {
  event_id: GeneratedBigint
  at: Timestamp
  kind: string
  pipeline: string | null
  unit_id: NullableBigint
  job_id: NullableBigint
  run_id: NullableBigint
  message: string
  details: Json
}

/** One row a tick of a schedule that somebody took. */
export interface TicksTable {
  pipeline: string
  due_at: string
  claimed_by: string
  claimed_at: Timestamp
  kind: 'on time' | 'caught up' | 'skipped' | 'released'
  run_id: NullableBigint
  finished_at: NullableTimestamp
}

/** One row: which warehouse this is. */
export interface WarehouseTable {
  only_one: Generated<boolean>
  warehouse_id: Generated<string>
  epoch: Generated<number>
  created_at: Timestamp
  /** Server and database the ledger was last known to be in; null before the first run. */
  home: string | null
  standing: Generated<'own' | 'copy' | 'replaced'>
  standing_reason: string | null
  standing_since: NullableTimestamp
}

/** Names the warehouse bore before it was restored, cloned or moved. */
export interface FormerNamesTable {
  warehouse_id: string
  epoch: number
  /** Landings of that name may be deleted by this warehouse. */
  is_ours: Generated<boolean>
  until: Timestamp
}

/** The service that an account bought from. */
export interface OriginsTable {
  api: string
  account: string
  /** Host and port. */
  address: string
  /** Its beginning, in hexadecimal. */
  key_sha256: string
  noted_at: Timestamp
}

/** Marts that are published, so that one whose file goes can be dropped. */
export interface MartsTable {
  name: string
  published_at: Timestamp
}

/** Which version of a pipeline bi shows, and since when. */
export interface PublishedVersionsTable {
  pipeline: string
  version: number
  published_at: Timestamp
}

/** Units of former versions that the published one had no answer for. */
export interface KeptUnitsTable {
  unit_id: BigintText
  pipeline: string
  version: number
  window_from: string
  cell: Json
  until: NullableTimestamp
}

/** The same with the moment the published version had one. */
export interface KeptCellsView {
  unit_id: string
  pipeline: string
  version: number
  until: string | null
}

/** What waits for a person's word before it is bought, or has it. */
export interface ApprovalsTable {
  approval_id: GeneratedBigint
  pipeline_id: number
  /** `night`: a run found more than its guard allows. `backfill`: a range that a person named. */
  kind: 'night' | 'backfill'
  state: Generated<'waiting' | 'approved' | 'dissolved'>
  run_id: NullableBigint
  /** Units by the reason they are asked for. */
  reasons: Json
  /** Of all its jobs: first day of the first window, and the day after the last one; null: it has none. */
  window_from: string | null
  window_to: string | null
  units: BigintText
  reports: Generated<number>
  /** What they are thought to cost. */
  credits: BigintText
  /** What the night might have cost; null: nothing bounded it. */
  allowed: NullableBigint
  /** Of lists, limits and guard when it was planned: others plan it anew. */
  digest: string | null
  asked_at: Timestamp
  decided_at: NullableTimestamp
  decided_by: string | null
  /** When its last report can be bought as budgets are; null: at once, or not known. */
  done_on: string | null
}

/** One row an account of an API: what its refusals have taught, and its trouble. */
export interface PaceTable {
  account: string
  next_at: Generated<string>
  noted_at: Generated<string>
  requests_per_second: number | null
  ceiling: number | null
  changed_at: NullableTimestamp
  refused_at: NullableTimestamp
  trouble_place: string | null
  trouble_code: string | null
  trouble_message: string | null
  trouble_since: NullableTimestamp
  trouble_seen_at: NullableTimestamp
}
