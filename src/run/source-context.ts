// The context in which a source works on one job: records requests, remembers the report in the ledger, shows notices.
import { noReuseDigest } from '../core/request-digest.ts'
import { EtlError } from '../core/errors.ts'
import type { HttpClient } from '../extract/http-types.ts'
import type { Question } from '../extract/landing-files.ts'
import { isSameFault } from '../extract/proved-shape.ts'
import type { SourceContext } from '../extract/source.ts'
import { payerOf, priceSubject } from '../plan/plan-context.ts'
import { reportMemo } from '../ledger/report-memo.ts'
import type { PriceSubject } from '../ledger/prices.ts'
import { type LandedPages, landedPages } from './landed-pages.ts'
import { book, type PaidPages, paidPages } from './paid-pages.ts'
import { isFirstUnreadable } from './read-balance.ts'
import type { JobWork } from './job-work.ts'
import { questionOf, withReceipts } from './leave-receipts.ts'

/** A context, and what is to be done when its job is over. */
export interface OpenContext extends SourceContext, Omit<PaidPages, 'paying'> {
  /** Records what was paid so far. */
  book(): Promise<void>
  readonly begun: LandedPages
  /** What the answer was requested for, as far as the definition says it. */
  question(): Question
  /** What `Completeness` says of checksums. Throws TRUNCATED where the bytes did not come so before: they may have been spoiled on their way. */
  otherSums(): string | null
}

export const contextOf = (work: JobWork): OpenContext => {
  const { runtime, claim, definition, source, signal } = work
  // One name for the work, the same in every line a log collector gets: run, job, and each request of this claim.
  const log = runtime.log.child({ run_id: claim.runId, job_id: claim.jobId, unit: claim.box.key })
  const payer = payerOf(runtime, definition)
  const memo = reportMemo(runtime.database.kysely, claim, {
    ...payer,
    source: definition.source,
    runId: claim.runId,
    process: runtime.process,
    deadlineMs: definition.limits.deadlineMs,
    requestsPerSecond: runtime.allowance(definition).requestsPerSecond,
  })
  const subject = priceSubject(runtime, definition, source)
  const begun = landedPages(work)
  const { paying, ...pages } = paidPages(work, payer, subject, begun, () => context)
  let isOther = false
  const others: string[] = []
  const context: OpenContext = {
    http: httpOf(work, log, subject, paying, (said) => others.push(said)),
    ...pages,
    book: () => book(work),
    begun,
    question: () => ({ ...questionOf(work), ...(isOther ? { asks: noReuseDigest, metrics: [] } : {}) }),
    otherSums: () => {
      const error = new EtlError('TRUNCATED', others.join(' '))
      if (others.length > 0 && !isSameFault(error, claim.formerError)) throw error
      return others.length > 0 ? error.message : null
    },
    report: withReceipts(memo, work),
    log,
    clock: runtime.clock,
    signal,
    reportHook: runtime.hooks?.reportAddress(claim.jobId) ?? null,
    resubmitUncertain: runtime.consent.resubmitUncertain,
    forcedBy: claim.forced ? claim.runId : null,
    notice: (code, message) => {
      // The report was bought before the definition changed.
      isOther ||= code === 'REPORT_DIFFERS'
      if (code === 'BILL_UNREADABLE' && !isFirstUnreadable(runtime.database, subject)) return
      runtime.progress.emit({ event: 'notice', code, message })
    },
  }
  return context
}

/** Requests leave in turn with those of other runs, and each is written down. */
const httpOf = (
  { runtime, claim, definition, requests, signal }: JobWork,
  log: SourceContext['log'],
  subject: PriceSubject,
  paying: PaidPages['paying'],
  otherSum: (said: string) => void,
): HttpClient => {
  const { timeoutMs, attempts, deadlineMs, maxBodyBytes } = definition.limits
  let sent = 0
  return runtime.service(definition).forUnit({
    ...{ account: definition.account, signal, lane: String(claim.runId), timeoutMs, attempts, maxBodyBytes, paying, otherSum },
    patience: { attempts, deadlineMs },
    record: (request) => {
      runtime.progress.counters.requests += 1
      runtime.progress.counters.bytes += request.bytes
      sent += 1
      const { method, endpoint, attempt, status, milliseconds } = request
      const request_id = `${claim.jobId}-${claim.fence}-${sent}`
      log.debug({ request_id, method, endpoint, attempt, status, milliseconds }, 'request')
      const { jobId, runId, pipelineId, askNumber } = claim
      // The same object: what it cost is known once its answer was read.
      requests.push(Object.assign(request, { jobId, runId, pipelineId, askNumber, subject }))
    },
  })
}
