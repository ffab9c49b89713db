// What proves a unit's answer complete.
import type { Fingerprint } from './types.ts'

/** What the service said of the whole answer; the loader proves the unit complete against it. */
export interface Completeness {
  readonly fingerprint: Fingerprint
  /** Distinct records the service announces; null where it announces none (reports). */
  readonly expectedRows: number | null
  /** Data points the service counts in the report; recorded, not compared with rows. */
  readonly dataPoints: number | null
}
