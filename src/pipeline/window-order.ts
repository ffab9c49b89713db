// What the load of one window gets, and what it has locked.
import type { RawBuilder } from 'kysely'
import type { Window } from '../core/types.ts'
import type { QuarantineEntry } from '../ledger/quarantine.ts'
import type { WindowShare } from '../ledger/units.ts'
import type { Filling } from '../load/filling.ts'
import type { MergeRequest } from '../load/merge-context.ts'
import type { AcceptedTable, MergeScope } from '../load/merge-scope.ts'
import type { LoadInput } from './load-input.ts'

/** A record that cannot be loaded. */
export interface Refused {
  /** Staged key columns, in key order; null where they cannot be read. */
  readonly key: readonly (string | null)[] | null
  readonly entry: QuarantineEntry
}

export interface WindowOrder {
  readonly input: LoadInput
  readonly answerId: number
  readonly window: Window
  /** Where the units of the window are told apart; null: the job is for one unit, and all the answer is its own. */
  readonly accepted: AcceptedTable | null
  /** Staged rows of the window. */
  readonly rows: number
  /** Of one unit all that was rejected; of many those of the window whose unit is known, and rows that conflict. */
  readonly refused: readonly Refused[]
  /** Records of nobody, counted with this window if any of it is loaded; null: they are counted already, or there can be none. */
  readonly strays: readonly QuarantineEntry[] | null
  readonly repeated: NonNullable<MergeRequest['repeated']>
  /** Whether rows with repeated keys were taken out of the staging, to be counted with the units they were for. */
  readonly hasRemoved: boolean
  readonly judge?: NonNullable<MergeRequest['judge']>
  readonly mayEnd: boolean
  /** Nobody has looked yet whether every row was asked for. */
  readonly isUnsurveyed?: boolean
  /** No other window was loaded for the job, and this transaction has passed over no unit: none of them is counted. */
  readonly isOnly?: boolean
  readonly isLast: boolean
  /** The staging, where it is to become the empty month of the window. */
  readonly filling?: Filling
}

/** Units of the window locked by this transaction. */
export interface Taken {
  readonly share: WindowShare
  readonly scope: MergeScope
  readonly accepted: number
  readonly skipped: number
  /** Digest of the bytes that all of them were loaded from last; null: there is no such answer, or it is not known. */
  readonly loadedSha256: string | null
  /** Numbers of those that take the answer, as an array. */
  readonly units: RawBuilder<unknown>
  /** The one unit; null where there are several. */
  readonly unitId: number | null
}
