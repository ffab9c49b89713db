// What is durable about a paid report; the ledger implements it, the report steps use it.
import type { ReportState } from './types.ts'
/** What the ledger knows of a unit's newest report. Times are milliseconds since the epoch. */
export interface ReportRecord {
  readonly reportKey: string
  readonly submission: number
  readonly state: ReportState
  readonly requestHash: string
  readonly reportId: string | null
  readonly statusWord: string | null
  readonly polls: number
  readonly nextPollAt: number | null
  readonly retries: number
  readonly deadlineAt: number | null
  readonly estimatedQuota: number | null
  readonly usedQuota: number | null
}

export interface ReportIntent {
  readonly endpoint: string
  /** The request body as sent, without secrets. */
  readonly request: unknown
  /** SHA-256 of the canonical request. */
  readonly requestHash: string
  readonly estimatedQuota: number | null
}

/** Durable memory of one unit's report. Every method commits before it returns and throws FENCED when the unit was taken over. */
export interface ReportMemo {
  current(): Promise<ReportRecord | null>
  /** Before the submission is sent. Reserves budget: throws QUOTA_EXHAUSTED, or CANCELLED once the run is cancelled. */
  intend(intent: ReportIntent): Promise<void>
  /** The moment the id is known. */
  submitted(reportId: string, statusWord: string | null): Promise<void>
  polled(update: { statusWord: string; nextPollAt: number }): Promise<void>
  /** The least wait until the next look, milliseconds, so that looks at all open reports of the account leave room for other requests. */
  fairPauseMs(): Promise<number>
  ready(update: { statusWord: string; usedQuota: number | null; dataPoints: number | null }): Promise<void>
  /** The free retry was asked for; the report is open again. */
  retried(): Promise<void>
  /** The submission was sent and its answer lost. */
  uncertain(message: string): Promise<void>
  /** The intent was never sent, or the service certainly did not take it: the intent is gone. */
  withdrawn(message: string): Promise<void>
  failed(state: 'failed' | 'rejected' | 'expired', message: string): Promise<void>
}
