// A claimed job with what the work on it needs: its definition, or what fetching needs of it, and its source.
import { EtlError } from '../core/errors.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { storedDefinition } from '../ledger/pipelines.ts'
import type { JobWork } from './job-work.ts'
import { definitionOf, type Runtime } from './runtime.ts'

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
  return { runtime, claim, definition, source, mayLoad: here !== null, requests, signal }
}

/** What was bought is fetched whatever became of the definition; its rows wait for it. */
export const withoutDefinition = ({ box }: ClaimedJob): EtlError =>
  new EtlError(
    'NO_DEFINITION',
    `${box.key}: its answer is landed and waits for the definition of ${box.pipeline} version ${box.version}. Put it back under pipelines/ and run again, or leave it.`,
  )
