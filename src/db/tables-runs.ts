// Processes, runs and what each run waits for, as Kysely sees them.
import type { Generated, ColumnType as SqlColumn } from 'kysely'
import type { BigintText, GeneratedBigint, Json, NullableTimestamp, Timestamp } from './column-kinds.ts'

/** One row a process, with the one lease for all its jobs. */
export interface ProcessesTable {
  process_id: Generated<number>
  /** Unique over all hosts and starts. */
  name: string
  host: string
  /** What tells one boot of the host from the next; empty where the system has no such word. */
  boot: string
  system_process_id: number
  /** What tells a process from a later one with the same number; empty where the system has no such word. */
  begun: string
  started_at: Timestamp
  lease_until: string
  ended_at: NullableTimestamp
}

/** One row an invocation that works on units. */
export interface RunsTable {
  run_id: GeneratedBigint
  command: string
  arguments: Json
  state: Generated<'running' | 'done' | 'failed' | 'cancelled' | 'interrupted'>
  process_id: number | null
  started_at: Timestamp
  finished_at: NullableTimestamp
  cancel_requested_at: NullableTimestamp
  summary: SqlColumn<unknown, string | null | undefined, string | null>
}

/** How a job ended for a run that waited for it. `let go`: by a cancel; `replaced`: other jobs ask for its units. */
export type RunOutcome = 'loaded' | 'unchanged' | 'waiting' | 'held' | 'failed' | 'let go' | 'replaced'

/** What a run waits for: the only record of waiting. */
export interface RunJobsTable {
  run_id: BigintText
  job_id: BigintText
  /** The lowest number goes first. */
  priority: number
  /** Units of the job that the run asked for. */
  units: number
  /** Which of them, where it asked for a part of the job only; null: all. */
  slice_ids: number[] | null
  window_from: string | null
  window_to: string | null
  outcome: RunOutcome | null
  /** Of `units`, those that ended held although the job was loaded. */
  held_units: Generated<number>
  passed_units: Generated<number>
  finished_at: NullableTimestamp
}
