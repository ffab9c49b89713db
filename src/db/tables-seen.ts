// The ledger's views: units and purchases as people see them, and quota.
import type { TestAction } from '../core/data-test.ts'
import type { JobState, ReportState, UnitState } from '../core/types.ts'

/** Units as people see them: with their key and the state derived from pointers and job. */
export interface UnitListView {
  unit_id: string
  unit_key: string
  pipeline_id: number
  pipeline: string
  version: number
  window_from: string
  window_to: string
  slice: unknown
  slice_id: number
  wanted: boolean
  state: UnitState
  error_code: string | null
  error_message: string | null
  not_before: string | null
  attempts: number
  ask_number: string | null
  answer_id: string | null
  job_id: string | null
  held_answer_id: string | null
  held_code: string | null
}

/** Units that are asked for or held; see `UnitListView` for what people call them. */
export interface OpenUnitsView {
  pipeline_id: number
  window_from: string
  slice_id: number
  unit_id: string
  answer_id: string | null
  job_id: string | null
  state: UnitState
}

/** Units held or failed, found by index. */
export interface TroubledUnitsView {
  pipeline_id: number
  window_from: string
  slice_id: number
  unit_id: string
  job_id: string | null
  state: 'held' | 'failed'
  error_code: string | null
  error_message: string | null
}

/** Tests that loaded rows fail, or that keep an answer from being loaded. */
export interface FailedTestsView {
  pipeline_id: number
  pipeline: string
  version: number
  window_from: string
  slice_id: number
  unit_id: string
  test: string
  kind: string
  on_failure: TestAction
  outcome: 'held' | 'released' | 'warned'
  rows_tested: string
  rows_failing: string
  found: string | null
  expected: string | null
  message: string
  tested_at: string
  run_id: string | null
  answer_id: string
}

/** Each window that has units. */
export interface WindowListView {
  pipeline_id: number
  pipeline: string
  version: number
  window_from: string
  /** Its units and rows stand as they were counted at closing. */
  closed: boolean
  closed_units: string | null
  closed_rows: string | null
  looked_at: string | null
}

/** Units of a window by state; closed windows by their stored counts. */
export interface WindowStatesView {
  pipeline_id: number
  pipeline: string
  version: number
  window_from: string
  state: UnitState
  /** They have an answer, whatever is asked for beside it. */
  loaded: boolean
  /** Asked for or held: in `etl.open_units`. */
  open: boolean
  units: string
}

/** Windows between a pipeline's oldest and newest one. */
export interface ExpectedWindowsView {
  pipeline_id: number
  pipeline: string
  version: number
  window_from: string
  /** null: the window is open. */
  closed_generation: number | null
}

/** Wanted slices of expected windows that have no row of data. */
export interface MissingCellsView {
  pipeline_id: number
  window_from: string
  slice_id: number
  /** null: none was planned. */
  unit_id: string | null
  reason: 'service had none' | 'held' | 'failed' | 'under way' | 'not asked'
  error_code: string | null
}

/** Rows and last load by window. */
export interface WindowLoadsView {
  pipeline_id: number
  pipeline: string
  version: number
  window_from: string
  rows: string
  last_loaded_at: string | null
  last_checked_at: string | null
}

/** One row a pipeline and version. */
export interface LastLoadsView {
  pipeline_id: number
  pipeline: string
  version: number
  load_id: string
  loaded_at: string
  drift: unknown
}

/** Runs with what became of their units. */
export interface RunListView {
  run_id: string
  command: string
  arguments: unknown
  state: 'running' | 'done' | 'failed' | 'cancelled' | 'interrupted'
  /** Name of the process that it is or was part of. */
  process: string | null
  started_at: string
  finished_at: string | null
  planned: string
  loaded: string
  unchanged: string
  waiting: string
  held: string
  failed: string
}

/** Purchases, from the columns of their jobs. */
export interface ReportsView {
  job_id: string
  run_id: string | null
  account: string
  pipeline: string
  version: number
  window_from: string
  window_to: string
  cells: number
  endpoint: string | null
  request_hash: string | null
  request: unknown
  state: ReportState
  report_id: string | null
  status_word: string | null
  polls: number
  next_poll_at: string | null
  retries: number
  estimated_quota: string | null
  used_quota: string | null
  data_points_count: string | null
  error_message: string | null
  created_at: string
  submitted_at: string | null
  completed_at: string | null
  deadline_at: string | null
  updated_at: string
  former_job_id: string | null
  job_state: JobState
  answer_id: string | null
}

/** Credits by account, pipeline and day (UTC). */
export interface QuotaView {
  account: string
  pipeline: string
  day: string
  reports: string
  requests: string
  used_quota: string | null
  reserved_quota: string
}
