// A paid report from intent to bytes: submit once, poll, download; picks up whatever an earlier process left.
import { EtlError } from '../core/errors.ts'
import { readableBill, unreadableBill } from '../core/learned-price.ts'
import { notFound, type ReportRecord } from '../core/report-shape.ts'
import type { HttpStream } from './http-types.ts'
import {
  type Buying,
  filesOf,
  type FinishedReport,
  foldStatus,
  isKnownStatus,
  type ReportFile,
  type ReportApi,
  type ReportOptions,
  type ReportPhase,
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
/** A refused download skips the quick first polls. */
const looksBeforeRefusal = 3

/** Goes as far as it can without waiting: throws REPORT_PENDING with `notBefore` when the service is not done. */
export const runReport = async (api: ReportApi, context: SourceContext, options: ReportOptions): Promise<FinishedReport> => {
  const buying = { api, context, options }
  const record = await openReport(buying)
  await waitForPoll(buying, record)
  return follow(buying, record)
}

const pending = (message: string, notBefore: number, final = false): EtlError =>
  new EtlError('REPORT_PENDING', message, { notBefore, follows: { next: 'wait', isFinal: final } })

/** Waiting costs no slot: the job is parked until then. */
const waitForPoll = async (buying: Buying, record: ReportRecord): Promise<void> => {
  const { context, options } = buying
  if (record.state === 'downloaded') return
  // A service that has the report already answers with the final status at once.
  if (record.polls === 0 && record.statusWord !== null && foldStatus(record.statusWord) === 'done') return
  const isFirst = record.polls === 0 && record.retries === 0 && record.state === 'submitted'
  const waitMs = record.nextPollInMs ?? (isFirst ? firstPollMs : 0)
  if (waitMs <= 0 || (await isBeyondAny(buying, waitMs))) return
  if (record.nextPollInMs === null)
    await context.report.polled({ statusWord: record.statusWord ?? 'submitted', nextPollInMs: waitMs })
  const what = record.state === 'ready' ? 'is finished and its download was refused; it is asked for again soon' : 'is being made'
  throw pending(`${options.unitKey}: report ${record.reportId} ${what}.`, context.clock.now() + waitMs)
}

/** Whether the recorded wait is longer than any: a clock that was ahead recorded it. */
const isBeyondAny = async ({ context: { report }, options }: Buying, waitMs: number): Promise<boolean> =>
  waitMs > options.limits.pollMaxMs * mostSpread && waitMs > (await report.fairPauseMs()) * mostSpread

const follow = async (buying: Buying, record: ReportRecord): Promise<FinishedReport> => {
  const { api, context, options } = buying
  const { reportId } = record
  if (reportId === null) throw new EtlError('INTERNAL', `${options.unitKey}: a ${record.state} report has no id.`)
  const status = await api.status(reportId)
  const about = { report_id: reportId }
  if (status === null) context.log.info(about, 'the service does not know the report yet')
  else if (!isKnownStatus(status.word))
    context.log.warn({ ...about, word: status.word }, 'an unknown status word: the report stays open')
  const phase = status === null ? 'open' : foldStatus(status.word)
  if (status === null || phase === 'open') return stillOpen(buying, record, status)
  if (phase !== 'done') return notMade(buying, record, status, phase)
  const files = filesOf(status)
  if (files.length === 0) return stillOpen(buying, record, status)
  const { dataPoints, dataPointsSaid, dataVersion } = status
  const usedQuota = billOf(buying, record, status)
  await context.report.ready({ statusWord: status.word, usedQuota, dataPoints })
  const open = (place: number): Promise<HttpStream> => openDownload(buying, record, reportId, status, place)
  const told = { dataPoints, dataPointsSaid, usedQuota, dataVersion }
  return { stream: await open(0), names: files.map(({ name }) => name), open, ...told }
}

/** null: the service names no bill, or one that cannot be read, of which people are told. */
const billOf = ({ context, options }: Buying, { reportId, state }: ReportRecord, { usedQuota }: ReportStatus): number | null => {
  const bill = readableBill(usedQuota)
  if (usedQuota !== null && bill === null && state !== 'ready')
    context.notice('BILL_UNREADABLE', unreadableBill(`${options.unitKey}, report ${reportId}`, usedQuota))
  return bill
}

const isOverdue = ({ deadlineInMs }: ReportRecord): boolean => deadlineInMs !== null && deadlineInMs < 0

/** Leaves a report past its deadline to the next run. Always throws. */
const leave = async ({ context }: Buying, word: string, message: string): Promise<never> => {
  await context.report.polled({ statusWord: word, nextPollInMs: 0 })
  throw pending(message, context.clock.now() + laterMs, true)
}

const stillOpen = async (buying: Buying, record: ReportRecord, status: ReportStatus | null): Promise<never> => {
  const { context, options } = buying
  const word = status?.word ?? notFound
  const about = `${options.unitKey}: report ${record.reportId} is '${word}'`
  if (isOverdue(record))
    return leave(
      buying,
      word,
      `${about} beyond its deadline (limits.deadline). It stays open and is not bought again; the next run polls it.`,
    )
  if (status === null && record.submittedMsAgo !== null && record.submittedMsAgo > settleMs) {
    // On record, so that a person may put another id in its place.
    await context.report.polled({ statusWord: word, nextPollInMs: 0 })
    throw new EtlError(
      'BAD_RESPONSE',
      `${about}: the service returned this id, but does not know it. Ask the service; \`millrace reports adopt\` records another id; nothing is bought again automatically.`,
    )
  }
  const waitMs = await pauseAfter(buying, record.polls)
  await context.report.polled({ statusWord: word, nextPollInMs: waitMs })
  throw pending(`${about}.`, context.clock.now() + waitMs)
}

/** The first polls come quickly, then the wait grows to poll_every and beyond. With thousands open even the longest wait would fill the rate with polls. */
const pauseAfter = async ({ context, options: { limits } }: Buying, polls: number): Promise<number> => {
  const spread = 0.85 + context.clock.random() * 0.3
  const pause = Math.min(limits.pollMaxMs, limits.pollEveryMs * pollGrowth ** Math.max(0, polls - 1)) * spread
  return polls <= 2 ? Math.min(pause, firstPollMs * 2 ** polls) : Math.max(pause, (await context.report.fairPauseMs()) * spread)
}

type Unmade = Exclude<ReportPhase, 'open' | 'done'>

const notMade = async (buying: Buying, record: ReportRecord, status: ReportStatus, phase: Unmade): Promise<never> => {
  const { api, context, options } = buying
  const { reportId, retries } = record
  const { word, detail: why } = status
  const detail = why === null ? '' : `: ${why}`
  if (phase === 'failed' && retries < maxFreeRetries && reportId !== null && (await api.retry(reportId))) {
    await context.report.retried()
    throw pending(
      `${options.unitKey}: report ${reportId} failed${detail}; the service tries it again for free.`,
      context.clock.now() + options.limits.pollEveryMs,
    )
  }
  const usedQuota = billOf(buying, record, status)
  await context.report.failed(phase, { statusWord: word, usedQuota, message: `${word}${detail}` })
  // A report that was rejected and, as the service says, cost nothing was refused late (69): its parts find out which part was meant.
  const refusal = phase === 'rejected' && usedQuota === 0 ? await api.rejection(status) : null
  if (refusal?.follows?.next === 'ask again') throw refusal
  // Without the id, so that the message is the same for every part.
  const said = phase === 'rejected' ? 'the report' : `report ${reportId}${phase === 'expired' ? ' any more' : ''}`
  const { code, what, next } = unmade[phase]
  const message = `${options.unitKey}: the service ${what} ${said} ('${word}'${detail}). ${next}`
  throw new EtlError(code, message, refusal?.follows?.next === 'split' ? { follows: refusal.follows } : {})
}

/** What people are told where no report was made. */
const unmade = {
  expired: { code: 'REPORT_EXPIRED', what: 'does not keep', next: 'To buy it again: `millrace backfill … --force`.' },
  rejected: { code: 'REPORT_REJECTED', what: 'rejects', next: 'Correct the definition; then `millrace backfill … --force`.' },
  failed: {
    code: 'REPORT_FAILED',
    what: 'could not make',
    next: 'To buy another: `millrace backfill … --force`, or report: { resubmit_failed: true }.',
  },
} as const

/**
 * Links expire, and hosts refuse for a while: a download that was refused is repeated with a fresh link, once at once and then as often as an open
 * report is polled. The report was paid for, so only the service's own status ends it. @param place of the file
 */
const openDownload = async (buying: Buying, record: ReportRecord, reportId: string, before: ReportStatus, place: number) => {
  const { api, context } = buying
  const first = await context.http.download(filesOf(before)[place]?.url ?? '')
  if (first.status === 200) return first
  const status = await api.status(reportId)
  // Where the report is not done any more, the next poll tells why.
  const fresh =
    status !== null && foldStatus(status.word) === 'done' ? fileAgain(buying, reportId, before, status, place) : undefined
  const second = fresh === undefined ? null : await context.http.download(fresh.url)
  if (second?.status === 200) return second
  return refused(buying, record, status?.word ?? before.word, second?.status ?? first.status)
}

/** The file's link now; undefined: there is none. Throws BAD_RESPONSE where the report has changed: files of two reports are no answer. */
const fileAgain = (
  { options }: Buying,
  reportId: string,
  before: ReportStatus,
  now: ReportStatus,
  place: number,
): ReportFile | undefined => {
  const files = filesOf(now)
  if (files.length === 0) return undefined
  const [former, latter] = [before, now].map((status) => filesOf(status).map(({ name }) => name))
  const isNamed = files.length > 1 && new Set(latter).size === files.length
  const hasOtherFiles = former?.length !== files.length || (isNamed && former.some((name) => !latter?.includes(name)))
  const told = [now.dataVersion, now.dataPoints, now.lastUpdated]
  if (
    hasOtherFiles ||
    [before.dataVersion, before.dataPoints, before.lastUpdated].some((said, place) => differ(said, told[place]))
  )
    throw new EtlError(
      'BAD_RESPONSE',
      `${options.unitKey}: report ${reportId} changed while it was downloaded: its version, its data points or its files. Nothing was loaded; all of it is downloaded again, which costs nothing.`,
    )
  return isNamed ? files.find(({ name }) => name === former[place]) : files[place]
}

/** Whether both have a value and the values differ. */
const differ = (before: unknown, now: unknown): boolean =>
  before != null && now != null && before !== '' && now !== '' && before !== now

/** Puts the download off. Always throws. */
const refused = async (buying: Buying, record: ReportRecord, word: string, found: number): Promise<never> => {
  const { context, options } = buying
  const about = `${options.unitKey}: the download of report ${record.reportId} is refused (${found})`
  if (isOverdue(record))
    return leave(
      buying,
      word,
      `${about}, and the run has waited for it until its deadline (limits.deadline). The next run polls it again; it is not bought again.`,
    )
  const waitMs = await pauseAfter(buying, Math.max(record.polls, looksBeforeRefusal))
  await context.report.polled({ statusWord: word, nextPollInMs: waitMs })
  const message = `${about}. It is requested again, with a fresh link, in ${Math.max(1, Math.round(waitMs / 1000))} s; it is not bought again.`
  if (record.state !== 'ready') context.notice('DOWNLOAD_REFUSED', message)
  throw pending(message, context.clock.now() + waitMs)
}
