// Buying a report: what there is already, or one submission whose intent and id are on record.
import { createHash } from 'node:crypto'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import type { ReportMemo, ReportRecord } from '../core/report.ts'
import type { ReportApi, ReportOptions } from './report.ts'
import type { SourceContext } from './source.ts'

/** The report there is, or a new one: submitted exactly once per intent. */
export const openReport = async (api: ReportApi, context: SourceContext, options: ReportOptions): Promise<ReportRecord> => {
  const { report } = context
  const current = await report.current()
  if (current?.state === 'intent') {
    await report.uncertain('The process ended between the intent and the answer of the service.')
    return uncertain(api, context, options)
  }
  if (current?.state === 'uncertain') return uncertain(api, context, options)
  if (current?.state === 'failed' || current?.state === 'rejected' || current?.state === 'expired') {
    if (!options.policy.resubmitFailed) throw ended(current, options)
    return submit(api, context, options)
  }
  if (current !== null && current.requestHash !== requestHash(api.request))
    context.notice(
      'REPORT_DIFFERS',
      `${options.unitKey}: report ${current.reportId ?? ''} was asked for with other parameters than the definition has now. It is loaded as it is; to buy another: \`millrace backfill … --force\`.`,
    )
  return current ?? submit(api, context, options)
}

const uncertain = async (api: ReportApi, context: SourceContext, options: ReportOptions): Promise<ReportRecord> => {
  if (options.resubmitUncertain || options.policy.resubmitUncertain) return submit(api, context, options)
  throw new EtlError(
    'REPORT_UNCERTAIN',
    `${options.unitKey}: a report was submitted and the answer was lost; the service may or may not have taken it. Look at its own list of reports; ` +
      'to send it again (it may be bought twice) run with --resubmit-uncertain, or set report: { resubmit_uncertain: true }.',
  )
}

const ended = (record: ReportRecord, { unitKey }: ReportOptions): EtlError =>
  new EtlError(
    record.state === 'expired' ? 'REPORT_EXPIRED' : record.state === 'rejected' ? 'REPORT_REJECTED' : 'REPORT_FAILED',
    `${unitKey}: report ${record.reportId ?? '(no id)'} ${record.state} (the service says '${record.statusWord ?? '-'}'). To buy it again: ` +
      '`millrace backfill … --force`, or set report: { resubmit_failed: true }.',
  )

export const requestHash = (request: unknown): string => createHash('sha256').update(JSON.stringify(request)).digest('hex')

const submit = async (api: ReportApi, context: SourceContext, options: ReportOptions): Promise<ReportRecord> => {
  const { report, signal } = context
  const estimatedQuota = await api.estimate()
  signal.throwIfAborted()
  await report.intend({ endpoint: api.endpoint, request: api.request, requestHash: requestHash(api.request), estimatedQuota })
  const { reportId, word } = await api.submit().catch((error: unknown) => unsure(report, error, options))
  await keepId(context, options, reportId, word)
  const record = await report.current()
  if (record === null) throw new EtlError('INTERNAL', `${options.unitKey}: the report just submitted is not on record.`)
  return record
}

/** Waits between tries to write down an id: half a minute in all, as long as a claim holds. */
const keepIdPausesMs = [100, 300, 1_000, 3_000, 5_000, 10_000, 10_000]

/** The id is paid for: a database that is just restarting must not lose it. */
const keepId = async (
  context: SourceContext,
  { unitKey }: ReportOptions,
  reportId: string,
  word: string | null,
): Promise<void> => {
  const { report, log, clock } = context
  for (let attempt = 0; ; attempt += 1) {
    try {
      await report.submitted(reportId, word)
      log.info({ unit: unitKey, report_id: reportId }, 'report submitted')
      return
    } catch (error) {
      const pause = keepIdPausesMs[attempt]
      const fenced = isEtlError(error) && error.code === 'FENCED'
      log.error(
        { unit: unitKey, report_id: reportId, error: messageOf(error) },
        'the id of a submitted report is not on record yet',
      )
      if (fenced || pause === undefined) throw notKept(error, unitKey, reportId)
      // Not stopped by the signal: to leave now would lose what was bought.
      await clock.sleep(pause)
    }
  }
}

const notKept = (cause: unknown, unitKey: string, reportId: string): EtlError =>
  new EtlError(
    isEtlError(cause) && cause.code === 'FENCED' ? 'FENCED' : 'REPORT_UNCERTAIN',
    `${unitKey}: report ${reportId} was bought and could not be put on record (${messageOf(cause)}). Keep this id; the unit is held until you decide.`,
    { cause },
  )

/** Always throws. Only a submission that certainly did not arrive may be forgotten. */
const unsure = async (report: ReportMemo, error: unknown, { unitKey }: ReportOptions): Promise<never> => {
  if (isEtlError(error) && error.code === 'FENCED') throw error
  if (isEtlError(error) && error.context['sent'] === false) {
    await report.withdrawn(error.message)
    throw error
  }
  const message = messageOf(error)
  await report.uncertain(message)
  throw new EtlError(
    'REPORT_UNCERTAIN',
    `${unitKey}: a report was submitted and its answer was lost (${message}). It may have been bought: look at the service's own list of reports; ` +
      'to send it again run with --resubmit-uncertain.',
    { cause: error },
  )
}
