// What became of an answer's rows and of its job's units.
import type { RowCounts } from '../core/types.ts'
import type { HeldCode } from '../load/merge-context.ts'

/** Why units wait for a person. */
export interface HeldBecause {
  readonly code: HeldCode
  readonly message: string
}

/** Counts of the rows loaded, and of the job's units. */
export interface LoadResult extends RowCounts {
  readonly unitsLoaded: number
  /** They wait for a person. */
  readonly unitsHeld: number
  /** The first that is held; null: none is. */
  readonly heldBecause: HeldBecause | null
  /** They hold a newer answer. */
  readonly unitsSkipped: number
}
