// Splits a plan that loses units to a purchase which a restored ledger takes up: its other units stay planned as they were.
import type { Selectable } from 'kysely'
import { windowsBetween } from '../core/window.ts'
import type { WindowSize } from '../core/types.ts'
import type { Db, JobsTable } from '../db/tables.ts'
import { type Lists, type Numbers, query, type Row } from '../db/typed-row.ts'
import { countApproval } from './approvals.ts'
import type { ClaimedJob } from './claim.ts'
import { type JobPart, replaceJob } from './replace-job.ts'
import { halvesOfSlices, sliceValues } from './slices.ts'
import { setJob } from './transitions.ts'

/**
 * Replaces those of the jobs that are only planned, approved or not, held by a process or not: they would buy the units they lost once more. Parts take their place, with their
 * approval, priority and waiting runs: no night would plan units again that only a person's range wanted.
 */
export const cutPlans = async (
  trx: Db,
  { pipelineId, windowEvery }: Pick<ClaimedJob, 'pipelineId' | 'windowEvery'>,
  jobIds: readonly string[],
): Promise<void> => {
  const plans = await trx
    .selectFrom('etl.jobs')
    .selectAll()
    .where((eb) => eb('job_id', '=', eb.fn.any(eb.val([...jobIds]))))
    .where('state', 'in', ['open', 'held'])
    .where((eb) => eb.and([eb('ask_number', 'is', null), eb('answer_id', 'is', null)]))
    .orderBy('job_id')
    .forUpdate()
    .execute()
  for (const plan of plans) {
    const { job_id: jobId, fence, holder, state, error_code, error_message } = plan
    const parts = await partsOf(trx, plan, windowEvery)
    // A job that waits for a person is split as an open one, and its parts wait again.
    await setJob(trx, jobId, { state: 'open' })
    const made = await replaceJob(trx, { jobId, fence, holder: holder ?? 0 }, parts)
    if (state === 'held') for (const part of made) await setJob(trx, part, { state, error_code, error_message })
  }
  if (plans.length > 0) await countApproval(trx, pipelineId)
}

/** The whole job in boxes in which every unit still points at it, or none does; consecutive windows with the same units stay together. */
const partsOf = async (trx: Db, plan: Selectable<JobsTable>, every: WindowSize): Promise<readonly JobPart[]> => {
  const { job_id: jobId, window_from: from, window_to: to, served_by: server } = plan
  const rows = await query<Row<'etl.units', 'window_from'> & Lists<Numbers<'slices'>>>(trx)`
    select window_from, array_agg(slice_id order by slice_id) as slices from etl.units where job_id = ${jobId}::bigint group by window_from`
  const left = new Map(rows.map(({ window_from, slices }) => [window_from, slices]))
  const values = await sliceValues(trx, plan.slice_ids)
  const spans: { from: string; to: string; kept: readonly number[] }[] = []
  for (const window of windowsBetween(from, to, every)) {
    const kept = left.get(window.from) ?? []
    const last = spans.at(-1)
    if (last !== undefined && last.kept.join() === kept.join()) last.to = window.to
    else spans.push({ ...window, kept })
  }
  const servedBy = server === null ? undefined : Number(server)
  return spans.flatMap(({ kept, ...window }) => alike(values, new Set(kept)).map((sliceIds) => ({ sliceIds, window, servedBy })))
}

/** The slices, split until each part has only kept slices, or none of them. */
const alike = (slices: ReadonlyMap<number, readonly string[]>, kept: ReadonlySet<number>): readonly (readonly number[])[] => {
  const count = [...slices.keys()].filter((id) => kept.has(id)).length
  if (count === 0 || count === slices.size) return [[...slices.keys()]]
  return halvesOfSlices(slices).flatMap((half) => alike(new Map(half.map((id) => [id, slices.get(id) ?? []])), kept))
}
