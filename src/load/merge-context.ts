// What a merge is asked, what it answers, and what its statements share.
import type { RawBuilder } from 'kysely'
import type { TestFinding } from '../core/data-test.ts'
import type { Definition, Window } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import type { Conflict, Repeated } from './duplicates.ts'
import type { Filling } from './filling.ts'
import type { MergeScope } from './merge-scope.ts'
import type { Staging } from './staging.ts'

/** What is merged into which rows. */
export interface MergeRequest {
  readonly definition: Definition
  readonly scope: MergeScope
  readonly runId: number
  readonly staging: Staging
  /** Staged rows of the scope's window, so that large merges are prepared for. */
  readonly rows: number
  /** Keys (staged key columns, in key order) of records that could not be loaded: they are not missing from the answer. */
  readonly rejectedKeys: readonly (readonly (string | null)[])[]
  /** Records that were rejected although they are the one unit's, readable key or not. Of many units only the keys tell. */
  readonly rejects: number
  /** Whether rows that the answer lacks end. */
  readonly mayEnd: boolean
  /** A unit that would lose more than this share of its rows is held and left as it is; null: a person allowed it, nothing is held. */
  readonly shrink: number | null
  /**
   * Keys that come twice: `removed` are out of the staging already (and those whose rows conflict stand among `rejectedKeys`), `likely` are
   * looked for first, `refused` end the merge (see `needsAnotherWay`); by default they are looked for when the rows turn out to hold some.
   */
  readonly repeated?: 'unknown' | 'likely' | 'removed' | 'refused'
  /** Called with repeated keys before anything is done; throws where the answer may not be loaded because of them. */
  readonly judge?: (repeated: Repeated) => Promise<void>
  /** Moment of the last load of the window, which the rows' moment must follow. */
  readonly lastLoad?: RawBuilder<unknown>
  /** The month of the window where its partition is not made yet: it is filled before it is keyed and attached. Absent: partitions are there. */
  readonly emptyMonth?: Window | null
  /**
   * Nobody has looked whether every staged row was asked for: the merge does, and throws WRONG_ECHO. Only where the scope has every unit of the
   * answer.
   */
  readonly isUnsurveyed?: boolean
  /** The staging, where it is to become the empty month itself: nothing is loaded there, and the scope has all units of the window. */
  readonly filling?: Filling
  /** Of these units those whose answer a person released before, whatever its tests say. Default: none. */
  readonly releasedBefore?: (unitIds: readonly number[]) => Promise<ReadonlySet<number>>
  /** The answer's bytes are those that were loaded last, so that its rows are probably there; they are compared all the same. */
  readonly repeatsLoaded?: boolean
}

/** Why a unit is left as it is. */
export type HeldCode = 'SHRUNK' | 'TOO_MANY_REJECTS' | 'TEST_FAILED'

/** A unit that the answer may not change before a person has seen it. */
export interface HeldUnit {
  /** null: the one unit of the scope. */
  readonly unitId: number | null
  readonly code: HeldCode
  /** Rows the answer has for it. */
  readonly rows: number
  readonly previousRows: number
  /** What its tests found. Default: they have nothing to do with it. */
  readonly because?: string
}

/** A test that a unit of the scope fails, and what becomes of the unit: `released` where a person has allowed the answer. */
export interface TestFailure extends TestFinding {
  readonly unitId: number
  readonly words: string
  readonly becomes: 'held' | 'released' | 'warned'
}

/** Counts of rows; rows read = inserted + updated + unchanged + quarantined + duplicates. */
export interface MergeResult {
  readonly inserted: number
  readonly updated: number
  readonly ended: number
  readonly unchanged: number
  /** Rows beyond the first of identical ones. */
  readonly duplicates: number
  /** Rows that share a key and differ; none of them was loaded. */
  readonly conflicts: readonly Conflict[]
  /** Rows of the scope before, but for those of held units. */
  readonly previousRows: number
  /** Units of the scope that were left as they are. */
  readonly held: readonly HeldUnit[]
  readonly failures: readonly TestFailure[]
  /** Units of the scope that take the answer and that it has no row for, rejected ones included; of one unit 'all' or none. */
  readonly withoutRows: 'all' | readonly number[]
  /** The moment the written rows bear; null where none was written. */
  readonly loadedAt: string | null
}

/** What the statements need to know of the moment of the load. */
export interface MergeContext extends MergeRequest {
  readonly session: Session
  /** ISO time of the load: later than every row it replaces and not before any end, even if the clock stands still or goes back. */
  readonly loadedAt: string
  readonly previousRows: number
  /** Rows of the answer for the units that take it. */
  readonly stagedRows: number
  /** Whether ended rows of the scope exist, whose revision numbers go on. */
  readonly hasHistory: boolean
  readonly hasProtected: boolean
  readonly held: readonly HeldUnit[]
  readonly withoutRows: MergeResult['withoutRows'] | 'unknown'
  /** False where it is not known yet whether a unit would lose too much; none does that loses no row. */
  readonly isJudged: boolean
}

/** Of an answer that changes nothing. */
export const nothing: MergeResult = {
  inserted: 0,
  updated: 0,
  ended: 0,
  unchanged: 0,
  previousRows: 0,
  duplicates: 0,
  conflicts: [],
  held: [],
  failures: [],
  withoutRows: [],
  loadedAt: null,
}
