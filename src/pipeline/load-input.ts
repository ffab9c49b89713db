// What is known of an answer when it is about to be loaded.
import type { Completeness } from '../core/completeness.ts'
import type { QuarantineEntry } from '../ledger/quarantine.ts'
import type { Staging } from '../load/staging.ts'
import type { ParseReport } from '../parse/report.ts'

export interface LoadInput {
  readonly staging: Staging
  readonly parsed: ParseReport
  readonly completeness: Completeness
  readonly landing: { readonly locator: string; readonly sha256: string; readonly bytes: number }
  /** Writes down that the answer is whole on disk, where that is not done yet. */
  readonly markLanded: () => Promise<void>
  /** Raw records of staged rows by ordinal, read again from the landing; asked for only when rows conflict, also before those fail the unit. */
  readonly rawRecords: (ordinals: ReadonlySet<number>) => Promise<readonly QuarantineEntry[]>
}

/** Columns of the answer that the definition does not name, and the other way round; null: none. */
export const driftOf = (parsed: ParseReport): { unknownColumns: readonly string[]; missingColumns: readonly string[] } | null =>
  parsed.unknownColumns.length + parsed.missingColumns.length === 0
    ? null
    : { unknownColumns: parsed.unknownColumns, missingColumns: parsed.missingColumns }
