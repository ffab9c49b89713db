// Names of pipelines that the ledger knows.
import type { Db } from '../../db/tables.ts'

/** Of every pipeline that was ever planned, by name. */
export const pipelineNames = async (db: Db): Promise<ReadonlySet<string>> => {
  const rows = await db.selectFrom('etl.pipelines').select('pipeline').distinct().orderBy('pipeline').execute()
  return new Set(rows.map(({ pipeline }) => pipeline))
}
