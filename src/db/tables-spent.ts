// What the ledger keeps of money and of lists that are read from the database.
import type { Generated } from 'kysely'
import type { BigintText, GeneratedBigint, Json, NullableBigint, NullableTimestamp, Timestamp } from './column-kinds.ts'

/** A set of tags; number 1 is the empty one. */
export interface TagSetsTable {
  tag_set_id: Generated<number>
  tags: Json
}

/** What requests cost that are paid for one by one; the sum over the slots counts. */
export interface RequestCreditsTable {
  day: string
  account: string
  pipeline_id: number
  tag_set_id: number
  /** Of `run` or `schedule`; else of a range that a person named. */
  is_night: boolean
  /** Which backend wrote it; -1: added up after the day. */
  slot: number
  requests: BigintText
  credits: BigintText
  /** Of the credits, those that the service may not have charged: the answer did not come whole. */
  uncertain: BigintText
  /** Requests whose price nobody knows. */
  unpriced: BigintText
}

/** Bills that tell the price of a dataset. */
export interface PricesTable {
  price_id: GeneratedBigint
  account: string
  dataset: string
  said_in: 'answer' | 'balance'
  job_id: NullableBigint
  rows_asked: NullableBigint
  rows: NullableBigint
  metrics: number
  values: BigintText
  credits: BigintText
  learned_at: Timestamp
  /** null: it counts. */
  dropped_at: NullableTimestamp
}

/** What the service said is left, at a moment when nothing of the account was under way. */
export interface MeterReadingsTable {
  reading_id: GeneratedBigint
  api: string
  account: string
  read_at: Timestamp
  remaining_requests: NullableBigint
  remaining_credits: NullableBigint
  /** Credits on record by then, over all time. */
  counted_requests: BigintText
  counted_reports: BigintText
  /** Charged since the reading before, beyond what is on record; null: there is nothing to compare with. */
  difference: NullableBigint
}

/** A list that a definition reads from the database, whenever its values changed. */
export interface ListsTable {
  list_id: GeneratedBigint
  pipeline_id: number
  dimension: string
  query: string
  values: string[]
  state: 'taken' | 'held' | 'dissolved'
  came: number
  gone: number
  read_at: Timestamp
  decided_at: NullableTimestamp
  decided_by: string | null
}

/** What a run found when it read such a list. */
export interface ListReadsTable {
  run_id: BigintText
  pipeline_id: number
  dimension: string
  /** The list that the run obeyed. */
  list_id: NullableBigint
  outcome: 'taken' | 'unchanged' | 'held' | 'failed'
  values: number | null
  message: string | null
  read_at: Timestamp
}

/** Every credit by what it is charged to. */
export interface SpendingView {
  account: string
  pipeline: string
  pipeline_id: number
  tag_set_id: number
  day: string
  reports: BigintText
  requests: BigintText
  used_quota: NullableBigint
  reserved_quota: BigintText
  /** Reports and requests whose price nobody knows yet. */
  unpriced: BigintText
}
