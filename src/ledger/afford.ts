// Whether a job's report can be paid for, before anybody is asked for its price.
import type { Budget } from '../core/budget.ts'
import { isEtlError } from '../core/errors.ts'
import type { Db } from '../db/tables.ts'
import { checkBudget } from './budget.ts'
import type { ClaimedJob } from './claim.ts'
import { isHeldBy } from './hold.ts'

/** Whose budgets they are, and the run in whose name it is bought. */
export interface Payer {
  readonly account: string
  readonly pipeline: string
  readonly runId: number
  readonly budget: Budget
  readonly accountBudget: Budget
}

/** Part of a range that a person named, or approved by one. */
export const isBeyondUsual = async (db: Db, { jobId }: ClaimedJob, runId: number): Promise<boolean> => {
  const row = await db
    .selectFrom('etl.jobs as j')
    .leftJoin('etl.runs as r', (join) => join.on('r.run_id', '=', String(runId)))
    .select(['j.approval_id', 'r.command'])
    .where('j.job_id', '=', String(jobId))
    .executeTakeFirst()
  return row !== undefined && (row.approval_id !== null || row.command === 'backfill')
}

/** Throws QUOTA_EXHAUSTED where not even what the report was once thought to cost is left; 1 credit where nobody ever said. */
export const affordable = async (db: Db, claim: ClaimedJob, { runId, ...payer }: Payer): Promise<void> => {
  const { budget, accountBudget } = payer
  if ([budget.perMonth, budget.perDay, accountBudget.perMonth, accountBudget.perDay].every((limit) => limit === null)) return
  const row = await db
    .selectFrom('etl.jobs')
    .select('estimated_quota')
    .where('job_id', '=', String(claim.jobId))
    .executeTakeFirst()
  const price = row?.estimated_quota ?? null
  const estimated = price === null ? null : Number(price)
  await checkBudget(db, { ...payer, estimated, unitKey: claim.box.key, isExtra: await isBeyondUsual(db, claim, runId) })
}

/** What is refused for its price keeps that price, so that nobody asks for it again each night. Always throws. */
export const keepPrice = async (db: Db, claim: ClaimedJob, estimated: number | null, error: unknown): Promise<never> => {
  if (isEtlError(error) && error.code === 'QUOTA_EXHAUSTED' && estimated !== null)
    await db.updateTable('etl.jobs').set({ estimated_quota: estimated }).where(isHeldBy(claim)).execute()
  throw error
}
