// Names of pipelines on the command line of commands that only read the ledger.
import type { Db } from '../db/tables.ts'
import { pipelinesFolder } from './command-runtime.ts'
import type { Invocation } from './command-spec.ts'

/** Throws USAGE naming those that neither the ledger nor a definition knows. Definitions are read only where the ledger does not know one. */
export const assertKnownPipelines = async (db: Db, invocation: Invocation, pipelines: readonly string[]): Promise<void> => {
  if (pipelines.length === 0) return
  const known = await db.selectFrom('etl.pipelines').select('pipeline').distinct().execute()
  const others = pipelines.filter((name) => !known.some(({ pipeline }) => pipeline === name))
  if (others.length === 0) return
  const { openDefinitions } = await import('../run/open-runtime.ts')
  await openDefinitions(pipelinesFolder(invocation), others)
}
