// One page of keywords (interface 2.2, 4.1): asked for, checked against what was asked, or its refusal read.
import { z } from 'zod'
import { EtlError } from '../../core/errors.ts'
import type { SourceOrder } from '../../core/completeness.ts'
import type { Box, JsonRecords } from '../../core/types.ts'
import { addWindows, isPublished, showWindow } from '../../core/window.ts'
import type { HttpAnswer, HttpClient } from '../../extract/http-types.ts'
import type { Page } from '../../extract/page.ts'
import { fieldReader } from '../../json/page.ts'
import type { ExtractRequest, LookContext } from '../../extract/source.ts'
import { pageOf } from './answer.ts'
import { forRest, internalCountry } from './spelling.ts'
import { capabilities } from './discovery.ts'
import { endpoints } from './endpoints.ts'
import { adviceOf, isNoData, isUnclear401, readRefusal, refusalError } from './errors.ts'
import { addressSetting } from './settings.ts'

const endpoint = endpoints.keywords

/** Where a page holds its records (interface 2.2). */
export const list = 'keywords'

/** An answered request costs one; refusals, and a domain without data, cost nothing (api-facts 8, 11). */
export const creditsAPage = 1

const text = z.string().nullish()

/** The page without its records. */
const envelope = z.looseObject({
  keywords_count: z
    .union([
      z.number().int().nonnegative(),
      z
        .string()
        .regex(/^\d{1,15}$/)
        .transform(Number),
    ])
    .nullish(),
  meta: z
    .looseObject({
      query: z
        .looseObject({ offset: z.unknown().optional(), sort: z.unknown().optional(), asc: z.unknown().optional() })
        .nullish(),
      request: z
        .looseObject({
          domain: text,
          country: text,
          start_date: text,
          end_date: text,
          traffic_source: text,
          web_source: text,
          branded_type: text,
        })
        .nullish(),
      last_updated: text,
      status: text,
      error_code: z.unknown().optional(),
    })
    .nullish(),
})

const filters = ['traffic_source', 'web_source', 'branded_type'] as const

/** Of the unit where the definition runs for it, else the definition's own. */
const filterValues = ({ definition, box }: ExtractRequest): readonly [string, string][] =>
  filters.flatMap((name) => {
    const value = box.slice[name] ?? definition.params[name]
    return value === undefined ? [] : [[name, String(value)]]
  })

const single = (box: Box, name: string): string => {
  const value = box.slice[name]
  if (typeof value !== 'string') throw new EtlError('INTERNAL', `${box.key}: ${name} is not one value.`)
  return value
}

const address = (http: HttpClient, request: ExtractRequest, offset: number, limit: number): URL => {
  const { box } = request
  const url = http.url('keywords', endpoint)
  const month = box.window.from.slice(0, 7)
  // Set apart from the address, which each change would take apart and put together again.
  const query = new URLSearchParams(url.search)
  const asked: Record<string, string> = {
    URL: single(box, 'domain'),
    country: forRest(single(box, 'country')),
    start_date: month,
    end_date: month,
    limit: String(limit),
    offset: String(offset),
  }
  for (const [name, value] of filterValues(request)) asked[name] = value
  for (const [name, value] of Object.entries(asked)) query.set(name, value)
  url.search = query.toString()
  return url
}

interface KeywordPage extends Page {
  readonly said: SourceOrder | null
}

/** null: the service has no data for the domain and month. */
export const fetchPage = async (
  request: ExtractRequest,
  context: LookContext,
  offset: number,
  limit: number,
  part: number,
  arrived?: () => Promise<void>,
): Promise<KeywordPage | null> => {
  const { http } = context
  const answer = await http.read({
    method: 'GET',
    endpoint,
    url: address(http, request, offset, limit),
    idempotent: true,
    part,
    credits: creditsAPage,
  })
  await arrived?.()
  if (answer.status === 204) return null
  if (answer.status !== 200) return refused(request, context, answer)
  const { envelope: body, records } = pageOf(answer, endpoint, list)
  const page = envelope.safeParse(body)
  if (!page.success) return notAPage(request, context, answer, page.error.issues[0])
  if (records === null) return notAPage(request, context, answer, { path: [list], message: 'expected a list' })
  const { keywords_count, meta } = page.data
  if (saysError(meta?.status, meta?.error_code)) return refusedWithin200(request, context, answer)
  checkEcho(request, meta?.request ?? null)
  return {
    bytes: answer.bytes,
    records: records.count,
    total: keywords_count ?? null,
    lastUpdated: meta?.last_updated ?? null,
    offset: numeric(meta?.query?.offset),
    order: orderOf(records),
    said: saidOrder(meta?.query ?? null),
    keys: keysOf(records),
    parsed: records,
  }
}

/** A keyword may come with several landing pages (api-facts A 40): both together tell a record from every other one. */
const keysOf = (records: JsonRecords): string[] => {
  const keyword = fieldReader(records, 'keyword')
  const topUrl = fieldReader(records, 'top_url')
  return Array.from({ length: records.count }, (_, index) => {
    const name = keyword(index)
    return name === null ? `record ${index}` : `${name},${topUrl(index)}`
  })
}

/** The observed response is ordered by descending clicks (interface 2.2). */
const orderOf = (records: JsonRecords): Page['order'] => {
  const clicks = fieldReader(records, 'clicks')
  const [first, last] = [0, records.count - 1].map((index) => numeric(JSON.parse(clicks(index) ?? 'null')))
  return first == null || last == null ? null : { first, last }
}

/** Kept as it was written: its type is not shown where it is not null (interface 2.2). */
const saidOrder = (query: { readonly sort?: unknown; readonly asc?: unknown } | null): SourceOrder | null =>
  query === null || (query.sort === undefined && query.asc === undefined)
    ? null
    : { sort: query.sort ?? null, asc: query.asc ?? null }

const numeric = (value: unknown): number | null => {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value
  return typeof number === 'number' && Number.isFinite(number) ? number : null
}

const refused = async (request: ExtractRequest, context: LookContext, answer: HttpAnswer): Promise<null> => {
  const refusal = readRefusal(answer)
  if (isNoData(refusal)) return null
  if (isUnclear401(refusal) && (await keyWorks(context))) return null
  const error = refusalError(refusal, endpoint, request.box.key)
  if (error.code === 'BAD_REQUEST' && /\blimit\b/i.test(refusal.text)) throw pageTooLarge(request, error)
  if (error.code !== 'NOT_PUBLISHED') throw error
  const { window } = request.box
  const calendar = request.definition.window.publication
  // The newest month may come a little late; one whose successor is out does not.
  const next = { from: window.to, to: addWindows(window.to, 'month', 1) }
  const wellPast = isPublished(next, calendar, context.clock.now())
  if (wellPast)
    throw new EtlError(
      'NO_CAPABILITY',
      `${error.message.replace(adviceOf('NOT_PUBLISHED'), '')}Later months are published, so ${showWindow(window)} lies before what this key may ask. ${adviceOf('NO_CAPABILITY')}`,
      { cause: error },
    )
  throw new EtlError('NOT_PUBLISHED', error.message, { cause: error, notBefore: context.clock.now() + 24 * 3_600_000 })
}

const pageTooLarge = ({ definition }: ExtractRequest, cause: EtlError): EtlError =>
  new EtlError(
    'BAD_REQUEST',
    `${cause.message} limits.page_size of ${definition.pipeline} is ${definition.limits.pageSize}; lower it to what the service allows.`,
    { cause, context: cause.context },
  )

/** One free look decides what a 401 without words means; without that look it is the key. */
const keyWorks = async ({ http }: LookContext): Promise<boolean> => {
  try {
    return (await capabilities(http)) !== null
  } catch {
    return false
  }
}

/** Newer answers carry `error_code: null` when all is well. */
const saysError = (status: unknown, code: unknown): boolean =>
  (typeof status === 'string' && /^(error|fail)/i.test(status)) ||
  !(code === undefined || code === null || code === '' || Number(code) === 0)

/** Errors come with status 200 too, in the same envelope. */
const refusedWithin200 = (request: ExtractRequest, context: LookContext, answer: HttpAnswer): Promise<null> =>
  refused(request, context, { ...answer, status: aboutNoData(answer) ? 404 : 400 })

const aboutNoData = (answer: HttpAnswer): boolean => isNoData({ ...readRefusal(answer), status: 404 })

const notAPage = (
  request: ExtractRequest,
  context: LookContext,
  answer: HttpAnswer,
  issue: Pick<z.core.$ZodIssue, 'path' | 'message'> | undefined,
): Promise<null> => {
  if (readRefusal(answer).code !== null) return refusedWithin200(request, context, answer)
  throw new EtlError(
    'BAD_RESPONSE',
    `${request.box.key}: ${endpoint} answered something else than keywords: ${issue?.path.join('.') || 'the body'} ${issue?.message ?? ''}. Check ${addressSetting}; if it is right, the service has changed.`,
  )
}

/** An answer to another question must not be loaded as this one's. What is not echoed is not checked. */
const checkEcho = (request: ExtractRequest, echo: Readonly<Record<string, unknown>> | null): void => {
  if (echo === null) return
  const { box } = request
  const month = box.window.from.slice(0, 7)
  const expected: Record<string, string> = {
    domain: single(box, 'domain'),
    country: single(box, 'country'),
    start_date: month,
    end_date: month,
  }
  for (const [name, value] of filterValues(request)) expected[name] = value
  for (const [name, wanted] of Object.entries(expected)) {
    const found = echo[name]
    if (typeof found !== 'string' || sameEcho(name, found, wanted)) continue
    throw new EtlError(
      'WRONG_ECHO',
      `${box.key}: ${endpoint} answered for ${name} '${found}', asked was '${wanted}'. Nothing was loaded; the next run asks again.`,
    )
  }
}

const sameEcho = (name: string, found: string, wanted: string): boolean => {
  if (name === 'country') return internalCountry(found) === internalCountry(wanted)
  if (name === 'domain') return found.toLowerCase().replace(/^www\./, '') === wanted.toLowerCase().replace(/^www\./, '')
  if (name.endsWith('_date')) return found.startsWith(wanted)
  return found.toLowerCase().replaceAll('_', '') === wanted.toLowerCase().replaceAll('_', '')
}
