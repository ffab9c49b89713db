// What parsing a unit found, counted over all its parts.
import type { Reject } from '../core/types.ts'

export interface RejectedRow extends Reject {
  /** Staged key columns in the key's order, where all of them could be read: then the row is not missing from the answer. */
  readonly key: readonly (string | null)[] | null
}

/** `read` is always `rows` plus `rejects`. */
export interface ParseReport {
  read: number
  rows: number
  rejects: number
  /** The first of them; a unit with more than are kept fails in any case. */
  readonly rejected: RejectedRow[]
  readonly unknownColumns: string[]
  readonly missingColumns: string[]
  /** The service said that there is nothing. */
  empty: boolean
}

export const maxKeptRejects = 100_000
const longestRaw = 10_000

export const createParseReport = (): ParseReport => ({
  read: 0,
  rows: 0,
  rejects: 0,
  rejected: [],
  unknownColumns: [],
  missingColumns: [],
  empty: false,
})

export const addReject = (report: ParseReport, reject: RejectedRow): void => {
  report.read += 1
  report.rejects += 1
  const raw =
    reject.raw.length > longestRaw ? `${reject.raw.slice(0, longestRaw)}… (${reject.raw.length} characters)` : reject.raw
  if (report.rejected.length < maxKeptRejects) report.rejected.push({ ...reject, raw })
}

export const addUnknown = (report: ParseReport, name: string): void => {
  if (!report.unknownColumns.includes(name) && report.unknownColumns.length < 1_000) report.unknownColumns.push(name)
}

export const addMissing = (report: ParseReport, name: string): void => {
  if (!report.missingColumns.includes(name)) report.missingColumns.push(name)
}
