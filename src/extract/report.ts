// A paid report from intent to bytes: submit once, poll, download; picks up whatever an earlier process left.
import { EtlError } from '../core/errors.ts'
import { readableBill, unreadableBill } from '../core/learned-price.ts'
import { notFound, type ReportRecord } from '../core/report-shape.ts'
import type { Limits } from '../core/types.ts'
import type { HttpStream } from './http-types.ts'
import {
  type FinishedReport,
  foldStatus,
  isKnownStatus,
  type ReportApi,
  type ReportOptions,
  type ReportStatus,
} from './report-api.ts'
import { openReport } from './report-submit.ts'
import type { SourceContext } from './source.ts'

/** The first poll after a submission; small reports are ready by then. */
const firstPollMs = 500
const pollGrowth = 1.5
/** Waits are spread by so much at most. */
const mostSpread = 1.15
const maxFreeRetries = 3
/** How long an id just given may be unknown to the status endpoint. */
const settleMs = 10 * 60_000
/** A report past its deadline is polled again by the next run. */
const laterMs = 24 * 3_600_000
/** Refused downloads leave out the quick first looks. */
const looksBeforeRefusal = 3

/** Goes as far as it can without waiting: throws REPORT_PENDING with `notBefore` when the service is not done. */
export const runReport = async (api: ReportApi, context: SourceContext, options: ReportOptions): Promise<FinishedReport> => {
  const record = await openReport(api, context, options)
  await waitForPoll(context, record, options)
  return follow(api, context, record, options)
}

const pending = (message: string, notBefore: number, final = false): EtlError =>
  new EtlError('REPORT_PENDING', message, { notBefore, follows: { next: 'wait', isFinal: final } })

/** Waiting costs no slot: the job is parked until then. */
const waitForPoll = async (context: SourceContext, record: ReportRecord, { unitKey, limits }: ReportOptions): Promise<void> => {
  if (record.state === 'downloaded') return
  // A service that has the report at hand says the final word at once.
  if (record.polls === 0 && record.statusWord !== null && foldStatus(record.statusWord) === 'done') return
  const isFirst = record.polls === 0 && record.retries === 0 && record.state === 'submitted'
  const waitMs = record.nextPollInMs ?? (isFirst ? firstPollMs : 0)
  if (waitMs <= 0 || (await isBeyondAny(context, waitMs, limits))) return
  if (record.nextPollInMs === null)
    await context.report.polled({ statusWord: record.statusWord ?? 'submitted', nextPollInMs: waitMs })
  const what = record.state === 'ready' ? 'is finished and its download was refused; it is asked for again soon' : 'is being made'
  throw pending(`${unitKey}: report ${record.reportId} ${what}.`, context.clock.now() + waitMs)
}

/** A clock that was ahead noted it. */
const isBeyondAny = async ({ report }: SourceContext, waitMs: number, { pollMaxMs }: Limits): Promise<boolean> =>
  waitMs > pollMaxMs * mostSpread && waitMs > (await report.fairPauseMs()) * mostSpread

const follow = async (
  api: ReportApi,
  context: SourceContext,
  record: ReportRecord,
  options: ReportOptions,
): Promise<FinishedReport> => {
  const reportId = record.reportId
  if (reportId === null) throw new EtlError('INTERNAL', `${options.unitKey}: a ${record.state} report has no id.`)
  const status = await api.status(reportId)
  if (status !== null && !isKnownStatus(status.word))
    context.log.warn(
      { unit: options.unitKey, report_id: reportId, word: status.word },
      'a status word nobody knows: the report stays open',
    )
  const phase = status === null ? unknownId(context, record) : foldStatus(status.word)
  if (status === null || phase === 'open') return stillOpen(context, record, status, options)
  if (phase === 'done') {
    if (status.downloadUrl === null) return stillOpen(context, record, status, options)
    const { dataPoints, dataVersion } = status
    const usedQuota = readableBill(status.usedQuota)
    if (status.usedQuota !== null && usedQuota === null && record.state !== 'ready')
      context.notice('BILL_UNREADABLE', unreadableBill(`${options.unitKey}, report ${reportId}`, status.usedQuota))
    await context.report.ready({ statusWord: status.word, usedQuota, dataPoints })
    const found = { record, reportId, word: status.word, link: status.downloadUrl }
    return { stream: await openDownload(api, context, found, options), dataPoints, usedQuota, dataVersion }
  }
  return notMade(api, context, record, status, phase, options)
}

const unknownId = (context: SourceContext, record: ReportRecord): 'open' => {
  context.log.info({ report_id: record.reportId }, 'the service does not know the report yet')
  return 'open'
}

const stillOpen = async (
  context: SourceContext,
  record: ReportRecord,
  status: ReportStatus | null,
  options: ReportOptions,
): Promise<never> => {
  const word = status?.word ?? notFound
  const about = `${options.unitKey}: report ${record.reportId} is '${word}'`
  if (record.deadlineInMs !== null && record.deadlineInMs < 0) {
    await context.report.polled({ statusWord: word, nextPollInMs: 0 })
    throw pending(
      `${about} beyond its deadline (limits.deadline). It stays open and is not bought again; the next run polls it.`,
      context.clock.now() + laterMs,
      true,
    )
  }
  if (status === null && record.submittedMsAgo !== null && record.submittedMsAgo > settleMs) {
    // On record, so that a person may put another id in its place.
    await context.report.polled({ statusWord: word, nextPollInMs: 0 })
    throw new EtlError(
      'BAD_RESPONSE',
      `${about}: the service gave this id and does not know it. Ask the service; \`millrace reports adopt\` records another id; nothing is bought again by itself.`,
    )
  }
  const waitMs = await pauseAfter(context, record, options.limits)
  await context.report.polled({ statusWord: word, nextPollInMs: waitMs })
  throw pending(`${about}.`, context.clock.now() + waitMs)
}

/** The first polls come quickly, then the wait grows to poll_every and beyond. With thousands open even the longest wait would fill the rate with polls. */
const pauseAfter = async (context: SourceContext, { polls }: ReportRecord, limits: Limits): Promise<number> => {
  const spread = 0.85 + context.clock.random() * 0.3
  const pause = Math.min(limits.pollMaxMs, limits.pollEveryMs * pollGrowth ** Math.max(0, polls - 1)) * spread
  return polls <= 2 ? Math.min(pause, firstPollMs * 2 ** polls) : Math.max(pause, (await context.report.fairPauseMs()) * spread)
}

const notMade = async (
  api: ReportApi,
  context: SourceContext,
  record: ReportRecord,
  status: ReportStatus,
  phase: 'failed' | 'rejected' | 'expired',
  options: ReportOptions,
): Promise<never> => {
  const detail = status.detail === null ? '' : `: ${status.detail}`
  if (phase === 'failed' && record.retries < maxFreeRetries && record.reportId !== null && (await api.retry(record.reportId))) {
    await context.report.retried()
    throw pending(
      `${options.unitKey}: report ${record.reportId} failed${detail}; the service tries it again for free.`,
      context.clock.now() + options.limits.pollEveryMs,
    )
  }
  await context.report.failed(phase, `${status.word}${detail}`)
  if (phase === 'expired')
    throw new EtlError(
      'REPORT_EXPIRED',
      `${options.unitKey}: the service does not keep report ${record.reportId} any more ('${status.word}'${detail}). To buy it again: \`millrace backfill … --force\`.`,
    )
  if (phase === 'rejected') {
    throw new EtlError(
      'REPORT_REJECTED',
      `${options.unitKey}: the service rejects report ${record.reportId} ('${status.word}'${detail}). Correct the definition; then \`millrace backfill … --force\`.`,
    )
  }
  throw new EtlError(
    'REPORT_FAILED',
    `${options.unitKey}: the service could not make report ${record.reportId} ('${status.word}'${detail}). To buy another: \`millrace backfill … --force\`, or report: { resubmit_failed: true }.`,
  )
}

interface Finished {
  readonly record: ReportRecord
  readonly reportId: string
  readonly word: string
  readonly link: string
}

/**
 * Links expire, hosts refuse for a while: a download that is refused, in whichever way, is asked for with a fresh link, once at once and then as
 * often as an open report is. The report was paid for, so that nothing but the service's own word ends it.
 */
const openDownload = async (
  api: ReportApi,
  context: SourceContext,
  { record, reportId, word, link }: Finished,
  options: ReportOptions,
): Promise<HttpStream> => {
  const first = await context.http.download(link)
  if (first.status === 200) return first
  const status = await api.status(reportId)
  // What became of it meanwhile is said by the next poll.
  const isDone = status !== null && foldStatus(status.word) === 'done'
  const fresh = isDone ? status.downloadUrl : null
  const second = fresh === null ? null : await context.http.download(fresh)
  if (second?.status === 200) return second
  return refused(context, record, status?.word ?? word, second?.status ?? first.status, options)
}

/** Puts it off. */
const refused = async (
  context: SourceContext,
  record: ReportRecord,
  word: string,
  found: number,
  options: ReportOptions,
): Promise<never> => {
  const about = `${options.unitKey}: the download of report ${record.reportId} is refused (${found})`
  if (record.deadlineInMs !== null && record.deadlineInMs < 0) {
    await context.report.polled({ statusWord: word, nextPollInMs: 0 })
    throw pending(
      `${about}, and the run has waited for it until its deadline (limits.deadline). The next run asks for it again; it is not bought again.`,
      context.clock.now() + laterMs,
      true,
    )
  }
  const waitMs = await pauseAfter(context, { ...record, polls: Math.max(record.polls, looksBeforeRefusal) }, options.limits)
  await context.report.polled({ statusWord: word, nextPollInMs: waitMs })
  const message = `${about}. It is asked for again, with a fresh link, in ${Math.max(1, Math.round(waitMs / 1000))} s; it is not bought again.`
  if (record.state !== 'ready') context.notice('DOWNLOAD_REFUSED', message)
  throw pending(message, context.clock.now() + waitMs)
}
