// What proves a unit's answer complete.
import { redact } from './redact.ts'
import type { Fingerprint } from './types.ts'

/** What the service said of the whole answer; the loader proves the unit complete against it. */
export interface Completeness {
  readonly fingerprint: Fingerprint
  /** Distinct records the service announces; null where it announces none (reports). */
  readonly expectedRows: number | null
  /** Data points the service counts in the report; null where it does not say. What it counts is learnt: see ledger/data-points.ts. */
  readonly dataPoints: number | null
  /** The same in the service's digits, where it is more than a number holds. */
  readonly dataPointsSaid?: string | null | undefined
  /** Credits the service charged for it, so that a ledger that has forgotten the purchase knows its price; null or undefined: it did not say. */
  readonly usedQuota?: number | null | undefined
  /** For how many pages it was charged: those of a walk before that it goes on from were paid for then; null or undefined: for all. */
  readonly paidPages?: number | null | undefined
  /** What those were charged, walk by walk. */
  readonly earlier?: readonly PaidBefore[] | null | undefined
  /** The dialect it was asked in; null or undefined: its service has one. */
  readonly dialect?: string | null | undefined
  /** How the service says the records are sorted, as it wrote it (interface 2.2: `meta.query.sort` and `asc`). */
  readonly order?: SourceOrder | null | undefined
}

/** Pages that a walk paid for before it was stopped or killed. */
export interface PaidBefore {
  readonly askNumber: string
  readonly pages: number
  readonly credits: number
}

/** Of unknown types where they are not null. */
export interface SourceOrder {
  readonly sort: unknown
  readonly asc: unknown
}

/** As it goes on record. */
export const maskedFingerprint = ({ lastUpdated, count, dataVersion }: Fingerprint): Fingerprint => ({
  lastUpdated: lastUpdated === null ? null : redact(lastUpdated),
  count,
  dataVersion: dataVersion == null ? dataVersion : redact(dataVersion),
})

/** Whether nothing changed since it went on record. What one of both does not name, count or version, says nothing. */
export const isSameFingerprint = (seen: Fingerprint, recorded: Fingerprint): boolean => {
  const { lastUpdated, count, dataVersion } = maskedFingerprint(seen)
  return lastUpdated === recorded.lastUpdated && isAlike(count, recorded.count) && isAlike(dataVersion, recorded.dataVersion)
}

const isAlike = <T>(left: T | null | undefined, right: T | null | undefined): boolean =>
  left == null || right == null || left === right
