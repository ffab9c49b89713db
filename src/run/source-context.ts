// What a source is given to work on one unit: requests recorded, the report remembered in the ledger, notices shown.
import { accountBudget } from '../core/budget.ts'
import { reportMemo } from '../db/ledger/reports.ts'
import type { SourceContext } from '../extract/source.ts'
import { requestsPerSecond } from './request-rate.ts'
import type { UnitWork } from './unit-work.ts'

export const contextOf = (work: UnitWork): SourceContext => {
  const { shop, claim, definition, signal } = work
  // One name for the work, the same in every line a log collector gets: run, unit, and each request of this try.
  const log = shop.log.child({ run_id: work.job.runId, unit_id: claim.unitId, unit: claim.unit.key })
  let requests = 0
  const http = shop.service(definition.account).forUnit({
    account: definition.account,
    signal,
    timeoutMs: definition.limits.timeoutMs,
    attempts: definition.limits.attempts,
    maxBodyBytes: definition.limits.maxBodyBytes,
    record: (request) => {
      shop.progress.counters.requests += 1
      shop.progress.counters.bytes += request.bytes
      requests += 1
      const { method, endpoint, attempt, status, milliseconds } = request
      log.debug(
        { request_id: `${claim.unitId}-${claim.fence}-${requests}`, method, endpoint, attempt, status, milliseconds },
        'request',
      )
      work.requests.push({ ...request, unitId: claim.unitId, runId: work.job.runId, edition: claim.edition })
    },
  })
  const report = reportMemo(shop.database.kysely, claim, {
    account: definition.account,
    pipeline: definition.pipeline,
    runId: work.job.runId,
    deadlineMs: definition.limits.deadlineMs,
    requestsPerSecond: requestsPerSecond(shop.settings),
    budget: { perMonth: definition.limits.quotaPerMonth, perDay: definition.limits.quotaPerDay },
    accountBudget: accountBudget(shop.settings.raw, definition.account),
  })
  return {
    http,
    report,
    log,
    clock: shop.clock,
    signal,
    resubmitUncertain: shop.consent.resubmitUncertain,
    notice: (code, message) => shop.progress.emit({ event: 'notice', code, message }),
  }
}
