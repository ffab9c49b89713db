// What the steps of one job and of its load share while a process holds the job, and how that is made from a claim.
import type { Completeness } from '../core/completeness.ts'
import { EtlError } from '../core/errors.ts'
import type { Box, Definition, Payload, RowCounts } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { Source } from '../extract/source.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { answerOfAll, type AnswerUnits } from '../ledger/job-units.ts'
import { storedDefinition } from '../ledger/pipelines.ts'
import type { QuarantineEntry } from '../ledger/quarantine.ts'
import { recordRequests, type RequestRecord } from '../ledger/requests.ts'
import type { Repeated } from '../load/duplicates.ts'
import type { ParseReport } from '../parse/parse-report.ts'
import type { UnitMark } from '../parse/unit-mark.ts'
import { definitionOf, type Runtime } from './runtime.ts'

/** What was paid for a job and is not on record yet. */
export interface Unrecorded {
  /** HTTP requests made for the job so far; taken out once the transaction that records them has committed. */
  readonly requests: RequestRecord[]
  /** Landings with paid pages of its walk that the ledger does not name yet. */
  readonly unnamed: Set<string>
}

export const nothingPaid = (): Unrecorded => ({ requests: [], unnamed: new Set() })

export interface JobWork extends Unrecorded {
  readonly runtime: Runtime
  readonly claim: ClaimedJob
  /** The definition travels with the job from its claim to its settlement. */
  readonly definition: Definition
  readonly source: Source
  /** False where only the part of the definition that fetching needs is known: the answer is landed and waits for the definition. */
  readonly hasFullDefinition: boolean
  readonly signal: AbortSignal
}

/** Throws DEFINITION where its source is not here either. */
export const openJob = async (runtime: Runtime, claim: ClaimedJob, paid: Unrecorded, signal: AbortSignal): Promise<JobWork> => {
  const here = definitionOf(runtime, claim)
  const written = here ?? (await storedDefinition(runtime.database.kysely, claim.pipelineId))
  // Only the account that bought a report knows it, even if the definition names another account since.
  const account = claim.kind === 'report' && claim.askNumber !== null ? claim.account : written.account
  const definition = account === written.account ? written : { ...written, account }
  const source = runtime.sources.get(definition.source)
  if (source === undefined)
    throw new EtlError(
      'DEFINITION',
      `${claim.box.key}: there is no source ${definition.source} here; put it back under sources/.`,
    )
  const known = await withLoaded(runtime, { ...claim, account })
  return { runtime, claim: known, definition, source, hasFullDefinition: here !== null, ...paid, signal }
}

/**
 * Writes in a transaction that also records requests. These leave the list at once, so that no other transaction records them, too, and come back to it
 * where this one fails. @param isOver which requests are recorded
 */
export const withRequests = async <T>(
  { kysely }: Pick<Runtime['database'], 'kysely'>,
  requests: RequestRecord[],
  write: (trx: Db) => Promise<T>,
  isOver: (request: RequestRecord) => boolean = () => true,
): Promise<T> => {
  const known = requests.filter(isOver)
  requests.splice(0, requests.length, ...requests.filter((request) => !isOver(request)))
  try {
    return await kysely.transaction().execute(async (trx) => {
      await recordRequests(trx, known)
      return write(trx)
    })
  } catch (error) {
    requests.unshift(...known)
    throw error
  }
}

/** A report that is requested again may bring what is loaded already, which counts only if all its units have their rows from one answer. */
const withLoaded = async ({ database }: Runtime, claim: ClaimedJob): Promise<ClaimedJob> =>
  claim.cells === 1 || claim.answer !== null || claim.forced || claim.reason === 'new'
    ? claim
    : { ...claim, loaded: await answerOfAll(database.kysely, claim, claim.cells) }

/** A bought answer is fetched even without its definition; its rows wait for the definition. */
export const withoutDefinition = ({ box }: ClaimedJob): EtlError =>
  new EtlError(
    'NO_DEFINITION',
    `${box.key}: its answer is landed, but no definition here matches ${box.pipeline} version ${box.version} with the parameters of this request. Put that definition back under pipelines/ and run again; without it the answer stays.`,
  )

/** An answer of up to so many bytes is compared in a table, and loaded by statements, that the session keeps. */
export const tinyBytes = 256 * 1024

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

/** Straight into the table; into a staging table and then the difference; the same with a search for repeated keys. */
export type LoadMode = 'insert' | 'merge' | 'deduplicate'

/** The load of one answer into the units of one job. */
export interface Load {
  readonly work: JobWork
  readonly answer: LandedAnswer
  readonly units: AnswerUnits
  /** Receives the conflicting records of an answer that is refused for them. */
  readonly conflicting: QuarantineEntry[]
}

/** What is known of an answer's rows once they are read. */
export interface ParsedAnswer {
  readonly parsed: ParseReport
  readonly mark: UnitMark
  /** null: not looked for. */
  readonly repeated: Repeated | null
}

/** Codes of units that the answer may not change before a person has seen it. */
export type HeldCode = 'SHRUNK' | 'CAPPED' | 'SCHEMA' | 'TOO_MANY_REJECTS' | 'TEST_FAILED'

/** Fields of an answer that the definition does not name, and columns whose field it lacks. */
export interface Drift {
  readonly unknownColumns: readonly string[]
  readonly missingColumns: readonly string[]
}

/** Counts of the rows loaded, and of the job's units. */
export interface LoadResult extends RowCounts {
  readonly unitsLoaded: number
  /** They wait for a person. */
  readonly unitsHeld: number
  /** Why the first held unit is held; null: none is. */
  readonly heldBecause: { readonly code: HeldCode; readonly message: string } | null
  /** They hold a newer answer. */
  readonly unitsSkipped: number
  readonly drift: Drift | null
}
