// Whether a job's report can be paid for, before anybody is asked for its price.
import type { Budget, TagBudget } from '../core/budget.ts'
import { sql } from 'kysely'
import { EtlError, isEtlError } from '../core/errors.ts'
import type { Maybe, Numbers } from '../db/row.ts'
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
  readonly tagBudgets: readonly TagBudget[]
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
  const { budget, accountBudget, tagBudgets } = payer
  const all = [budget, accountBudget, ...tagBudgets.map((one) => one.budget)]
  if (all.every(({ perMonth, perDay }) => perMonth === null && perDay === null)) return
  const row = await db
    .selectFrom('etl.jobs')
    .select('estimated_quota')
    .where('job_id', '=', String(claim.jobId))
    .executeTakeFirst()
  const price = row?.estimated_quota ?? null
  const estimated = price === null ? null : Number(price)
  await checkBudget(db, { ...payer, estimated, unitKey: claim.box.key, isExtra: await isBeyondUsual(db, claim, runId) })
}

/** How long a report waits for those of newer months to be tried. */
const giveWayMs = 1_000

/** Where a budget does not hold this report and those of newer months of its run, these go first. Throws REPORT_PENDING. @param left besides this one */
export const giveWay = async (trx: Db, { jobId, cells, box }: ClaimedJob, price: number, left: number): Promise<void> => {
  if (!Number.isFinite(left)) return
  const { rows } = await sql<Maybe<Numbers<'credits'>>>`
    select sum(coalesce(n.estimated_quota, ${price / cells}::float8 * n.cells))::float8 as credits
    from etl.jobs j join etl.run_jobs w on w.job_id = j.job_id and w.outcome is null
      join etl.run_jobs o on o.run_id = w.run_id and o.outcome is null and o.job_id <> j.job_id and o.priority <= w.priority
      join etl.jobs n on n.job_id = o.job_id and n.pipeline_id = j.pipeline_id and n.window_to > j.window_to and n.state = 'open'
        and n.kind = 'report' and n.ask_number is null and n.answer_id is null and n.error_code is distinct from 'QUOTA_EXHAUSTED'
    where j.job_id = ${jobId}::bigint`.execute(trx)
  if ((rows[0]?.credits ?? 0) <= left) return
  throw new EtlError('REPORT_PENDING', `${box.key}: newer months come first, and the budget may not hold both.`, {
    context: { waitMs: giveWayMs, final: false },
  })
}

/** What is refused for its price keeps that price, so that nobody asks for it again each night. Always throws. */
export const keepPrice = async (db: Db, claim: ClaimedJob, estimated: number | null, error: unknown): Promise<never> => {
  if (isEtlError(error) && error.code === 'QUOTA_EXHAUSTED' && estimated !== null)
    await db.updateTable('etl.jobs').set({ estimated_quota: estimated }).where(isHeldBy(claim)).execute()
  throw error
}
