// One dataset's way to buy a report, and what the service's words for its state mean.
import type { EtlError } from '../core/errors.ts'
import type { ListedReport } from '../core/report-shape.ts'
import type { Limits } from '../core/limits.ts'
import type { ReportPolicy } from '../core/types.ts'
import type { HttpStream } from './http-types.ts'
import type { SourceContext } from './source.ts'

/** What the service says of a report; everything but the word may be missing. */
export interface ReportStatus {
  readonly word: string
  readonly downloadUrl: string | null
  /** Where the report is several files: all of them, in the service's order. */
  readonly files?: readonly ReportFile[]
  readonly usedQuota: number | null
  readonly dataPoints: number | null
  /** Its digits, where it is more than a number holds. */
  readonly dataPointsSaid?: string
  /** Version of the data or of their method; null: the service names none. */
  readonly dataVersion: string | null
  /** When the service restated it last, as it says; empty: it does not. Default: empty. */
  readonly lastUpdated?: string
  /** Why it failed, where the service says so. */
  readonly detail: string | null
}

export interface ReportFile {
  readonly name: string
  readonly url: string
}

/** Of a report that is made; empty: it has no link yet. */
export const filesOf = ({ files, downloadUrl }: ReportStatus): readonly ReportFile[] =>
  files ?? (downloadUrl === null ? [] : [{ name: '', url: downloadUrl }])

/** One dataset's way to buy a report. */
export interface ReportApi {
  /** Path as the interface writes it. */
  readonly endpoint: string
  /** Body as sent, without secrets. */
  readonly request: unknown
  /** Credits it would cost, where the service says so for free; null otherwise. */
  estimate(): Promise<number | null>
  /** Throws with `sent` false where the service certainly did not take it. */
  submit(): Promise<{ reportId: string; word: string | null }>
  /** null: the service does not know the id (yet). */
  status(reportId: string): Promise<ReportStatus | null>
  /** Its own list of reports, those made since then; null: it offers none. */
  listed(sinceMs: number): Promise<readonly ListedReport[] | null>
  /** The error for a report that the service took and then rejects for free. `ask again`: another job requests it, from `notBefore` on. */
  rejection(status: ReportStatus): Promise<EtlError>
  /** Asks for the free retry; false where the service has none. */
  retry(reportId: string): Promise<boolean>
}

/** What buying one report depends on. */
export interface ReportOptions {
  readonly unitKey: string
  readonly limits: Limits
  readonly policy: ReportPolicy
  /** The person who started the run allows submitting again where an answer was lost: then REPORT_UNCERTAIN is followed by `ask again`. */
  readonly resubmitUncertain: boolean
}

/** One purchase at work. */
export interface Buying {
  readonly api: ReportApi
  readonly context: SourceContext
  readonly options: ReportOptions
}

/** `dataPoints`: `data_points_count`, `usedQuota`: `used_quota` (interface 4.4), NaN for what is no number; null: the service gives none. */
export interface FinishedReport {
  readonly stream: HttpStream
  /** Names of all its files, where there are several; `open` opens another than the first. */
  readonly names: readonly string[]
  open(place: number): Promise<HttpStream>
  readonly dataPoints: number | null
  readonly dataPointsSaid?: string | undefined
  readonly usedQuota: number | null
  readonly dataVersion: string | null
}

/** What the service's words mean for us. */
const phaseNames = ['open', 'done', 'failed', 'rejected', 'expired'] as const
export type ReportPhase = (typeof phaseNames)[number]

/** Case does not count and a space is an underscore. */
const words: Readonly<Record<ReportPhase, readonly string[]>> = {
  open: ['pending', 'processing', 'in_progress', 'queued', 'retry'],
  done: ['complete', 'completed', 'success', 'ready'],
  failed: ['internal_error', 'failed', 'error'],
  rejected: ['bad_request'],
  expired: ['expired', 'deleted'],
}

const phaseOf = (word: string): ReportPhase | undefined =>
  phaseNames.find((phase) => words[phase].includes(word.trim().toLowerCase().replaceAll(/\s+/g, '_')))

/** An unknown word is an open report: the deadline ends it, not a guess. */
export const foldStatus = (word: string): ReportPhase => phaseOf(word) ?? 'open'

/** An unknown word is logged. */
export const isKnownStatus = (word: string): boolean => phaseOf(word) !== undefined
