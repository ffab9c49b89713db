// What both kinds of batch report share: submission, status, retry, and the walk from intent to bytes (interface 2.3, 2.4, 4.4).
import { z } from 'zod'
import { EtlError } from '../../core/errors.ts'
import { redact, type Secret } from '../../core/redact.ts'
import type { Box, Definition } from '../../core/types.ts'
import { addWindows, isPublished } from '../../core/window.ts'
import type { HttpAnswer, HttpClient } from '../../extract/http-types.ts'
import { runReport } from '../../extract/report.ts'
import type { ReportApi, ReportStatus } from '../../extract/report-api.ts'
import type { Estimate, ExtractRequest, LookContext, Source, SourceContext } from '../../extract/source.ts'
import { askOptional } from './absent.ts'
import { jsonOf } from './answer.ts'
import { validate } from './discovery.ts'
import { reportHistory } from './report-history.ts'
import { endpoints, withReportId } from './endpoints.ts'
import { isAboutDates, readRefusal, refusalError } from './errors.ts'

const submission = z.looseObject({
  report_id: z.union([z.string().min(1), z.number()]).optional(),
  id: z.union([z.string().min(1), z.number()]).optional(),
  request_id: z.union([z.string().min(1), z.number()]).optional(),
  status: z.string().nullish(),
})

const count = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^\d+(\.\d+)?$/)
      .transform(Number),
  ])
  .nullish()
  .catch(null)
const text = z
  .union([z.string(), z.array(z.unknown()).transform((list) => list.map(String).join('; '))])
  .nullish()
  .catch(null)
const statusBody = z.looseObject({
  status: z.string(),
  download_url: z.string().nullish().catch(null),
  used_quota: count,
  data_points_count: count,
  errors: text,
  error_message: text,
  message: text,
})

/** Metrics a definition asks for: its measures' names at the service. */
export const metricsOf = (definition: Definition): string[] =>
  definition.columns
    .filter((column) => !column.isKey && column.origin === 'response')
    .map((column) => column.from[0] ?? column.name)

/** Both ends of the unit's window as the service wants them: months, the last one included. */
export const monthsOf = ({ window }: Box): { start_date: string; end_date: string } => ({
  start_date: window.from.slice(0, 7),
  end_date: addWindows(window.to, 'day', -1).slice(0, 7),
})

/** One value or many, as a list. */
export const valuesOf = (box: Box, name: string): string[] => [box.slice[name] ?? []].flat()

const longestWord = 60
const longestDetail = 500

/** What the two batch endpoints do not share: where a report is submitted, and the body (interface 4.2, 4.3). */
export interface BatchDataset {
  readonly endpoint: 'shopper' | 'report'
  body(definition: Definition, box: Box): unknown
}

/** @param hook where the service tells of the report's state; null: nowhere */
const reportApi = (
  dataset: BatchDataset,
  { definition, box }: ExtractRequest,
  context: LookContext,
  hook: Secret | null = null,
): ReportApi => {
  const { http } = context
  const request = dataset.body(definition, box)
  const endpoint = endpoints[dataset.endpoint]
  return {
    endpoint,
    request,
    estimate: () => (dataset.endpoint === 'report' ? price(context, request, { definition, box }) : Promise.resolve(null)),
    submit: async () => {
      // The field is known for general reports alone. Nobody has seen the shopper endpoint take it, and what it does not know it may answer with an error
      // after which nobody can tell whether it sold a report: that one is polled.
      const answer = await sendSubmission(http, dataset, request, dataset.endpoint === 'report' ? hook : null)
      if (answer.status >= 300) throw refusalError(readRefusal(answer), endpoint, box.key)
      const body = jsonOf(answer, endpoint)
      const parsed = submission.safeParse(body)
      const id = parsed.success ? (parsed.data.report_id ?? parsed.data.id ?? parsed.data.request_id) : undefined
      if (!parsed.success || id === undefined) throw withoutId(body, endpoint)
      return {
        reportId: String(id),
        word: parsed.data.status === undefined || parsed.data.status === null ? null : shownWord(parsed.data.status),
      }
    },
    status: (reportId) => readStatus(http, reportId, box),
    listed: (sinceMs) => reportHistory(http, sinceMs),
    retry: (reportId) => freeRetry(http, reportId),
  }
}

/** Fields of a submission that a service does not know it refuses by name. */
const aboutHook = /webhook/i

/** With the address for messages where there is one, and without it where the service takes none: a refusal bought nothing. */
const sendSubmission = async (
  http: HttpClient,
  { endpoint: name }: Pick<BatchDataset, 'endpoint'>,
  body: unknown,
  hook: Secret | null,
): Promise<HttpAnswer> => {
  const endpoint = endpoints[name]
  const answer = await http.read({
    ...{ method: 'POST', endpoint, url: http.url(name, endpoint), body, idempotent: false },
    isAboutOpenWork: (text) => aboutOpenReports.test(text),
    ...(hook === null ? {} : { unrecorded: { body: { webhook_url: hook } } }),
  })
  const isRefused = hook !== null && (answer.status === 400 || answer.status === 422) && aboutHook.test(readRefusal(answer).text)
  return isRefused ? sendSubmission(http, { endpoint: name }, body, null) : answer
}

/** A 429 that does not speak of requests a second (api-facts A 7): an account may have so many reports unfinished. */
const aboutOpenReports =
  /\b(pending|open|unfinished|concurrent|running|queued|active)\b[^.]*\breports?\b|\breports?\b[^.]*\b(pending|open|unfinished|concurrent|running|queued|active)\b/i

/** A word goes to the ledger and the page: short, and without what a broken service may say back to us. */
const shownWord = (word: string): string => redact(word).slice(0, longestWord)

const withoutId = (body: unknown, endpoint: string): EtlError => {
  const found =
    typeof body === 'object' && body !== null ? `an object with ${Object.keys(body).join(', ') || 'no fields'}` : typeof body
  return new EtlError('BAD_RESPONSE', `${endpoint} took the request and answered ${found}, expected report_id (or id)`)
}

/** A price the service states for free. A request it would reject is not submitted. */
const price = async ({ http, clock }: LookContext, request: unknown, asked: ExtractRequest): Promise<number | null> => {
  const said = await validate(http, request)
  if (said === null) return null
  if (!said.valid) throw rejected(asked, said.errors.join('; ') || 'no reason given', clock.now())
  return said.credits
}

const dayMs = 24 * 3_600_000

/** A service may be late with its newest month: that is no fault of the definition, and passes. */
const rejected = ({ definition, box }: ExtractRequest, why: string, nowMs: number): EtlError => {
  const { every, publication } = definition.window
  const next = { from: box.window.to, to: addWindows(box.window.to, every, 1) }
  if (isAboutDates(why) && !isPublished(next, publication, nowMs))
    return new EtlError(
      'NOT_PUBLISHED',
      `${box.key}: the service has not published all of it yet: ${why}. The next run asks again.`,
      {
        notBefore: nowMs + dayMs,
      },
    )
  return new EtlError(
    'BAD_REQUEST',
    `${box.key}: the service would reject the report: ${why}. Correct the definition; nothing was submitted.`,
  )
}

const readStatus = async (http: HttpClient, reportId: string, box: Box): Promise<ReportStatus | null> => {
  const url = http.url('status', endpoints.status)
  url.pathname = withReportId(decodeURI(url.pathname), reportId)
  const answer = await http.read({ method: 'GET', endpoint: endpoints.status, url, idempotent: true })
  if (answer.status === 404) return null
  if (answer.status >= 300) throw refusalError(readRefusal(answer), endpoints.status, box.key)
  const parsed = statusBody.safeParse(jsonOf(answer, endpoints.status))
  if (!parsed.success) {
    throw new EtlError(
      'BAD_RESPONSE',
      `${box.key}: ${endpoints.status} answered without a status word (${parsed.error.issues[0]?.message ?? ''}).`,
    )
  }
  const { status, download_url, used_quota, data_points_count, errors, error_message, message } = parsed.data
  return {
    word: shownWord(status),
    downloadUrl: download_url || null,
    usedQuota: used_quota ?? null,
    dataPoints: data_points_count ?? null,
    detail: redact(errors || error_message || message || '').slice(0, longestDetail) || null,
  }
}

const freeRetry = async (http: HttpClient, reportId: string): Promise<boolean> => {
  const url = http.url('retry', endpoints.retry)
  url.pathname = withReportId(decodeURI(url.pathname), reportId)
  const answer = await askOptional(http, 'retry', () =>
    // Counted by the service, three at most: not sent twice.
    http.read({ method: 'POST', endpoint: endpoints.retry, url, idempotent: false, optional: true }),
  )
  return answer !== null && answer.status < 300
}

/** From intent to the report's bytes; throws REPORT_PENDING while the service is at it. */
export async function* extractReport(
  dataset: BatchDataset,
  request: ExtractRequest,
  context: SourceContext,
): ReturnType<Source['extract']> {
  const { definition, box } = request
  const finished = await runReport(reportApi(dataset, request, context, context.reportHook), context, {
    unitKey: box.key,
    limits: definition.limits,
    policy: definition.report,
    resubmitUncertain: context.resubmitUncertain,
  })
  const format = definition.params['response_format'] === 'json' ? 'json' : 'csv'
  yield { format, part: 1, body: finished.stream.body, mayBeEmpty: finished.dataPoints === 0 }
  const { dataPoints, usedQuota } = finished
  return { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints, usedQuota }
}

/** The service's own list, searched for submissions whose answer was lost. */
export const listReports: NonNullable<Source['listReports']> = ({ http }, sinceMs) => reportHistory(http, sinceMs)

/** Credits by the service's own validation, which costs nothing; null where it has none. */
export const estimateReport = async (
  dataset: BatchDataset,
  request: ExtractRequest,
  context: LookContext,
): Promise<Estimate> => ({
  requests: null,
  rows: null,
  quota: await reportApi(dataset, request, context).estimate(),
})
