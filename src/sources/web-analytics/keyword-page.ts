// One page of keywords (interface 2.2, 4.1): requests it and compares it with the request, or reads its refusal.
import { z } from 'zod'
import { counted } from '../../core/counted.ts'
import { EtlError } from '../../core/errors.ts'
import type { SourceOrder } from '../../core/completeness.ts'
import type { NamedPrice } from '../../core/learned-price.ts'
import type { Box } from '../../core/types.ts'
import type { HttpAnswer, HttpClient } from '../../extract/http-types.ts'
import { isRecord } from '../../core/json.ts'
import { excerpt } from '../../extract/http-answer.ts'
import type { Page, WalkOptions } from '../../extract/paged.ts'
import { inProvedShape, untilSameFault } from '../../extract/proved-shape.ts'
import type { ExtractRequest, ProbeContext } from '../../extract/source.ts'
import { creditsIn, dataVersionIn, numberOrNull, pageOf } from './json-answer.ts'
import { dialectOf, dialectV5, pathOf } from './service-dialect.ts'
import { internalCountry, internalDomain } from './spelling.ts'
import { type Meaning, meaningOf, readRefusal, refusalText } from './refusal-table.ts'
import { type RefusedAt, refusedWith } from './refused-request.ts'
import { addressSetting } from './settings.ts'

/** Prices that others paid (api-facts 43 to 45); refusals, and a domain without data, cost nothing (8, 11). */
export const seenPrices: readonly NamedPrice[] = [
  { basis: 'row asked', credits: 0.08 },
  { basis: 'row', credits: 2.5 },
  { basis: 'request', credits: 10 },
]

const text = z.string().nullish()
const dates = { start_date: text, end_date: text }
const filterTexts = { traffic_source: text, web_source: text, branded_type: text }
const echoed = z.looseObject({ domain: text, country: text, ...dates, ...filterTexts }).nullish()
const asked = z.looseObject({}).nullish()
const digits = z.string().regex(/^\d{1,15}$/)

/** The page without its records. */
const envelope = z.looseObject({
  keywords_count: z.union([z.number().int().nonnegative(), digits.transform(Number)]).nullish(),
  meta: z.looseObject({ query: asked, request: echoed, last_updated: text, status: text }).nullish(),
})

const dayMs = 24 * 3_600_000

const filters = ['traffic_source', 'web_source', 'branded_type'] as const

/** The unit's value where the definition runs for the filter, else the definition's own. */
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
  const { parameters, country, filter } = dialectOf(http).keywords
  const url = http.url('keywords', pathOf(http, 'keywords'))
  const month = box.window.from.slice(0, 7)
  // Built apart: each change through the address would parse and write it again.
  const query = new URLSearchParams(url.search)
  const asked: Record<string, string> = {
    [parameters.domain]: single(box, 'domain'),
    [parameters.country]: country(single(box, 'country')),
    [parameters.from]: month,
    [parameters.to]: month,
    [parameters.limit]: String(limit),
    [parameters.offset]: String(offset),
  }
  for (const [name, value] of filterValues(request)) asked[name] = filter(value)
  for (const [name, value] of Object.entries(asked)) query.set(name, value)
  url.search = query.toString()
  return url
}

interface KeywordPage extends Page {
  readonly said: SourceOrder | null
}

const pagings = new Map<string, { isProved: boolean }>()

/** Of V5 it is not known whether an offset counts records or pages (api-facts 35). */
export const pagingOf = ({ definition }: ExtractRequest, { http }: ProbeContext): Pick<WalkOptions, 'paging'> => {
  if (dialectOf(http) !== dialectV5) return {}
  const key = keyOf(definition, http)
  const paging = pagings.get(key) ?? { isProved: false }
  pagings.set(key, paging)
  return { paging }
}

const keyOf = ({ account }: ExtractRequest['definition'], http: HttpClient): string =>
  [http.origin, account, pathOf(http, 'keywords')].join(' ')

/** null: the service has no data for the domain and month. The first page of a unit proves the shape of the others. */
export const fetchPage: typeof askForPage = (request, context, offset, limit, part, arrived) => {
  const ask = (letOthers?: () => Promise<void>): ReturnType<typeof askForPage> =>
    untilSameFault(() => askForPage(request, context, offset, limit, part, arrived, letOthers))
  const { definition, box } = request
  const key = keyOf(definition, context.http)
  return offset > 0 ? ask() : inProvedShape(key, { ...context, forcedBy: context.forcedBy ?? null, unit: box.key }, ask)
}

const askForPage = async (
  request: ExtractRequest,
  context: ProbeContext,
  offset: number,
  limit: number,
  part: number,
  arrived?: () => Promise<void>,
  letOthers?: () => Promise<void>,
): Promise<KeywordPage | null> => {
  const at: RefusedAt = { place: 'rest', endpoint: pathOf(context.http, 'keywords'), request, context }
  const answer = await context.http.read({
    method: 'GET',
    endpoint: at.endpoint,
    url: address(context.http, request, offset, limit),
    idempotent: true,
    part,
    ...(letOthers === undefined ? {} : { letOthers }),
    paidFor: { rowsAsked: limit, rows: null, metrics: 1, values: 1 },
  })
  try {
    await arrived?.()
    return await readPage(at, answer)
  } finally {
    // Only the first call counts: this one, where the answer was not read.
    await answer.billed?.(null, null)
  }
}

const readPage = async (at: RefusedAt, answer: HttpAnswer): Promise<KeywordPage | null> => {
  const { request, context, endpoint } = at
  const { list, fields } = dialectOf(context.http).keywords
  if (answer.status === 204) {
    await answer.billed?.(0, null)
    return null
  }
  // A proxy on the way may turn a 200 into a 203: it is the same page.
  if (answer.status >= 300) return refused(at, answer)
  const read = pageOf(answer, endpoint, list)
  if (read === null) return notAPage(at, answer, null, { path: [], message: 'is not JSON' })
  const { envelope: body, records } = read
  const page = envelope.safeParse(body)
  if (!page.success) return notAPage(at, answer, body, page.error.issues[0])
  const { keywords_count, meta } = page.data
  if (saysError(meta?.status, meta?.['error_code']) || ((records ?? []).length === 0 && saysLacking(answer)))
    return refusedWithin200(at, answer, meta, records?.length)
  // Some answers show an empty list as a count of 0 without a list.
  const isNone = keywords_count === 0 && fieldOf(body, list) === null
  if (records === null && !isNone) return notAPage(at, answer, body, { path: [list], message: 'expected a list' })
  const count = records?.length ?? 0
  const bill = billOf(meta)
  await answer.billed?.(count, bill)
  const isFree = bill === 0 || count === 0
  checkEcho(request, endpoint, meta?.request ?? null, { bill, unpublishedUntil: isFree ? context.clock.now() + dayMs : null })
  if (records === null) return null
  return {
    bytes: answer.bytes,
    records: count,
    total: keywords_count ?? null,
    lastUpdated: meta?.last_updated ?? null,
    dataVersion: dataVersionIn(page.data),
    limit: numberOrNull(meta?.query?.['limit']),
    offset: numberOrNull(meta?.query?.['offset']),
    said: saidOrder(meta?.query ?? null),
    keys: keysOf(records, fields.top_url),
  }
}

/** Under the one name or the other (46); under neither: unknown. */
const billOf = (meta: unknown): number | null =>
  creditsIn(fieldOf(meta, 'data_credits_charged')) ?? creditsIn(fieldOf(meta, 'sw_coins'))

const fieldOf = (record: unknown, name: string): unknown => (isRecord(record) ? record[name] : undefined)

/**
 * A keyword may come with several landing pages (api-facts A 40): both together identify a record. Where either is missing, as after a
 * rename, the whole record does.
 */
const keysOf = (records: readonly unknown[], topUrlField: string): string[] =>
  records.map((record) => {
    const key = [fieldOf(record, 'keyword'), fieldOf(record, topUrlField)]
    return JSON.stringify(key.every((part) => part !== undefined && part !== null) ? key : record)
  })

/** Kept as it was written: the interface (2.2) shows it as null only, so its type is not known. */
const saidOrder = (query: Readonly<Record<string, unknown>> | null): SourceOrder | null => {
  const { sort, asc } = query ?? {}
  return sort === undefined && asc === undefined ? null : { sort: sort ?? null, asc: asc ?? null }
}

/** null: the service has no data. @param status what the answer means; messages show the status that came */
const refused = async (at: RefusedAt, answer: HttpAnswer, status = answer.status): Promise<null> => {
  const refusal = readRefusal({ ...answer, status })
  const error = await refusedWith(at, refusal, refusalText(at.endpoint, { ...refusal, status: answer.status }))
  if (error === null) return null
  throw error.code === 'BAD_REQUEST' && /\blimit\b/i.test(refusal.text) ? pageTooLarge(at.request, error) : error
}

const pageTooLarge = ({ definition }: ExtractRequest, cause: EtlError): EtlError =>
  new EtlError(
    'BAD_REQUEST',
    `${cause.message} limits.page_size of ${definition.pipeline} is ${definition.limits.pageSize}; lower it to what the service allows.`,
    { cause, context: cause.context },
  )

/** Newer answers carry `error_code: null` when all is well. */
const saysError = (status: unknown, code: unknown): boolean =>
  (typeof status === 'string' && /^(error|fail)/i.test(status)) ||
  !(code === undefined || code === null || code === '' || Number(code) === 0)

const trouble = /\binternal (server )?error\b|\bunavailable\b|\btry again\b|\btime(d )?out\b/i

/** An error may come with status 200, in the same envelope. Without rows or a bill it is as free as any refusal; a trouble of the service itself is retried. */
const refusedWithin200 = async (at: RefusedAt, answer: HttpAnswer, meta: unknown, rows = 0): Promise<null> => {
  const bill = billOf(meta)
  await answer.billed?.(rows, bill)
  const said = { ...readRefusal(answer), status: 400 }
  const passes = rows === 0 && !bill && trouble.test(said.text) && meaningOf(said, 'rest') === 'bad request'
  return refused(at, answer, aboutNoData(answer) ? 404 : passes ? 500 : 400)
}

const saidWith404 = (answer: HttpAnswer): Meaning => meaningOf({ ...readRefusal(answer), status: 404 }, 'rest')

const aboutNoData = (answer: HttpAnswer): boolean => saidWith404(answer) === 'no data'

/** A success without rows says in its meta that the plan does not have the country (65): that is no answer about the domain. */
const saysLacking = (answer: HttpAnswer): boolean => saidWith404(answer) === 'plan lacks'

const notAPage = async (
  at: RefusedAt,
  answer: HttpAnswer,
  body: unknown,
  issue: Pick<z.core.$ZodIssue, 'path' | 'message'> | undefined,
): Promise<null> => {
  const meta = fieldOf(body, 'meta')
  if (readRefusal(answer).code !== null) return refusedWithin200(at, answer, meta)
  const bill = billOf(meta)
  await answer.billed?.(null, bill)
  const fault = `${issue?.path.join('.') || 'the body'} ${issue?.message ?? ''}`
  throw new EtlError(
    'UNUSABLE',
    `${at.request.box.key}: ${at.endpoint} did not answer with keywords: ${fault}: "${excerpt(answer.bytes)}". ${costOf(bill)} and is not requested again automatically. Check ${addressSetting}; if it is right, the service has changed. Then: \`millrace backfill … --force\`.`,
    { fault },
  )
}

const costOf = (bill: number | null): string =>
  bill === null ? 'It may have been paid for' : `It cost ${counted(bill, 'credit')}`

/** An answer to another request must not be loaded as this one's, nor paid for each night. A parameter that is not echoed is not checked. */
const checkEcho = (
  request: ExtractRequest,
  endpoint: string,
  echo: Readonly<Record<string, unknown>> | null,
  { bill, unpublishedUntil }: { readonly bill: number | null; readonly unpublishedUntil: number | null },
): void => {
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
    // The service cuts a request at its newest month (75): where that cost nothing, the month is requested again later.
    if (unpublishedUntil !== null && name.endsWith('_date') && found.slice(0, 7) < wanted)
      throw new EtlError(
        'NOT_PUBLISHED',
        `${box.key}: ${endpoint} answered up to ${found}: the month is not published yet; the next run asks again.`,
        { notBefore: unpublishedUntil },
      )
    throw new EtlError(
      'UNUSABLE',
      `${box.key}: ${endpoint} answered for ${name} '${found}', requested was '${wanted}'. Nothing was loaded. ${costOf(bill)} and is not requested again automatically. Ask the service; then: \`millrace backfill … --force\`.`,
      { fault: `answered for another ${name}` },
    )
  }
}

const sameEcho = (name: string, found: string, wanted: string): boolean => {
  if (name === 'country') return internalCountry(found) === internalCountry(wanted)
  if (name === 'domain') return internalDomain(found) === internalDomain(wanted)
  if (name.endsWith('_date')) return found.startsWith(wanted)
  return found.toLowerCase().replaceAll('_', '') === wanted.toLowerCase().replaceAll('_', '')
}
