// What became of an answer's rows and of its job's units.
import type { RowCounts } from '../core/types.ts'

/** Counts of the rows loaded, and of the job's units. */
export interface LoadResult extends RowCounts {
  readonly unitsLoaded: number
  /** They wait for a person. */
  readonly unitsHeld: number
  /** They hold a newer answer. */
  readonly unitsSkipped: number
}
