// What proves a unit's answer complete.
import type { Fingerprint } from './types.ts'

/** What the service said of the whole answer; the loader proves the unit complete against it. */
export interface Completeness {
  readonly fingerprint: Fingerprint
  /** Distinct records the service announces; null where it announces none (reports). */
  readonly expectedRows: number | null
  /** Data points the service counts in the report; null where it does not say. What it counts is learnt: see core/data-points.ts. */
  readonly dataPoints: number | null
  /** Credits the service charged for the report, so that a ledger that has forgotten the purchase knows its price; null or undefined: it did not say. */
  readonly usedQuota?: number | null | undefined
  /** How the service says the records are sorted, as it wrote it (interface 2.2: `meta.query.sort` and `asc`). */
  readonly order?: SourceOrder | null | undefined
}

/** Of unknown types where they are not null. */
export interface SourceOrder {
  readonly sort: unknown
  readonly asc: unknown
}
