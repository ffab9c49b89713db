// Shared by both kinds of batch report: submission, status, retry, and the way from intent to bytes (interface 2.3, 2.4, 4.4).
import { z } from 'zod'
import { EtlError } from '../../core/errors.ts'
import { redact, type Secret } from '../../core/redact.ts'
import type { Box, Definition } from '../../core/types.ts'
import { addWindows, windowsBetween } from '../../core/window.ts'
import type { HttpAnswer, HttpClient } from '../../extract/http-types.ts'
import { runReport } from '../../extract/report.ts'
import type { ReportApi, ReportFile, ReportStatus } from '../../extract/report-api.ts'
import type { ExtractRequest, ProbeContext, Source } from '../../extract/source.ts'
import { askOptional, creditsIn, dataVersionIn, jsonOf } from './json-answer.ts'
import { listReports, validate } from './discovery.ts'
import { endpoints, pathOf, reportUrl } from './service-dialect.ts'
import { readRefusal, type Refusal, refusalError } from './refusal-table.ts'
import { type RefusedAt, refusedWith, rememberOffered } from './refused-request.ts'

const submission = z.looseObject({ status: z.string().nullish().catch(null) })

const digits = z.string().regex(/^\d+(\.\d+)?$/)
const lines = z.array(z.unknown()).transform((list) => list.map(String).join('; '))
// A count beyond these agrees with no report, so the report is held; the message shows the service's own digits.
const count = z
  .union([z.number(), digits])
  .transform((said) => ({
    dataPoints: Math.max(-1, Math.min(Math.ceil(Number(said)), Number.MAX_SAFE_INTEGER)),
    ...(Number(said) > Number.MAX_SAFE_INTEGER ? { dataPointsSaid: shownWord(String(said)) } : {}),
  }))
  .nullish()
  .catch(null)
const text = z.union([z.string(), lines]).nullish().catch(null)
const statusBody = z.looseObject({
  status: z.string(),
  used_quota: z.unknown().optional(),
  data_points_count: count,
  errors: text,
  error_message: text,
  message: text,
})

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

/** @param hook address to which the service sends the report's state; null: none */
const reportApi = (
  dataset: BatchDataset,
  asked: ExtractRequest,
  context: ProbeContext,
  hook: Secret | null = null,
): ReportApi => {
  const { http } = context
  const { definition, box } = asked
  const request = dataset.body(definition, box)
  const endpoint = pathOf(http, dataset.endpoint)
  const at: RefusedAt = { place: 'batch', endpoint, request: asked, context }
  return {
    endpoint,
    request,
    estimate: () => (dataset.endpoint === 'report' ? price(at, request) : Promise.resolve(null)),
    submit: async () => {
      // Only general reports are known to take the field. The shopper endpoint was not seen to take it, and may answer an unknown field with an error that does not
      // tell whether it sold a report: its reports are polled.
      const answer = await sendSubmission(http, dataset, request, dataset.endpoint === 'report' ? hook : null)
      if (answer.status >= 300) throw await refusedReport(at, readRefusal(answer))
      rememberOffered(at)
      const body = jsonOf(answer, endpoint)
      const reportId = reportIdIn(body)
      if (reportId === null) throw withoutId(answer.bytes, endpoint)
      return { reportId, word: wordOf(body) }
    },
    status: (reportId) => readStatus(http, reportId, box),
    listed: (sinceMs) => listReports(context, sinceMs),
    rejection: ({ detail }) => lateRefusal(at, detail ?? ''),
    retry: (reportId) => freeRetry(http, reportId),
  }
}

/** A service that refuses an unknown field of a submission names it. */
const aboutHook = /webhook/i

/** Submits with the address for messages where there is one, and again without it where the service refuses it: a refusal bought nothing. */
const sendSubmission = async (
  http: HttpClient,
  { endpoint: name }: Pick<BatchDataset, 'endpoint'>,
  body: unknown,
  hook: Secret | null,
): Promise<HttpAnswer> => {
  const endpoint = pathOf(http, name)
  const answer = await http.read({
    ...{ method: 'POST', endpoint, url: http.url(name, endpoint), body, idempotent: false },
    // A 429 means that too many reports of the account are unfinished (53); the service says neither so nor how long that lasts (71).
    isAboutOpenWork: true,
    ...(hook === null ? {} : { unrecorded: { body: { webhook_url: hook } } }),
  })
  const isRefused = hook !== null && (answer.status === 400 || answer.status === 422) && aboutHook.test(readRefusal(answer).text)
  return isRefused ? sendSubmission(http, { endpoint: name }, body, null) : answer
}

/** A word for the ledger and the page: cut, and redacted, since a broken service may repeat a secret. */
const shownWord = (word: string): string => redact(word).slice(0, longestWord)

const wordOf = (body: unknown): string | null => {
  const word = submission.safeParse(body).data?.status
  return word == null ? null : shownWord(word)
}

/** The report may have been paid for, so the message shows the answer: people may know what it means. */
const withoutId = (bytes: Buffer, endpoint: string): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `${endpoint} took the request and answered without report_id (or id): ${redact(bytes.toString('utf8', 0, longestDetail)).replaceAll(/\s+/g, ' ')}. If it names the report, \`millrace reports adopt JOB ID\` takes it in`,
  )

const refusedReport = async (at: RefusedAt, refusal: Refusal, said?: string): Promise<EtlError> =>
  (await refusedWith(at, refusal, said)) ??
  new EtlError('INTERNAL', `${at.request.box.key}: a report cannot be answered with "no data" before it is made.`)

/** Dates and values may be refused after the submission was taken (69). */
const lateRefusal = async (at: RefusedAt, text: string): Promise<EtlError> => {
  const error = await refusedReport(at, { status: 400, code: null, text }, `the service rejects the report: "${text}".`)
  const { definition, box } = at.request
  const isOneWindow = windowsBetween(box.window.from, box.window.to, definition.window.every).length === 1
  const isCut = error.follows?.next === 'split' && error.follows.by !== undefined
  // A job has one report, and this one had it.
  return error.code === 'NOT_PUBLISHED' && isOneWindow && !isCut
    ? error.with(error.message, { follows: { next: 'ask again' } })
    : error
}

/** A price the service states for free. A request it would reject is not submitted. */
const price = async (at: RefusedAt, request: unknown): Promise<number | null> => {
  const said = await validate(at.context.http, request)
  if (said === null || said.refusal === null) return said?.credits ?? null
  const { text } = said.refusal
  throw await refusedReport(at, said.refusal, `the service would reject the report: "${text}". Nothing was submitted.`)
}

const readStatus = async (http: HttpClient, reportId: string, box: Box): Promise<ReportStatus | null> => {
  const endpoint = pathOf(http, 'status')
  const url = reportUrl(http, 'status', endpoint, reportId)
  const answer = await http.read({ method: 'GET', endpoint, url, idempotent: true })
  if (answer.status === 404) return null
  if (answer.status >= 300) {
    const error = refusalError(readRefusal(answer), endpoint, box.key)
    const next = `The next run asks again and buys nothing. If the service no longer has report ${reportId}: \`millrace reports give-up JOB --sure\`; \`millrace reports list\` names the job.`
    throw error.code === 'BAD_REQUEST' ? error.with(`${error.message} ${next}`) : error
  }
  const parsed = statusBody.safeParse(jsonOf(answer, endpoint))
  if (!parsed.success) {
    throw new EtlError(
      'BAD_RESPONSE',
      `${box.key}: ${endpoint} answered without a status word (${parsed.error.issues[0]?.message ?? ''}).`,
    )
  }
  const { status, used_quota, data_points_count, errors, error_message, message } = parsed.data
  const detail = redact(errors || error_message || message || '').slice(0, longestDetail)
  const files = linkFields.map((name) => filesIn(parsed.data[name])).find(({ length }) => length > 0) ?? []
  return {
    word: shownWord(status),
    downloadUrl: files[0]?.url ?? null,
    ...(files.length > 1 ? { files } : {}),
    usedQuota: creditsIn(used_quota),
    ...(data_points_count ?? { dataPoints: null }),
    dataVersion: dataVersionIn(parsed.data),
    lastUpdated: shownWord(String(parsed.data['last_updated'] ?? '')),
    detail: detail || null,
  }
}

/** The interface has one link (4.4). A report of several files was not seen, so every plain way to list them is read. */
const linkFields = ['download_url', 'download_urls', 'files']
const urlFields = ['download_url', 'url', 'link']
const fileNames = ['vtable', 'table', 'name', 'file_name']

/** Files in a text, a list, an object that names files, or an object that describes one. */
const filesIn = (value: unknown, name?: string): readonly ReportFile[] => {
  if (typeof value === 'string') return value === '' ? [] : [{ name: shownWord(name ?? fileNameIn(value)), url: value }]
  if (Array.isArray(value)) return value.flatMap((one) => filesIn(one, name))
  if (!isRecord(value)) return []
  const field = urlFields.find((one) => typeof value[one] === 'string')
  if (field === undefined) return Object.entries(value).flatMap(([own, one]) => filesIn(one, own))
  return filesIn(value[field], fileNames.map((one) => value[one]).find((one) => typeof one === 'string') ?? name)
}

/** `https://host/reports/website.csv.gz?sign=1` is `website`. */
const fileNameIn = (url: string): string => (/([^/?#]*?)(\.(csv|json|ndjson|jsonl|gz))*([?#].*)?$/i.exec(url) ?? [])[1] ?? ''

/** The service counts retries and allows three, so none is sent twice. */
const freeRetry = async (http: HttpClient, reportId: string): Promise<boolean> => {
  const url = reportUrl(http, 'retry', endpoints.retry, reportId)
  const answer = await askOptional(http, 'retry', { method: 'POST', url, idempotent: false })
  return answer !== null && answer.status < 300
}

/** From intent to the report's bytes; throws REPORT_PENDING while the service is at it. */
export const extractReport = (dataset: BatchDataset): Source['extract'] =>
  async function* (request, context) {
    const { definition, box } = request
    const finished = await runReport(reportApi(dataset, request, context, context.reportHook), context, {
      unitKey: box.key,
      limits: definition.limits,
      policy: definition.report,
      resubmitUncertain: context.resubmitUncertain,
    })
    const format = definition.params['response_format'] === 'json' ? 'json' : 'csv'
    const { dataPoints, dataPointsSaid, usedQuota, dataVersion, names: of } = finished
    for (const [index, name] of of.entries()) {
      const { body } = index === 0 ? finished.stream : await finished.open(index)
      yield { format, part: index + 1, body, mayBeEmpty: dataPoints === 0, ...(of.length > 1 ? { file: { name, of } } : {}) }
    }
    const told = { dataPoints, dataPointsSaid, usedQuota }
    return { fingerprint: { lastUpdated: null, count: null, dataVersion }, expectedRows: null, ...told }
  }

/** Credits by the service's own validation, which costs nothing; null where it has none. */
export const estimateReport =
  (dataset: BatchDataset): Source['estimate'] =>
  async (request, context) => ({ requests: null, rows: null, quota: await reportApi(dataset, request, context).estimate() })

/** Best first. */
const names = ['report_id', 'reportId', 'id', 'request_id', 'requestId', 'job_id', 'jobId']

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === 'object' && value !== null

const idAt = (value: unknown): string | null => {
  if (!isRecord(value)) return null
  for (const name of names) {
    const id = value[name]
    if ((typeof id === 'string' && id !== '') || (typeof id === 'number' && Number.isFinite(id))) return String(id)
  }
  return null
}

/** The id at the top of the body, else one level below, if exactly one is there. */
export const reportIdIn = (body: unknown): string | null => {
  const own = idAt(body)
  if (own !== null || !isRecord(body)) return own
  const below = new Set(Object.values(body).flatMap((value) => idAt(value) ?? []))
  const [only] = below
  return below.size === 1 && only !== undefined ? only : null
}
