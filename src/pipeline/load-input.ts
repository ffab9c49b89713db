// What is known of an answer when it is about to be loaded.
import type { Completeness } from '../core/completeness.ts'
import type { Box } from '../core/types.ts'
import type { Staging } from '../load/staging.ts'
import type { ParseReport } from '../parse/report.ts'
import type { ConflictRecord } from './conflict-records.ts'

export interface LoadInput {
  readonly staging: Staging
  readonly parsed: ParseReport
  readonly completeness: Completeness
  readonly landing: { readonly locator: string; readonly sha256: string; readonly bytes: number }
  /** What the answer was asked for, as it was parsed. A job that loads an answer again may cover a part of it only; the rest of its rows is passed over. */
  readonly box: Box
  /** null: the answer is not on record yet. Tiny walks only, which put it there in the statement that loads it. */
  readonly answerId: number | null
  /** Puts the answer on record, where that is not done yet; its number. */
  readonly record: () => Promise<number>
  /** Raw records of staged rows by their number, read again from the landing; asked for only when rows conflict, also before those fail the answer. */
  readonly rawRecords: (ordinals: ReadonlySet<number>) => Promise<readonly ConflictRecord[]>
}

/** Columns of the answer that the definition does not name, and the other way round; null: none. */
export const driftOf = (parsed: ParseReport): { unknownColumns: readonly string[]; missingColumns: readonly string[] } | null =>
  parsed.unknownColumns.length + parsed.missingColumns.length === 0
    ? null
    : { unknownColumns: parsed.unknownColumns, missingColumns: parsed.missingColumns }
