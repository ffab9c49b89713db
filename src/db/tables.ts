// The ledger's tables as Kysely sees them. bigint and numeric are text in JavaScript; timestamps are ISO text (see connect.ts).
import type { Generated, Kysely, ColumnType as SqlColumn } from 'kysely'

import type { DataPointReading } from '../core/data-point-counts.ts'
import type { JobKind, JobState, ReportState, WindowSize } from '../core/types.ts'
import type { BigintText, GeneratedBigint, Json, NullableBigint, NullableTimestamp, Timestamp } from './column-kinds.ts'
import type {
  ApprovalsTable,
  EventsTable,
  FormerNamesTable,
  KeptCellsView,
  KeptUnitsTable,
  MartsTable,
  PaceTable,
  PublishedVersionsTable,
  QuarantineTable,
  RequestsTable,
  TestFailuresTable,
  TicksTable,
  WarehouseTable,
  OriginsTable,
} from './tables-beside.ts'
import type { DeliveriesTable, LocksTable, NotificationsTable, ReleasesTable, SubscriptionsTable } from './tables-told.ts'
import type { ProcessesTable, RunJobsTable, RunsTable } from './tables-runs.ts'
import type {
  ListReadsTable,
  ListsTable,
  MeterReadingsTable,
  PricesTable,
  RequestCreditsTable,
  SpendingView,
  TagSetsTable,
} from './tables-spent.ts'
import type {
  ExpectedWindowsView,
  FailedTestsView,
  LastLoadsView,
  MissingCellsView,
  OpenUnitsView,
  QuotaView,
  ReportsView,
  RunListView,
  TroubledUnitsView,
  UnitListView,
  WindowListView,
  WindowLoadsView,
  WindowStatesView,
} from './tables-seen.ts'

/** The warehouse as Kysely knows it: the one type for a database or a transaction. */
export type Db = Kysely<Tables>

/** One row a pipeline, version and set of key parameters: whose units are identified by window and slice. */
export interface PipelinesTable {
  pipeline_id: Generated<number>
  pipeline: string
  version: number
  /** Parameters that are part of the key. */
  parameters: Json
  source: string
  account: string
  window_every: WindowSize
  /** Names, in the order of a slice's values. */
  dimensions: string[]
  /** Grows whenever the lists change. */
  generation: Generated<number>
  lists_sha256: string | null
  /** What fetching needs of the definition, as it was planned with last. */
  definition: Json
  /** As it was planned with last: name, column, expects, on_failure. Default: none. */
  tests: SqlColumn<unknown, string | undefined, string>
  tag_set_id: Generated<number>
  updated_at: Timestamp
}

/** One row a combination of values; units name it by number. */
export interface SlicesTable {
  slice_id: Generated<number>
  pipeline_id: number
  /** One value of each dimension. */
  values: string[]
  /** The generation from which on it is wanted without a break. */
  wanted_since: number
  /** The generation in which it left the lists; null: it is wanted. */
  wanted_until: number | null
  /** First day of the oldest window that a night asked for as usual; null: none did. */
  night_from: string | null
}

/** One row a window of a pipeline, so that closed ones are not read unit by unit. */
export interface WindowsTable {
  pipeline_id: number
  window_from: string
  /** Every slice wanted in this generation or before is loaded, none is asked for or held; null: open. */
  closed_generation: number | null
  closed_at: NullableTimestamp
  closed_units: NullableBigint
  closed_rows: NullableBigint
  /** When the service was last seen to have released nothing new for the window. */
  looked_at: NullableTimestamp
}

/** The smallest thing that is wanted, counted and loaded; its key is (pipeline_id, window_from, slice_id). Narrow: there are millions. */
export interface UnitsTable {
  pipeline_id: number
  window_from: string
  slice_id: number
  unit_id: GeneratedBigint
  /** Of the answer the rows come from. */
  ask_number: NullableBigint
  answer_id: NullableBigint
  /** The newest job that asks for it; null once that one has loaded it. */
  job_id: NullableBigint
  /** An answer that waits for a person, and the error code that says why. */
  held_answer_id: NullableBigint
  held_code: string | null
}

/** What is asked for in one go, and the queue: states in src/ledger/transitions.ts. */
export interface JobsTable {
  job_id: GeneratedBigint
  pipeline_id: number
  kind: JobKind
  reason: string
  guard: Generated<'usual' | 'needs approval'>
  /** Who first wanted it: a night as usual, a night beyond that, or a person. Kept over failures and retries. */
  wanted_by: Generated<'night' | 'beyond' | 'range' | 'force' | 'approval'>
  window_from: string
  window_to: string
  slice_ids: number[]
  cells: number
  state: Generated<JobState>
  /** To be loaded even where nothing changed. */
  forced: Generated<boolean>
  /** A person allowed the held answer to load as it is. */
  released: Generated<boolean>
  /** The run that planned it. */
  run_id: NullableBigint
  former_job_id: NullableBigint
  /** A job of another version that asks for the same: its answer serves this one. */
  served_by: NullableBigint
  /** The person's word it waits for, or is bought with; null: a usual one. */
  approval_id: NullableBigint
  holder: number | null
  /** Grows with every claim; a write that names an older fence changes nothing. */
  fence: SqlColumn<string, string | undefined, string>
  attempts: Generated<number>
  not_before: NullableTimestamp
  error_code: string | null
  error_message: string | null
  /** null: only a plan, which planning may dissolve. */
  ask_number: NullableBigint
  asked_at: NullableTimestamp
  answer_id: NullableBigint
  account: string
  endpoint: string | null
  request: SqlColumn<unknown, string | null | undefined, string | null>
  request_hash: string | null
  report_state: ReportState | null
  report_id: string | null
  status_word: string | null
  polls: Generated<number>
  next_poll_at: NullableTimestamp
  retries: Generated<number>
  estimated_quota: NullableBigint
  used_quota: NullableBigint
  /** Set aside for pages that are under way; null: nothing is. */
  reserved_credits: NullableBigint
  /** Landing of the first pages of a walk that a budget stopped; null: there is none. */
  begun_landing: string | null
  /** The tags it was bought with; null: it was not asked for. */
  tag_set_id: number | null
  data_points_count: NullableBigint
  submitted_at: NullableTimestamp
  completed_at: NullableTimestamp
  deadline_at: NullableTimestamp
  /** When the receipt of the purchase was seen in the landing store; null: not yet. */
  receipt_at: NullableTimestamp
  created_at: Timestamp
  updated_at: Timestamp
}

/** Immutable bytes that came for a job, with what they answer and what was judged of them. */
export interface AnswersTable {
  answer_id: GeneratedBigint
  pipeline_id: number
  job_id: BigintText
  ask_number: BigintText
  asked_at: string
  /** When the service last said that it still stands. */
  stood_at: NullableTimestamp
  landed_at: Timestamp
  /** The landing's locator (see extract/landing.ts), not an absolute path. */
  landing: string
  sha256: string
  bytes: BigintText
  window_from: string
  window_to: string
  slice_ids: number[]
  /** Digest of what was asked but for values, windows and metrics: equal ones serve each other's pipelines. */
  asks: string
  metrics: string[]
  source_last_updated: string | null
  source_count: NullableBigint
  data_points_count: NullableBigint
  /** `sort` and `asc` as the service wrote them. */
  source_order: SqlColumn<unknown, string | null | undefined, string | null>
  /** Only the first so many rows were asked for; null: all. */
  top_rows: number | null
  /** The spelling it was asked for in; null: its source has one. */
  dialect: string | null
  /** Columns whose field none of its records has, and those that some lack, once it is loaded; null: it is not, or had no records. */
  missing_columns: string[] | null
  partly_missing: string[] | null
  /** How often its bytes disagreed with the count. */
  times_incomplete: Generated<number>
  /** null: not judged yet; `good`, or the error code it was refused with. */
  verdict: string | null
  verdict_message: string | null
}

/** What a data point of a dataset is. */
export interface DataPointReadingsTable {
  account: string
  dataset: string
  /** Those that no good answer has ruled out; never empty. */
  readings: DataPointReading[]
  answer_id: BigintText
  updated_at: Timestamp
}

/** One row an answer and window that were loaded together; rows lead here by `_loaded_at`. */
export interface LoadsTable {
  load_id: GeneratedBigint
  answer_id: BigintText
  pipeline_id: number
  window_from: string
  job_id: BigintText
  run_id: NullableBigint
  outcome: 'loaded' | 'unchanged'
  /** Units that took the answer with this load. */
  units: Generated<number>
  rows_read: BigintText
  rows_inserted: BigintText
  rows_updated: BigintText
  rows_ended: BigintText
  rows_unchanged: BigintText
  rows_quarantined: BigintText
  rows_duplicates: BigintText
  /** Slices that took the answer and have no row in it. */
  slices_without_rows: Generated<number[]>
  drift: SqlColumn<unknown, string | null | undefined, string | null>
  /** The moment its rows bear. */
  loaded_at: Timestamp
  milliseconds: number | null
}

/** By name in PostgreSQL, views last. */
export interface Tables {
  'etl.warehouse': WarehouseTable
  'etl.marts': MartsTable
  'etl.published_versions': PublishedVersionsTable
  'etl.kept_units': KeptUnitsTable
  'etl.former_names': FormerNamesTable
  'etl.origins': OriginsTable
  'etl.processes': ProcessesTable
  'etl.runs': RunsTable
  'etl.pipelines': PipelinesTable
  'etl.tag_sets': TagSetsTable
  'etl.lists': ListsTable
  'etl.list_reads': ListReadsTable
  'etl.slices': SlicesTable
  'etl.windows': WindowsTable
  'etl.units': UnitsTable
  'etl.jobs': JobsTable
  'etl.approvals': ApprovalsTable
  'etl.run_jobs': RunJobsTable
  'etl.answers': AnswersTable
  'etl.data_point_readings': DataPointReadingsTable
  'etl.loads': LoadsTable
  'etl.requests': RequestsTable
  'etl.request_credits': RequestCreditsTable
  'etl.meter_readings': MeterReadingsTable
  'etl.prices': PricesTable
  'etl.quarantine': QuarantineTable
  'etl.test_failures': TestFailuresTable
  'etl.events': EventsTable
  'etl.ticks': TicksTable
  'etl.notifications': NotificationsTable
  'etl.deliveries': DeliveriesTable
  'etl.locks': LocksTable
  'etl.releases': ReleasesTable
  'etl.subscriptions': SubscriptionsTable
  'etl.pace': PaceTable
  'etl.unit_list': UnitListView
  'etl.failed_tests': FailedTestsView
  'etl.open_units': OpenUnitsView
  'etl.troubled_units': TroubledUnitsView
  'etl.window_list': WindowListView
  'etl.window_states': WindowStatesView
  'etl.window_loads': WindowLoadsView
  'etl.expected_windows': ExpectedWindowsView
  'etl.missing_cells': MissingCellsView
  'etl.published_now': PublishedVersionsTable
  'etl.kept_cells': KeptCellsView
  'etl.last_loads': LastLoadsView
  'etl.run_list': RunListView
  'etl.reports': ReportsView
  'etl.spending': SpendingView
  'etl.quota': QuotaView
}
