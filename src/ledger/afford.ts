// Whether a job's report can be paid for, before anybody is asked for its price.
import type { Budget, TagBudget } from '../core/budget-scope.ts'
import { sql } from 'kysely'
import { EtlError, isEtlError } from '../core/errors.ts'
import type { Maybe, Numbers } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { checkBudget, reserveBudget } from './budget.ts'
import type { ClaimedJob } from './claim.ts'
import { isHeldBy, lockJob } from './hold.ts'

/** Whose budgets they are. */
export interface Payer {
  readonly account: string
  readonly pipeline: string
  readonly budget: Budget
  readonly accountBudget: Budget
  readonly tagBudgets: readonly TagBudget[]
}

/** Part of a range that a person named, or approved by one. */
export const isBeyondUsual = async (db: Db, { jobId }: ClaimedJob): Promise<boolean> => {
  const row = await db.selectFrom('etl.jobs').select('wanted_by').where('job_id', '=', String(jobId)).executeTakeFirst()
  return row !== undefined && ['range', 'force', 'approval'].includes(row.wanted_by)
}

/** Throws QUOTA_EXHAUSTED where not even what the report was once thought to cost is left; 1 credit where nobody ever said. */
export const affordable = async (db: Db, claim: ClaimedJob, payer: Payer): Promise<void> => {
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
  await checkBudget(db, { ...payer, estimated, unitKey: claim.box.key, isExtra: await isBeyondUsual(db, claim) })
}

/** Reads the payer's budgets and sets the price aside for pages of a walk; null: all that is left. Throws QUOTA_EXHAUSTED, or REPORT_PENDING while another's bill is awaited. */
export const reservePages = (db: Db, claim: ClaimedJob, payer: Payer, more: number | null, reserved: number): Promise<void> =>
  db.transaction().execute(async (trx) => {
    await lockJob(trx, claim)
    const isExtra = await isBeyondUsual(trx, claim)
    await reserveBudget(trx, { ...payer, estimated: more, unitKey: claim.box.key, isExtra })
    await setReserved(trx, claim, more === null ? Number.POSITIVE_INFINITY : reserved + more)
  })

/** Credits that stay set aside; 0: none. */
export const setReserved = async (db: Db, claim: ClaimedJob, credits: number): Promise<void> => {
  await db
    .updateTable('etl.jobs')
    .set({ reserved_credits: credits === 0 ? null : String(credits) })
    .where(isHeldBy(claim))
    .execute()
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
    follows: { next: 'retry', inMs: giveWayMs, isFinal: false },
  })
}

/** What is refused for its price keeps that price, so that nobody asks for it again each night. Always throws. */
export const keepPrice = async (db: Db, claim: ClaimedJob, estimated: number | null, error: unknown): Promise<never> => {
  if (isEtlError(error) && error.code === 'QUOTA_EXHAUSTED' && estimated !== null)
    await db.updateTable('etl.jobs').set({ estimated_quota: estimated }).where(isHeldBy(claim)).execute()
  throw error
}
