// What a receipt says of a purchase, read from the ledger; and which purchases and runs the ledger knows.
import type { NotNull } from 'kysely'
import { type Counts, type Numbers, query, queryOne } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { databaseNow } from '../db/database-clock.ts'

/** A purchase as another ledger can read it, named as in its receipt. null: the job has bought nothing, and is not about to. */
export const purchaseOf = async (db: Db, jobId: number) =>
  (await db
    .selectFrom('etl.jobs as j')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'j.pipeline_id')
    .select(['j.job_id', 'j.ask_number', 'j.asked_at', 'j.account', 'j.endpoint', 'j.request', 'j.request_hash'])
    .select(['j.estimated_quota', 'j.report_id', 'j.receipt_at', databaseNow.as('noted_at')])
    .select(['p.pipeline', 'p.version as pipeline_version', 'p.parameters', 'p.source'])
    .select(['p.window_every', 'p.dimensions', 'p.definition'])
    .where('j.job_id', '=', String(jobId))
    .where('j.report_state', 'is not', null)
    .where('j.ask_number', 'is not', null)
    .where('j.asked_at', 'is not', null)
    .$narrowType<{ ask_number: NotNull; asked_at: NotNull }>()
    .executeTakeFirst()) ?? null

export type Purchase = NonNullable<Awaited<ReturnType<typeof purchaseOf>>>

/** Records that the receipt of that id is written. Does nothing where the job has another id by now. */
export const receiptWritten = async (db: Db, jobId: number, reportId: string): Promise<void> => {
  await db
    .updateTable('etl.jobs')
    .set({ receipt_at: databaseNow })
    .where((eb) => eb.and({ job_id: String(jobId), report_id: reportId }))
    .execute()
}

/** The highest numbers that the ledger knows; 0: none. `boughtAsk`: of purchases; `ask`: of purchases and answers. */
export type Newest = Numbers<'runId'> & Counts<'boughtAsk' | 'ask'>

/** A restored ledger continues above these numbers, and above those that its landings prove. */
export const newestKnown = (db: Db): Promise<Newest> =>
  queryOne<Newest>(db)`
    select coalesce((select max(run_id) from etl.runs), 0)::float8 as "runId", b.ask as "boughtAsk",
      greatest(b.ask, coalesce((select max(answer_id) from etl.answer_rows), 0)) as ask
    from (select coalesce(max(ask_number), 0) as ask from etl.jobs where report_state is not null) b`

/** How many of the runs are not on record. */
export const countUnknownRuns = async (db: Db, runIds: readonly number[]): Promise<number> => {
  const { known } = await db
    .selectFrom('etl.runs')
    .select((eb) => eb.fn.countAll<string>().as('known'))
    .where((eb) => eb('run_id', '=', eb.fn.any(eb.val(runIds.map(String)))))
    .executeTakeFirstOrThrow()
  return new Set(runIds).size - Number(known)
}

/** Purchases of these ask numbers, with the fields in which a receipt must agree with them. */
export const purchasesOf = async (db: Db, askNumbers: readonly string[]) =>
  db
    .selectFrom('etl.jobs')
    .select(['account', 'report_id as reportId'])
    .select((eb) => eb.ref('ask_number').$notNull().as('askNumber'))
    .where((eb) => eb('ask_number', '=', eb.fn.any(eb.val([...askNumbers]))))
    .where('report_state', 'is not', null)
    .execute()

/** Ask numbers of purchases without a recorded id that no other job has replaced. */
export const asksWithoutId = async (db: Db): Promise<string[]> => {
  const rows = await db
    .selectFrom('etl.jobs')
    .select('ask_number')
    .where('state', 'in', ['open', 'held', 'failed'])
    .where('report_state', 'in', ['intent', 'uncertain'])
    .where('report_id', 'is', null)
    .execute()
  return rows.flatMap((row) => row.ask_number ?? [])
}

/** Ask numbers of walks that were begun and have no answer. */
export const walksUnderWay = async (db: Db): Promise<string[]> => {
  const rows = await db
    .selectFrom('etl.jobs')
    .select('ask_number')
    .where((eb) => eb.and({ state: 'open', kind: 'walk', answer_id: null }))
    .execute()
  return rows.flatMap((row) => row.ask_number ?? [])
}

/** Raises the sequence, so that new answers get higher numbers than this one. */
export const raiseAskNumbers = async (db: Db, askNumber: string): Promise<void> => {
  await query(db)`
    select setval('etl.ask_numbers', ${askNumber}::bigint) from etl.ask_numbers where last_value < ${askNumber}::bigint`
}
