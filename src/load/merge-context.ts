// What a merge is asked, what it answers, and what its statements share.
import type { Definition, Unit, Window } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import type { Conflict } from './duplicates.ts'
import type { Staging } from './staging.ts'

export interface MergeRequest {
  readonly definition: Definition
  readonly unit: Unit
  readonly unitId: number
  readonly runId: number
  readonly staging: Staging
  /** Keys (staged key columns, in key order) of records that were rejected: they are not missing from the answer. */
  readonly rejectedKeys: readonly (readonly (string | null)[])[]
  /** Whether rows that the answer lacks end. */
  readonly mayEnd: boolean
  /** The month of the unit where its partition is not made yet: it is filled before it is keyed and attached. Absent: partitions are there. */
  readonly emptyMonth?: Window | null
  /** The answer's bytes are those that were loaded last, so that its rows are probably there; they are compared all the same. */
  readonly repeatsLoaded?: boolean
}

export interface MergeResult {
  readonly inserted: number
  readonly updated: number
  readonly ended: number
  readonly unchanged: number
  /** Rows beyond the first of identical ones. */
  readonly duplicates: number
  /** Rows that share a key and differ; none of them was loaded. */
  readonly conflicts: readonly Conflict[]
  /** Rows of the unit before. */
  readonly previousRows: number
}

/** What the statements need to know of the moment of the load. */
export interface MergeContext extends MergeRequest {
  readonly session: Session
  /** ISO time of the load: later than every row it replaces and not before any end, even if the clock stands still or goes back. */
  readonly loadedAt: string
  readonly previousRows: number
  /** Whether ended rows of the scope exist, whose revision numbers go on. */
  readonly hasHistory: boolean
  readonly hasProtected: boolean
}
