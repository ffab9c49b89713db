// What the steps of a load share: the answer that is landed, the units it is for, the way its rows take.
import type { Completeness } from '../core/completeness.ts'
import type { Box, Payload, RowCounts } from '../core/types.ts'
import type { AnswerUnits } from '../ledger/job-units.ts'
import type { QuarantineEntry } from '../ledger/quarantine.ts'
import type { Repeated } from '../load/duplicates.ts'
import type { ParseReport } from '../parse/parse-report.ts'
import type { UnitMark } from '../parse/unit-mark.ts'
import type { JobWork } from './job-work.ts'

/** An answer that is whole in its landing and on record. */
export interface LandedAnswer {
  readonly answerId: number
  /** What it was asked for. A job that loads an answer again may cover a part of it only. */
  readonly box: Box
  readonly completeness: Completeness
  readonly bytes: number
  /** The landed bytes, from the beginning each time. */
  parts(): AsyncIterable<Payload>
}

/** Straight into the table; beside it and then the difference; the same with a search for repeated keys. */
export type Way = 'first' | 'again' | 'careful'

/** One answer into the units of one job. */
export interface Loading {
  readonly work: JobWork
  readonly answer: LandedAnswer
  readonly units: AnswerUnits
  /** Filled with the records behind a refusal because of conflicts. */
  readonly conflicting: QuarantineEntry[]
}

/** What is known of an answer's rows once they are read. */
export interface Read {
  readonly parsed: ParseReport
  readonly mark: UnitMark
  /** null: not looked for. */
  readonly repeated: Repeated | null
}

/** Codes of units that the answer may not change before a person has seen it. */
export type HeldCode = 'SHRUNK' | 'CAPPED' | 'SCHEMA' | 'TOO_MANY_REJECTS' | 'TEST_FAILED'

/** Counts of the rows loaded, and of the job's units. */
export interface LoadResult extends RowCounts {
  readonly unitsLoaded: number
  /** They wait for a person. */
  readonly unitsHeld: number
  /** Why the first that is held is; null: none is. */
  readonly heldBecause: { readonly code: HeldCode; readonly message: string } | null
  /** They hold a newer answer. */
  readonly unitsSkipped: number
}
