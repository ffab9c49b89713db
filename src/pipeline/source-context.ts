// What a source is given to work on one unit: requests recorded, the report remembered in the ledger, notices shown.
import { accountBudget } from '../config/budget.ts'
import { reportMemo } from '../ledger/reports.ts'
import type { SourceContext } from '../extract/source.ts'
import { requestsPerSecond } from '../config/request-rate.ts'
import type { UnitWork } from './unit-work.ts'

export const contextOf = (work: UnitWork): SourceContext => {
  const { runtime, claim, definition, signal } = work
  // One name for the work, the same in every line a log collector gets: run, unit, and each request of this try.
  const log = runtime.log.child({ run_id: work.job.runId, unit_id: claim.unitId, unit: claim.unit.key })
  let requests = 0
  const http = runtime.service(definition.account).forUnit({
    account: definition.account,
    signal,
    timeoutMs: definition.limits.timeoutMs,
    attempts: definition.limits.attempts,
    maxBodyBytes: definition.limits.maxBodyBytes,
    record: (request) => {
      runtime.progress.counters.requests += 1
      runtime.progress.counters.bytes += request.bytes
      requests += 1
      const { method, endpoint, attempt, status, milliseconds } = request
      log.debug(
        { request_id: `${claim.unitId}-${claim.fence}-${requests}`, method, endpoint, attempt, status, milliseconds },
        'request',
      )
      work.requests.push({ ...request, unitId: claim.unitId, runId: work.job.runId, edition: claim.edition })
    },
  })
  const report = reportMemo(runtime.database.kysely, claim, {
    account: definition.account,
    pipeline: definition.pipeline,
    runId: work.job.runId,
    deadlineMs: definition.limits.deadlineMs,
    requestsPerSecond: requestsPerSecond(runtime.settings),
    budget: { perMonth: definition.limits.quotaPerMonth, perDay: definition.limits.quotaPerDay },
    accountBudget: accountBudget(runtime.settings.raw, definition.account),
  })
  return {
    http,
    report,
    log,
    clock: runtime.clock,
    signal,
    resubmitUncertain: runtime.consent.resubmitUncertain,
    notice: (code, message) => runtime.progress.emit({ event: 'notice', code, message }),
  }
}
