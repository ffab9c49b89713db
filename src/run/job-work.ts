// What the steps of one job share while a process holds it, and how that is put together from a claim.
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { Source } from '../extract/source.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { storedDefinition } from '../ledger/pipelines.ts'
import { type RequestRecord, recordRequests } from '../ledger/requests.ts'
import { answerOfAll } from '../ledger/job-units.ts'
import { type Runtime, definitionOf } from './runtime.ts'

export interface JobWork {
  readonly runtime: Runtime
  readonly claim: ClaimedJob
  /** The definition travels with the job from its claim to its settlement. */
  readonly definition: Definition
  readonly source: Source
  /** False where only what fetching needs of the definition is known: the answer is landed and waits for the definition. */
  readonly mayLoad: boolean
  /** HTTP requests made for the job so far and not on record yet; taken out once the transaction that records them has committed. */
  readonly requests: RequestRecord[]
  readonly signal: AbortSignal
}

/** Throws DEFINITION where its source is not here either. */
export const openJob = async (
  runtime: Runtime,
  claim: ClaimedJob,
  requests: JobWork['requests'],
  signal: AbortSignal,
): Promise<JobWork> => {
  const here = definitionOf(runtime, claim)
  const definition = here ?? (await storedDefinition(runtime.database.kysely, claim.pipelineId))
  const source = runtime.sources.get(definition.source)
  if (source === undefined)
    throw new EtlError(
      'DEFINITION',
      `${claim.box.key}: there is no source ${definition.source} here; put it back under sources/.`,
    )
  const known = await withLoaded(runtime, claim)
  return { runtime, claim: known, definition, source, mayLoad: here !== null, requests, signal }
}

/**
 * Writes in a transaction that also puts requests on record. These are taken out at once, so that no other puts them on record too, and are there again
 * where it fails. @param isOver which of them
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

/** A report that is asked for again may bring what is loaded already: then it matters whether all its units have their rows from one answer. */
const withLoaded = async ({ database }: Runtime, claim: ClaimedJob): Promise<ClaimedJob> =>
  claim.cells === 1 || claim.answer !== null || claim.forced || claim.reason === 'new'
    ? claim
    : { ...claim, loaded: await answerOfAll(database.kysely, claim, claim.cells) }

/** What was bought is fetched whatever became of the definition; its rows wait for it. */
export const withoutDefinition = ({ box }: ClaimedJob): EtlError =>
  new EtlError(
    'NO_DEFINITION',
    `${box.key}: its answer is landed and waits for the definition of ${box.pipeline} version ${box.version}. Put it back under pipelines/ and run again, or leave it.`,
  )
