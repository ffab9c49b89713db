// What the ledger keeps of messages, both ways: what services say of their data, and what people hear.
import type { Generated } from 'kysely'
import type { ReleasedData } from '../core/release-month.ts'
import type { Severity } from '../core/alarm.ts'
import type { BigintText, GeneratedBigint, Json, NullableTimestamp, Timestamp } from './column-kinds.ts'

/** What was heard of data that the service has released. */
export interface ReleasesTable {
  release_id: GeneratedBigint
  /** As in etl.pace: the API and the account in it. */
  account: string
  every: ReleasedData
  /** The last day there are data for. */
  available_to: string
  heard_by: 'message' | 'poll'
  wakes: Generated<boolean>
  heard_at: Timestamp
}

/** Subscriptions to such news, so that none is made twice. */
export interface SubscriptionsTable {
  account: string
  every: ReleasedData
  subscription_id: string
  made_at: Timestamp
}

/** Causes that were raised, ended ones included. */
export interface NotificationsTable {
  notification_id: GeneratedBigint
  cause: string
  kind: string
  severity: Severity
  /** Causes of the same kind and grouping go in one message; null: alone. */
  grouping: string | null
  pipeline: string | null
  message: string
  changed: string | null
  next_step: string | null
  details: Json
  raised_at: Timestamp
  resolved_at: NullableTimestamp
}

/** One row an event of a notification for a target. */
export interface DeliveriesTable {
  notification_id: BigintText
  target: string
  event: 'raised' | 'resolved'
  attempts: Generated<number>
  next_at: Timestamp
  /** Set before it is sent, so that a sender that ends in the middle leaves a mark. */
  sending_at: NullableTimestamp
  sent_at: NullableTimestamp
  /** null: to be sent. */
  outcome: 'sent' | 'uncertain' | 'given up' | 'not needed' | null
  last_error: string | null
}

/** Named locks with a lease, for work that goes on between transactions. */
export interface LocksTable {
  name: string
  held_by: number | null
  held_until: NullableTimestamp
}
