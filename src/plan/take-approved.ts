// A run takes up approved jobs: units that cost nothing by now are loaded, the others keep their approval.
import { windowsBetween } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { joinApproved, keepApproval, type ReopenedJob, reopenServed } from '../ledger/approved-jobs.ts'
import { lockPipeline, lockQuestion } from '../ledger/pipelines.ts'
import { noGuard } from './guard-night.ts'
import { type PlanContext, wholeSpan } from './plan-context.ts'
import { askForReports } from './plan-reports.ts'

/**
 * Checks approved jobs that are not asked for yet once more, unit by unit, in all windows: units that another pipeline or version has bought meanwhile, or is about
 * to, are loaded from there; the others keep their approval, and the run waits for them. Pipelines that ask the same take turns. A run for a range waits for no
 * other approved jobs; a run for some values takes up none, so that it does not wait for purchases of other values, or fail with them.
 */
export const takeApproved = async (context: PlanContext): Promise<void> => {
  const { step, frame, cells, scope, signal } = context
  const { reuse, only, policy } = cells
  const isPart = scope.mode === 'range'
  const span = isPart ? wholeSpan(context) : null
  if (only.size > 0 || (isPart && span === null)) return
  signal.throwIfAborted()
  await step(async (trx) => {
    if (reuse !== null) await lockQuestion(trx, reuse.asks)
    await lockPipeline(trx, frame.pipelineId)
    const served = () => reopenServed(trx, frame, reuse, span, policy.resubmitUncertain)
    for (let words = await served(); words.length > 0; words = await served()) await planAnew(trx, context, words)
    if (!isPart) await joinApproved(trx, frame.runId, frame.pipelineId)
  })
}

/** Plans units again. Walks are planned as reports of one unit each: a report's job that failed without a purchase is over. */
const planAnew = async (trx: Db, context: PlanContext, words: readonly ReopenedJob[]): Promise<void> => {
  const { cells, frame, definition } = context
  const { every } = definition.window
  const [from = ''] = words.map((one) => one.window_from).sort()
  const to = words.reduce((latest, { window_to }) => (window_to > latest ? window_to : latest), '')
  const windows = windowsBetween(from, to, every).map((window, place) => {
    return { ...window, place, isPublished: true, isInLookBack: false }
  })
  const tasks = words.map(({ window_from, window_to, slice_ids: sliceIds }) => {
    const first = windows.findIndex((one) => one.from === window_from)
    return { run: { first, count: windowsBetween(window_from, window_to, every).length }, sliceIds }
  })
  const policy = { ...cells.policy, kind: 'report' as const, force: false, taken: undefined }
  const limits =
    frame.kind === 'walk' ? { ...context.limits, windows: 1, values: context.limits.values.map(() => 1) } : context.limits
  const inside = {
    ...context,
    windows,
    limits,
    cells: { ...cells, policy },
    locked: <T>(work: (trx: Db) => Promise<T>) => work(trx),
  }
  const jobIds = words.map(({ job_id }) => job_id)
  await askForReports(inside, tasks, noGuard(words[0]?.credits ?? null), jobIds.map(String))
  await keepApproval(trx, frame, jobIds)
}
