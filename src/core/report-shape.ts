// What is durable about a paid report; the ledger implements it, the report steps use it.
import { holdsKey } from './redact.ts'
import type { ReportState } from './types.ts'

/** What the ledger knows of a job's report. Spans are milliseconds by the database's clock: of clocks only that one is compared. */
export interface ReportRecord {
  readonly jobId: number
  readonly state: ReportState
  readonly requestHash: string
  readonly reportId: string | null
  readonly statusWord: string | null
  readonly polls: number
  /** How long until it is to be polled, 0 or less where that is due; null: no time was set. */
  readonly nextPollInMs: number | null
  readonly retries: number
  /** How long until waiting for it ends in this run, 0 or less where it has ended; null: no deadline. */
  readonly deadlineInMs: number | null
  /** How long ago it was asked for; null: it was not. */
  readonly askedMsAgo: number | null
  /** How long ago its id became known; null: it is not known. */
  readonly submittedMsAgo: number | null
  readonly estimatedQuota: number | null
  readonly usedQuota: number | null
}

/** An id goes into paths, file names and messages: plain text, of a length that anybody can read out, without a service's key in it. `.` and `..` are other folders in a path. */
export const isReportId = (text: string): boolean => /^(?!\.{1,2}$)[^\s\p{C}]{1,200}$/u.test(text) && !holdsKey(text)

/** One line of the service's own list of reports. */
export interface ListedReport {
  readonly reportId: string
  /** Milliseconds since the epoch, by the service's clock; null: it does not say. */
  readonly createdMs: number | null
  /** What was asked for, as far as the list tells. */
  readonly request: unknown
}

/** The report is another job's: that one's answer is taken, or waited for; where that one asked for something else, the id is no answer. */
export interface GivenBefore {
  readonly message: string
  /** The job goes on after so long; null: the id is that of another request, and what became of this one is not known. */
  readonly waitMs: number | null
}

/** A span of time that is not on record. */
export interface Forgotten {
  readonly sinceMsAgo: number
  readonly untilMsAgo: number
}

/** The status word of an id that the service does not know. */
export const notFound = 'not found'

/** What the message of a job says whose report was given up. */
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
  /** null: nothing was asked for yet. */
  current(): Promise<ReportRecord | null>
  /** Throws QUOTA_EXHAUSTED where what is known of its price is beyond the budgets: then the price need not be asked for. */
  affordable(): Promise<void>
  /** Before the submission is sent: draws the ask number and reserves budget. Throws QUOTA_EXHAUSTED, or CANCELLED once no run waits for the job any more. */
  intend(intent: ReportIntent): Promise<void>
  /** When reports may have been bought that this ledger, restored from a backup, does not remember; null: never, or the job asks for something newer than what its units have. */
  forgotten(): Promise<Forgotten | null>
  /** Those of the ids that no purchase of the account on record has. */
  unknown(reportIds: readonly string[]): Promise<readonly string[]>
  /**
   * The moment the id is known. Not under the fence: an id that was paid for is recorded by the process that knows it; never over another one. What it
   * returns says that the service had given the id before, and how the job goes on; null: it is this job's.
   * @param letGo where the service had given it before: called before the number of this job's own intent is forgotten; what it throws leaves all as it was
   */
  submitted(reportId: string, statusWord: string | null, letGo?: () => Promise<void>): Promise<GivenBefore | null>
  polled(update: { statusWord: string; nextPollInMs: number }): Promise<void>
  /** The least wait until the next poll, milliseconds, so that polls of all open reports of the account leave room for other requests. */
  fairPauseMs(): Promise<number>
  ready(update: { statusWord: string; usedQuota: number | null; dataPoints: number | null }): Promise<void>
  /** The free retry was asked for; the report is open again. */
  retried(): Promise<void>
  /** The submission was sent and its answer lost. */
  uncertain(message: string): Promise<void>
  /** The intent was never sent, or the service certainly did not take it: the job is a plan again. Idempotent. */
  withdrawn(message: string): Promise<void>
  /** @param because `usedQuota`: what it costs all the same; null: the service does not say, and what is on record stays */
  failed(
    state: 'failed' | 'rejected' | 'expired',
    because: { statusWord: string; usedQuota: number | null; message: string },
  ): Promise<void>
}
