// What a source is given to work on one job: requests recorded, the report remembered in the ledger, notices shown.
import { budgetsOf, tagBudgets } from '../config/tag-budgets.ts'
import type { HttpClient } from '../extract/http-types.ts'
import type { SourceContext } from '../extract/source.ts'
import { reportMemo } from '../ledger/report-memo.ts'
import type { JobWork } from './job-work.ts'
import { withReceipts } from './receipts.ts'

export const contextOf = (work: JobWork): SourceContext => {
  const { runtime, claim, definition, signal } = work
  // One name for the work, the same in every line a log collector gets: run, job, and each request of this claim.
  const log = runtime.log.child({ run_id: claim.runId, job_id: claim.jobId, unit: claim.box.key })
  const { requestsPerSecond, budget: accountBudget } = runtime.allowance(definition)
  const memo = reportMemo(runtime.database.kysely, claim, {
    account: definition.account,
    pipeline: definition.pipeline,
    runId: claim.runId,
    deadlineMs: definition.limits.deadlineMs,
    requestsPerSecond,
    budget: { perMonth: definition.limits.quotaPerMonth, perDay: definition.limits.quotaPerDay },
    accountBudget,
    tagBudgets: budgetsOf(tagBudgets(runtime.settings.raw), definition.tags),
  })
  return {
    http: httpOf(work, log),
    report: withReceipts(memo, work),
    log,
    clock: runtime.clock,
    signal,
    reportHook: runtime.hooks?.reportAddress(claim.jobId) ?? null,
    resubmitUncertain: runtime.consent.resubmitUncertain,
    notice: (code, message) => runtime.progress.emit({ event: 'notice', code, message }),
  }
}

/** Requests leave in turn with those of other runs, and each is written down. */
const httpOf = ({ runtime, claim, definition, requests, signal }: JobWork, log: SourceContext['log']): HttpClient => {
  const { account, limits } = definition
  let sent = 0
  return runtime.service(definition).forUnit({
    account,
    signal,
    lane: String(claim.runId),
    timeoutMs: limits.timeoutMs,
    attempts: limits.attempts,
    patience: { attempts: limits.attempts, deadlineMs: limits.deadlineMs },
    maxBodyBytes: limits.maxBodyBytes,
    record: (request) => {
      runtime.progress.counters.requests += 1
      runtime.progress.counters.bytes += request.bytes
      sent += 1
      const { method, endpoint, attempt, status, milliseconds } = request
      log.debug(
        { request_id: `${claim.jobId}-${claim.fence}-${sent}`, method, endpoint, attempt, status, milliseconds },
        'request',
      )
      requests.push({
        ...request,
        jobId: claim.jobId,
        runId: claim.runId,
        pipelineId: claim.pipelineId,
        askNumber: claim.askNumber,
      })
    },
  })
}
