// What was paid for a job and could not be recorded, because the database stayed away or the process was stopped meanwhile: it is noted beside the landings, and the
// next run records it. Requests count for budgets; the walk that resumes reads the pages.
import { sql } from 'kysely'
import { z } from 'zod'
import { messageOf } from '../core/errors.ts'
import { priceBases } from '../core/learned-price.ts'
import { query, type Row } from '../db/typed-row.ts'
import { folderOf, leftPath } from '../extract/landing-files.ts'
import { withBegunLandings, type Claim } from '../ledger/claim-fence.ts'
import { recordRequests, type RequestRecord } from '../ledger/requests.ts'
import type { Unrecorded } from './job-work.ts'
import type { Runtime } from './runtime.ts'

const count = z.number().int()
const price = z.object({ basis: z.enum(priceBases), credits: z.number(), minimum: z.number().exactOptional() })

const requestSchema = z.object({
  ...{ jobId: count.nullable(), runId: count, pipelineId: count.nullable(), askNumber: z.string().nullable() },
  subject: z
    .object({ account: z.string(), dataset: z.string(), stated: price.nullable(), seen: z.array(price).readonly() })
    .nullable(),
  ...{ account: z.string(), method: z.string(), endpoint: z.string(), parameters: z.record(z.string(), z.unknown()) },
  ...{ part: count.nullable(), attempt: count, status: count.nullable(), errorCode: z.string().nullable() },
  ...{ bytes: count, sha256: z.string().nullable(), credits: z.number().nullable() },
  paidFor: z.object({ rowsAsked: count.nullable(), rows: count.nullable(), metrics: count, values: count }).nullable(),
  saidIn: z.enum(['answer', 'balance']).nullable(),
  ...{ isUncertain: z.boolean(), isOpen: z.boolean(), startedAt: z.iso.datetime(), milliseconds: z.number() },
}) satisfies z.ZodType<RequestRecord>

const leftSchema = z.object({
  version: z.literal(1),
  /** The number of the job is valid in the ledger of this epoch alone. */
  epoch: count,
  job_id: z.string().regex(/^\d+$/),
  fence: z.string().regex(/^\d+$/),
  requests: z.array(requestSchema),
  /** Landings that hold paid pages of the job's walk. */
  begun: z.array(z.string()),
})
type Left = z.infer<typeof leftSchema>

type NotingRuntime = Pick<Runtime, 'warehouse' | 'landing' | 'log'>

/** Never throws: where not even a note can be written, the log says so. */
export const noteUnrecorded = async (
  { warehouse, landing, log }: NotingRuntime,
  { jobId, fence }: Claim,
  { requests, unnamed }: Unrecorded,
): Promise<void> => {
  if (requests.length === 0 && unnamed.size === 0) return
  const left: Left = { version: 1, epoch: warehouse.epoch, job_id: String(jobId), fence, requests, begun: [...unnamed] }
  await landing.notes
    .write(leftPath(warehouse, jobId, fence), JSON.stringify(left))
    .catch((error: unknown) =>
      log.warn({ job_id: jobId, reason: messageOf(error) }, 'requests could neither be recorded nor noted beside the landings'),
    )
}

/** Call before a run plans, and when a database is back that was away. A note that cannot be read is logged and skipped. */
export const recordNoted = async (runtime: NotingRuntime & Pick<Runtime, 'database'>): Promise<void> => {
  const { warehouse, landing, log } = runtime
  for await (const { path } of landing.notes.list(folderOf(warehouse.id, 'left'))) {
    try {
      const left = leftSchema.parse(JSON.parse((await landing.notes.read(path)) ?? 'null'))
      if (left.epoch !== warehouse.epoch) continue
      await takeIn(runtime, left)
      await landing.notes.remove(path)
    } catch (error) {
      log.warn({ note: path, reason: messageOf(error) }, 'a note of paid requests could not be recorded')
    }
  }
}

/**
 * The pages are the job's while no process took it since: it has the fence of that claim, or the next one without a holder where it was let go of. Then its
 * reservation ends, too: the pages that it was made for are all among the requests.
 */
const takeIn = ({ database: { kysely } }: Pick<Runtime, 'database'>, { job_id, fence, requests, begun }: Left): Promise<void> =>
  kysely.transaction().execute(async (trx) => {
    const [job] = await query<Row<'etl.jobs', 'job_id'>>(trx)`
      select job_id from etl.jobs where job_id = ${job_id}::bigint for update`
    await recordRequests(trx, job === undefined ? requests.map((one) => ({ ...one, jobId: null })) : requests, 'doubtful')
    const own = trx
      .updateTable('etl.jobs')
      .where('job_id', '=', job_id)
      .where(sql<boolean>`(fence = ${fence}::bigint or fence = ${fence}::bigint + 1 and holder is null)`)
    await own.set({ reserved_credits: null, reserves_all: false }).execute()
    if (begun.length > 0) await own.set(withBegunLandings(begun)).where('answer_id', 'is', null).execute()
  })
