// What parsing an answer found, counted over all its parts.
import { EtlError } from '../core/errors.ts'
import type { Reject } from '../core/types.ts'
import type { UnrequestedRow } from '../core/cast-cell.ts'
import { detached } from './raw-text.ts'
import type { KeyPlaces } from './unit-mark.ts'

/** A record that could not become a row. */
export interface RejectedRow extends Reject, KeyPlaces {
  /** Parsed key columns in the key's order, where all of them could be read: then the row does not count as missing from the answer. */
  readonly key: readonly (string | null)[] | null
  /** Its value was not requested, or is spelled otherwise. */
  readonly isUnasked: boolean
}

/** `read` is always `rows` plus `rejects` plus `elsewhere`. */
export type ParseReport = ReturnType<typeof createParseReport>

/** Of an answer, over all its parts. */
export const createParseReport = () => ({
  read: 0,
  rows: 0,
  rejects: 0,
  /** Rows of units that the job is not for, or of none that was requested. */
  elsewhere: 0,
  /** Rows of periods that the job does not want; they belong to no unit here and are not among `read`. */
  passedOver: 0,
  /** Those of them that were not requested at all: how many rows, their first and their last period. */
  strays: { rows: 0, from: '', to: '' },
  /** Cells of measures with a value in rejected rows and rows passed over; a row that cannot be read may have any number of them. */
  cellsLeftOut: { least: 0, most: 0 },
  /** All of them: `maxKeptRejects` is more than any answer may have. */
  rejected: [] as RejectedRow[],
  /** Fields that no column of the definition names. */
  unknownColumns: [] as string[],
  /** Columns whose field no record has. */
  missingColumns: [] as readonly string[],
  /** Those of them that are worth telling: a header lacks them, or many records do. */
  newlyMissing: [] as readonly string[],
  /** Columns whose field some records have and others lack. */
  partlyMissing: [] as readonly string[],
  /** No row came so far, and the service meant it: a header alone, an empty list, or a text that says so. */
  empty: true,
  /** A last line that does not end as the others do: the body may have been cut right there. null: all is well. */
  unended: null as { readonly part: number; readonly line: number } | null,
  /** Characters of raw text kept; what comes later is cut shorter. */
  rawKept: 0,
})

/** Counts the row among those that are passed over. */
export const addStray = (report: ParseReport, { period, isExpected }: UnrequestedRow): void => {
  report.passedOver += 1
  if (isExpected) return
  const { strays } = report
  strays.rows += 1
  if (strays.from === '' || period < strays.from) strays.from = detached(period)
  if (period > strays.to) strays.to = detached(period)
}

/** Rejects of one answer; with more it fails at once. Their keys are needed in memory, so the number is bounded. */
const maxKeptRejects = 100_000
/** Characters of a raw record that are kept; fewer once the answer's rejects hold `generousTotal` together. */
export const longestRaw = 10_000
export const shortRaw = 200
const generousTotal = 16 * 1024 * 1024
const maxNames = 1_000

/** Every row has values that were not requested: the answer to another request. */
export const isOfAnotherRequest = ({ read, rejected }: Pick<ParseReport, 'read' | 'rejected'>): boolean =>
  rejected.length > 0 && rejected.length === read && rejected.every(({ isUnasked }) => isUnasked)

/** Counts and keeps a rejected row. Throws TOO_MANY_REJECTS beyond `maxKeptRejects`, WRONG_ECHO where all rows so far have values that were not requested. */
export const addReject = (report: ParseReport, reject: RejectedRow): void => {
  if (report.rejected.length >= maxKeptRejects) throw tooMany(reject, isOfAnotherRequest(report))
  report.read += 1
  report.rejects += 1
  const raw = cutRaw(reject.raw, report.rawKept < generousTotal ? longestRaw : shortRaw)
  report.rawKept += raw.length
  const key = reject.key?.map((cell) => (cell === null ? null : detached(cell))) ?? null
  report.rejected.push({ ...reject, raw, key, reason: detached(reject.reason) })
}

/** A cut record ends with its full length. */
export const cutRaw = (raw: string, most: number): string =>
  raw.length <= most ? raw : `${raw.slice(0, most).toWellFormed()}… (${raw.length} characters)`

const tooMany = ({ part, line, reason }: RejectedRow, isOther: boolean): EtlError =>
  new EtlError(
    isOther ? 'WRONG_ECHO' : 'TOO_MANY_REJECTS',
    `More than ${maxKeptRejects} rows were rejected; the one in part ${part}, line ${line}: ${reason}. ` +
      'Nothing was loaded. Compare the definition with the answer, correct the columns and run again.',
  )

/** Adds each name once, as PostgreSQL can store it. */
export const addUnknown = (report: ParseReport, name: string): void => {
  const shown = name.toWellFormed().replaceAll('\u0000', '\\x00')
  if (report.unknownColumns.length < maxNames && !report.unknownColumns.includes(shown)) report.unknownColumns.push(shown)
}
