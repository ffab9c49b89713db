// Purchases whose id nobody knows, and ids that no purchase on record has: what the service's own list of reports is searched for.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

/** A submission whose answer was lost, and nobody has asked again since. */
export interface LostPurchase {
  readonly jobId: number
  readonly request: unknown
  readonly askedMsAgo: number
}

/** Those of the pipeline, whatever its version, oldest first; older than a month they are left to a person. */
export const lostPurchases = async (db: Db, pipeline: string): Promise<LostPurchase[]> => {
  const rows = await db
    .selectFrom('etl.jobs as j')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'j.pipeline_id')
    .select(['j.job_id', 'j.request'])
    .select(sql<number>`extract(epoch from clock_timestamp() - j.asked_at)::float8 * 1000`.as('asked_ago'))
    .where('p.pipeline', '=', pipeline)
    .where('j.state', 'in', ['held', 'failed'])
    .where('j.report_state', '=', 'uncertain')
    .where('j.report_id', 'is', null)
    .where('j.asked_at', '>', sql<string>`clock_timestamp() - interval '30 days'`)
    .orderBy('j.job_id')
    .execute()
  return rows.map((row) => ({ jobId: Number(row.job_id), request: row.request, askedMsAgo: row.asked_ago }))
}

/** Those of the ids that no job of the account has. */
export const unknownReports = async (db: Db, account: string, reportIds: readonly string[]): Promise<string[]> => {
  if (reportIds.length === 0) return []
  const rows = await db
    .selectFrom('etl.jobs')
    .select('report_id')
    .where('account', '=', account)
    .where('report_id', 'in', [...reportIds])
    .execute()
  const known = new Set(rows.map((row) => row.report_id))
  return reportIds.filter((id) => !known.has(id))
}
