// The seam between the pipeline and an API: what a source is given and what it gives back.
import type { Clock } from '../core/clock.ts'
import type { Completeness } from '../core/completeness.ts'
import type { Log } from '../core/log.ts'
import type { Secret } from '../core/redact.ts'
import type { ListedReport, ReportMemo } from '../core/report-shape.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Box, Definition, Fingerprint, Payload } from '../core/types.ts'
import type { HttpClient } from './http-types.ts'

/** All that a source gets; it never sees the database or the disk. */
export interface SourceContext {
  /** Bound to one job: adds the key, keeps the rate, retries what is safe, records every request. */
  readonly http: HttpClient
  /** What is durable about this job's report; written before and after each step that costs money. */
  readonly report: ReportMemo
  readonly log: Log
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Where the service may tell that this job's report has changed its state; a secret. null: none. */
  readonly reportHook: Secret | null
  /** Whether submissions whose answer was lost may be sent again in this run: by a new job, which names this one. */
  readonly resubmitUncertain: boolean
  /** The run in which a person forces this job. */
  readonly forcedBy?: number | null
  /** Where `extract` ends early, takes a part that was paid for and came behind a missing one: it is kept with those that were yielded. */
  readonly keepPart?: ((part: Payload) => void) | undefined
  /** Tells people at the run something that is no failure. */
  notice(code: string, message: string): void
}

/** Enough for a probe or an estimate, which buys nothing and has no report to remember. */
export type ProbeContext = Pick<SourceContext, 'http' | 'log' | 'clock' | 'signal' | 'forcedBy'>

/** What a source is asked for. */
export interface ExtractRequest {
  readonly definition: Definition
  /** What one job requests: one value or several of each dimension, one window or several. A walk requests one unit. */
  readonly box: Box
}

/** What a job would cost; null where the service has no way to say. */
export interface Estimate {
  readonly requests: number | null
  readonly rows: number | null
  readonly quota: number | null
}

/** The balance of an account, by the service's own count; null: it does not say. */
export interface Balance {
  readonly requests: number | null
  /** For reports; the same number where both share one balance. */
  readonly credits: number | null
}

/** One dataset of an API. */
export interface Source extends SourceSpec {
  /**
   * Yields the answer's bytes part by part, from part 1, and returns what proves them complete.
   * Throws EtlError; `REPORT_PENDING` with `notBefore` means "not yet" and costs no attempt; `UNSTABLE` asks for another walk.
   */
  extract(request: ExtractRequest, context: SourceContext): AsyncGenerator<Payload, Completeness, void>
  /** A free or one-record request that tells whether anything changed since the fingerprint was taken; null: there is no such way. */
  probe?(request: ExtractRequest, context: ProbeContext): Promise<Fingerprint | null>
  /** The service's own list of the account's reports, those made since then (milliseconds since the epoch); null: it offers none. */
  listReports?(context: ProbeContext, sinceMs: number): Promise<readonly ListedReport[] | null>
  /** What the service says is left of the account, for free; null: it does not tell. Only where requests are paid for one by one. */
  balance?(context: ProbeContext): Promise<Balance | null>
  /** What `extract` would cost, without buying anything. */
  estimate(request: ExtractRequest, context: ProbeContext): Promise<Estimate>
}
