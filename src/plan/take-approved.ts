// What has a person's word is taken up by a run: what costs nothing by now is loaded, the rest keeps the word.
import { windowsBetween } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { joinApproved, keepWord, type ReopenedWord, reopenServed } from '../ledger/approved-jobs.ts'
import { lockPipeline, lockQuestion } from '../ledger/pipelines.ts'
import { buysAll } from './guard-night.ts'
import { type PlanContext, wholeSpan } from './plan-context.ts'
import { askForReports } from './plan-reports.ts'

/**
 * What has a person's word and was not asked for yet is looked at once more, unit by unit and whatever its windows: what another pipeline or version has bought
 * meanwhile, or is about to, is loaded from there; the rest keeps the word, and the run waits for it. Pipelines of one question take turns. A range is no reason to
 * wait for everything else that was allowed; who asks for some values waits for no others' purchases, and does not fail with them.
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

/** Walks are planned anew like reports, whose jobs are over once they have failed without a purchase; each is of one unit. */
const planAnew = async (trx: Db, context: PlanContext, words: readonly ReopenedWord[]): Promise<void> => {
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
  await askForReports(inside, tasks, buysAll(words[0]?.credits ?? null), jobIds.map(String))
  await keepWord(trx, frame, jobIds)
}
