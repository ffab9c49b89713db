// Names of pipelines on the command line of commands that only read the ledger.
import type { Db } from '../db/tables.ts'
import { pipelineNames } from '../reads/pipeline-names.ts'
import type { Invocation } from './command-spec.ts'
import { pipelinesFolder } from './runtime.ts'

/** Throws DEFINITION naming those that neither the ledger nor a definition knows. Definitions are read only where the ledger does not know one. */
export const assertKnownPipelines = async (db: Db, invocation: Invocation, pipelines: readonly string[]): Promise<void> => {
  if (pipelines.length === 0) return
  const known = await pipelineNames(db)
  const others = pipelines.filter((name) => !known.has(name))
  if (others.length === 0) return
  const { openDefinitions } = await import('../pipeline/open-runtime.ts')
  await openDefinitions(pipelinesFolder(invocation), others)
}
