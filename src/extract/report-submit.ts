// Buys a report: takes the one that the job has, or submits once, with intent and id on record. A submission whose answer was lost is searched for in the
// service's own list, by its request and its time.
import { createHash } from 'node:crypto'
import { isRecord } from '../core/json.ts'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { holdsKey } from '../core/redact.ts'
import { isReportId, type ListedReport, type ReportIntent, type ReportMemo, type ReportRecord } from '../core/report-shape.ts'
import { withinGracePeriod, ledgerUnanswered } from './grace-period.ts'
import type { Buying, ReportApi, ReportOptions } from './report-api.ts'

/** A submission whose answer was lost. */
export interface LostSubmission {
  /** Body as it was sent. */
  readonly request: unknown
  /** When it was sent, by the clock of this machine. */
  readonly sentAtMs: number
}

/** How far apart the service's clock and ours may be, and how late it may begin a report. */
const apartMs = 10 * 60_000

/** From when on the service's list may have the lost report. */
export const listedSince = ({ sentAtMs }: LostSubmission): number => sentAtMs - apartMs

/** When it was submitted, by the clock of this machine. */
export interface Span {
  readonly fromMs: number
  readonly toMs: number
}

/**
 * Reports of the span that certainly asked for the same, oldest first. A list that does not tell what was asked for proves nothing: another report of the
 * account may have been submitted in the same minute.
 */
const alike = (listed: readonly ListedReport[], request: unknown, { fromMs, toMs }: Span): readonly ListedReport[] =>
  listed
    .filter(({ createdMs }) => createdMs !== null && createdMs >= fromMs - apartMs && createdMs <= toMs + apartMs)
    .filter((one) => asksTheSame(one.request, request))
    .toSorted((left, right) => (left.createdMs ?? 0) - (right.createdMs ?? 0))

/** The report that was bought by the submission; null: none that is certainly it. */
export const findListed = (listed: readonly ListedReport[], { request, sentAtMs }: LostSubmission): string | null =>
  alike(listed, request, { fromMs: sentAtMs, toMs: sentAtMs })[0]?.reportId ?? null

/** The newest report of the span that asked for the same; null: none that is certainly it. */
const findForgotten = (listed: readonly ListedReport[], request: unknown, span: Span): string | null =>
  alike(listed, request, span).at(-1)?.reportId ?? null

/** Every value that the list names must be the one that was sent, and it must name at least what is asked for. */
const asksTheSame = (told: unknown, sent: unknown): boolean => {
  if (!isRecord(told) || !isRecord(sent)) return false
  const names = Object.keys(told).filter((name) => name in sent)
  const decisive = 'report_query' in sent ? ['report_query'] : Object.keys(sent).filter((name) => name !== 'response_format')
  return decisive.every((name) => names.includes(name)) && names.every((name) => isSame(told[name], sent[name]))
}

const isSame = (one: unknown, other: unknown): boolean => canonical(one) === canonical(other)

/** The order of names means nothing, nor does that of the values of a list. */
const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).sort().join()}]`
  if (!isRecord(value)) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).map(([name, inner]) => `${name}:${canonical(inner)}`)
  return `{${entries.sort().join()}}`
}

/** The report that the job has, or a new one where nothing was submitted yet: a job submits once. */
export const openReport = async (buying: Buying): Promise<ReportRecord> => {
  const { api, context, options } = buying
  const { report } = context
  const current = await report.current()
  if (current === null) return submit(buying)
  if (current.state === 'intent') await report.uncertain('The process ended between the intent and the answer of the service.')
  if (current.state === 'intent' || current.state === 'uncertain') return foundAgain(buying, current)
  if (current.state === 'failed' || current.state === 'rejected' || current.state === 'expired') throw ended(current, options)
  if (current.requestHash !== requestHash(api.request))
    context.notice(
      'REPORT_DIFFERS',
      `${options.unitKey}: report ${current.reportId ?? ''} was requested with other parameters than the definition has now. It is loaded as it is; to buy another: \`millrace backfill … --force\`.`,
    )
  return current
}

/** Searches the service's own list before anybody decides. Throws REPORT_UNCERTAIN where it shows no report; where it cannot be read nothing is sent again. */
const foundAgain = async (buying: Buying, current: ReportRecord): Promise<ReportRecord> => {
  const { api, context, options } = buying
  const { report, clock } = context
  if (current.askedMsAgo === null || current.requestHash !== requestHash(api.request)) throw uncertain(options)
  const lost = { request: api.request, sentAtMs: clock.now() - current.askedMsAgo }
  const listed = await listedOf(api, listedSince(lost)).catch((error: unknown) => {
    throw uncertain({ ...options, resubmitUncertain: false, policy: { ...options.policy, resubmitUncertain: false } }, error)
  })
  const found = findListed(await unknownTo(report, listed), lost)
  if (found === null) throw uncertain(options)
  return writeDownId(buying, found, null)
}

/** The service's list, without entries whose id is not valid. */
const listedOf = async (api: ReportApi, sinceMs: number): Promise<readonly ListedReport[]> =>
  ((await api.listed(sinceMs)) ?? []).filter(({ reportId }) => isReportId(reportId))

/** Listed reports that no job of the account has. */
const unknownTo = async (report: ReportMemo, listed: readonly ListedReport[]): Promise<readonly ListedReport[]> => {
  const unknown = new Set(await report.unknown(listed.map(({ reportId }) => reportId)))
  return listed.filter(({ reportId }) => unknown.has(reportId))
}

const uncertain = ({ unitKey, resubmitUncertain, policy }: ReportOptions, cause?: unknown): EtlError =>
  new EtlError(
    'REPORT_UNCERTAIN',
    `${unitKey}: a report was submitted and the answer was lost; the service may or may not have taken it. Check its own list of reports; ` +
      'to send it again (it may be bought twice) run with --resubmit-uncertain, or set report: { resubmit_uncertain: true }.',
    {
      ...(resubmitUncertain || policy.resubmitUncertain ? { follows: { next: 'ask again' } } : {}),
      ...(cause === undefined ? {} : { cause }),
    },
  )

const ended = (record: ReportRecord, { unitKey }: ReportOptions): EtlError =>
  new EtlError(
    record.state === 'expired' ? 'REPORT_EXPIRED' : record.state === 'rejected' ? 'REPORT_REJECTED' : 'REPORT_FAILED',
    `${unitKey}: report ${record.reportId ?? '(no id)'} ${record.state} (the service says '${record.statusWord ?? '-'}'). To buy it again: ` +
      '`millrace backfill … --force`, or set report: { resubmit_failed: true }.',
  )

/** Equal for equal requests: sources build their bodies in one order. */
export const requestHash = (request: unknown): string => createHash('sha256').update(JSON.stringify(request)).digest('hex')

const intentOf = ({ endpoint, request }: ReportApi, estimatedQuota: number | null): ReportIntent => ({
  ...{ endpoint, request, requestHash: requestHash(request), estimatedQuota },
})

const submit = async (buying: Buying): Promise<ReportRecord> => {
  const { api, context } = buying
  const { report, signal } = context
  const before = await boughtBefore(buying)
  if (before !== null) return adoptFound(buying, before)
  await report.affordable()
  const estimatedQuota = await api.estimate().catch((error: unknown) => {
    throw refusedAsWhole(error)
  })
  signal.throwIfAborted()
  await report.intend(intentOf(api, estimatedQuota))
  const { reportId, word } = await api.submit().catch((error: unknown) => unsure(buying, error))
  if (!isReportId(reportId)) await unsure(buying, noId(reportId))
  return writeDownId(buying, reportId, word)
}

/** A restored ledger searches the service's own list for a report that it may have lost; null: none. Throws where the list cannot be read: nothing is bought then. */
const boughtBefore = async ({ api, context: { report, clock } }: Buying): Promise<string | null> => {
  const span = await report.forgotten()
  if (span === null) return null
  const [fromMs, toMs] = [clock.now() - span.sinceMsAgo, clock.now() - span.untilMsAgo]
  const listed = await listedOf(api, listedSince({ request: api.request, sentAtMs: fromMs }))
  return findForgotten(await unknownTo(report, listed), api.request, { fromMs, toMs })
}

const adoptFound = async (buying: Buying, reportId: string): Promise<ReportRecord> => {
  const { api, context, options } = buying
  await context.report.intend(intentOf(api, null))
  const record = await writeDownId(buying, reportId, null)
  context.notice(
    'REPORT_FOUND',
    `${options.unitKey}: report ${reportId}, bought before this warehouse was restored, was found in the service's own list. It is not bought again.`,
  )
  return record
}

/** With these codes the service certainly did not take the request, and would refuse the same one again. */
const certainCodes: ReadonlySet<string> = new Set(['BAD_REQUEST', 'NOT_PUBLISHED', 'NO_CAPABILITY', 'TOO_LARGE'])

/** With these statuses a service refuses the content of a request; any other status is about the path, the key or the moment. */
export const aboutContent = new Set<number | null>([null, 400, 413, 422])

/** Has a request split that the service certainly refused for its content: smaller reports find out which part it was. */
export const refusedAsWhole = (error: unknown): unknown => {
  // The source has decided already what follows.
  if (!isEtlError(error) || error.follows !== null) return error
  if (!certainCodes.has(error.code) || !aboutContent.has(error.status)) return error
  const about = error.code === 'TOO_LARGE' ? 'size' : error.code === 'NOT_PUBLISHED' ? 'dates' : 'values'
  return error.with(error.message, { follows: { next: 'split', about } })
}

/** Pauses between attempts to record an id: half a minute in all. */
const writePausesMs = [100, 300, 1_000, 3_000, 5_000, 10_000, 10_000]

/** The id is paid for: neither a database that is just restarting nor another process that took the job over must lose it. Returns what is on record then. */
const writeDownId = async (buying: Buying, reportId: string, word: string | null): Promise<ReportRecord> => {
  const { context, options } = buying
  const { report, log, clock } = context
  const { unitKey } = options
  for (let attempt = 0; ; attempt += 1) {
    try {
      const given = await withinGracePeriod(context, report.submitted(reportId, word))
      if (given?.waitMs === null) return await unsure(buying, new EtlError('BAD_RESPONSE', given.message))
      if (given?.waitMs === 0) context.notice('REPORT_GIVEN_AGAIN', `${unitKey}: ${given.message}`)
      if (given !== null) throw taken(given.message, unitKey, clock.now() + given.waitMs)
      log.info({ report_id: reportId }, 'report submitted')
      break
    } catch (error) {
      if (isEtlError(error) && (error.code === 'REPORT_PENDING' || error.code === 'REPORT_UNCERTAIN')) throw error
      const pause = writePausesMs[attempt]
      log.error({ report_id: reportId, error: messageOf(error) }, 'the id of a submitted report is not recorded yet')
      if (error === ledgerUnanswered) throw stillWritten(unitKey, reportId)
      // What the ledger refuses once it refuses at every attempt.
      if (pause === undefined || (isEtlError(error) && error.code === 'INTERNAL')) throw notKept(error, unitKey, reportId)
      // Not stopped by the signal: to leave now would lose what was bought.
      await clock.sleep(pause)
    }
  }
  const record = await report.current()
  if (record === null) throw new EtlError('INTERNAL', `${unitKey}: the report just submitted is not recorded.`)
  return record
}

const stillWritten = (unitKey: string, reportId: string): EtlError =>
  new EtlError(
    'INTERRUPTED',
    `${unitKey}: report ${reportId} was bought; another session locks its row. The id is noted beside the landings, and recorded once that session ends, by the database or by the next command.`,
  )

/** The service gave a report that it had made before, for another job. */
const taken = (message: string, unitKey: string, notBefore: number): EtlError =>
  new EtlError('REPORT_PENDING', `${unitKey}: ${message}`, {
    notBefore,
    follows: { next: 'wait', isFinal: false },
  })

const notKept = (cause: unknown, unitKey: string, reportId: string): EtlError =>
  new EtlError(
    'REPORT_UNCERTAIN',
    `${unitKey}: report ${reportId} was bought, but could not be recorded (${messageOf(cause)}). Keep this id; the job is held until you decide.`,
    { cause },
  )

/** An id must fit into an address, the name of a file and a table. A text that does not is repeated nowhere. */
const noId = (text: string): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    holdsKey(text)
      ? 'The service answered with an id that holds the key'
      : `The service answered with an id of ${text.length} characters that is no plain text of 1 to 200 characters`,
  )

/** Always throws. Only a submission that certainly did not arrive may be forgotten. */
const unsure = async ({ context: { report }, options: { unitKey } }: Buying, error: unknown): Promise<never> => {
  if (isEtlError(error) && error.code === 'FENCED') throw error
  if (isEtlError(error) && error.sent === false) {
    await report.withdrawn(error.message)
    throw refusedAsWhole(error)
  }
  const message = messageOf(error)
  await report.uncertain(message)
  throw new EtlError(
    'REPORT_UNCERTAIN',
    `${unitKey}: a report was submitted and its answer was lost (${message}). It may have been bought: check the service's own list of reports; ` +
      'to send it again run with --resubmit-uncertain.',
    { cause: error },
  )
}
