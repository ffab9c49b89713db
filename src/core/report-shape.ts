// The durable record of a paid report: the ledger implements it, the steps of a report use it.
import { holdsKey } from './redact.ts'
import type { ReportState } from './types.ts'

/** What the ledger knows of a job's report. Spans are milliseconds by the database's clock, the only clock that is compared. */
export interface ReportRecord {
  readonly jobId: number
  readonly state: ReportState
  readonly requestHash: string
  readonly reportId: string | null
  readonly statusWord: string | null
  readonly polls: number
  /** How long until the next poll, 0 or less where it is due; null: no time was set. */
  readonly nextPollInMs: number | null
  readonly retries: number
  /** How long until this run stops waiting for it, 0 or less where it has stopped; null: no deadline. */
  readonly deadlineInMs: number | null
  /** How long ago it was requested; null: not yet. */
  readonly askedMsAgo: number | null
  /** How long ago its id became known; null: it is not known. */
  readonly submittedMsAgo: number | null
  readonly estimatedQuota: number | null
  readonly usedQuota: number | null
}

/** An id goes into paths, file names and messages: short printable text that holds no service's key. `.` and `..` would be other folders in a path. */
export const isReportId = (text: string): boolean => /^(?!\.{1,2}$)[^\s\p{C}]{1,200}$/u.test(text) && !holdsKey(text)

/** One line of the service's own list of reports. */
export interface ListedReport {
  readonly reportId: string
  /** Milliseconds since the epoch, by the service's clock; null: it does not say. */
  readonly createdMs: number | null
  /** The request, as far as the list shows it. */
  readonly request: unknown
}

/** The service returned the id of another job's report: this job takes or awaits that answer, unless the other job requested something else. */
export interface RepeatedReportId {
  readonly message: string
  /** The job continues after so long; null: the id belongs to another request, and it is not known whether this one was taken. */
  readonly waitMs: number | null
}

/** A span of time whose purchases the ledger does not know. */
export interface UnknownSpan {
  readonly sinceMsAgo: number
  readonly untilMsAgo: number
}

/** The status word recorded for an id that the service does not know. */
export const notFound = 'not found'

/** Part of the message of a job whose report a person gave up. */
export const givenUpBy = 'was given up by a person'

export interface ReportIntent {
  readonly endpoint: string
  /** The request body as sent, without secrets. */
  readonly request: unknown
  /** SHA-256 of the canonical request. */
  readonly requestHash: string
  readonly estimatedQuota: number | null
}

/** Durable memory of one job's report: a job buys one at most. Every method commits before it returns and throws FENCED when the job was taken over. */
export interface ReportMemo {
  /** null: no report was requested yet. */
  current(): Promise<ReportRecord | null>
  /** Throws QUOTA_EXHAUSTED where the price known so far exceeds the budgets: then the service need not be asked for the price. */
  affordable(): Promise<void>
  /** Before the submission is sent: draws the ask number and reserves budget. Throws QUOTA_EXHAUSTED, or CANCELLED once no run waits for the job any more. */
  intend(intent: ReportIntent): Promise<void>
  /** The span in which reports may have been bought that this restored ledger does not know; null: none, or the job requests newer data than its units have. */
  forgotten(): Promise<UnknownSpan | null>
  /** The ids that belong to no recorded purchase of the account. */
  unknown(reportIds: readonly string[]): Promise<readonly string[]>
  /**
   * Records the id as soon as it is known; never replaces another id. Ignores the fence: the process that knows a paid id records it in any case.
   * Returns how the job continues where the service had given the id to another job; null: the id is this job's.
   * @param letGo called where the id belongs to another job, before this job's ask number is dropped; if it throws, nothing changes
   */
  submitted(reportId: string, statusWord: string | null, letGo?: () => Promise<void>): Promise<RepeatedReportId | null>
  polled(update: { statusWord: string; nextPollInMs: number }): Promise<void>
  /** The least wait until the next poll, milliseconds, so that polls of all open reports of the account leave room for other requests. */
  fairPauseMs(): Promise<number>
  ready(update: { statusWord: string; usedQuota: number | null; dataPoints: number | null }): Promise<void>
  /** The service accepted the free retry; the report is open again. */
  retried(): Promise<void>
  /** The submission was sent and its answer lost. */
  uncertain(message: string): Promise<void>
  /** The submission was never sent, or the service certainly did not take it: the job is a plan again. Idempotent. */
  withdrawn(message: string): Promise<void>
  /** @param because `usedQuota`: what the failed report cost; null: the service does not say, the recorded cost stays */
  failed(
    state: 'failed' | 'rejected' | 'expired',
    because: { statusWord: string; usedQuota: number | null; message: string },
  ): Promise<void>
}
