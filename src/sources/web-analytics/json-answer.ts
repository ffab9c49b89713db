// An answer of the service as JSON. An optional endpoint that the service does not have is requested once per process.
import { z } from 'zod'
import { isEtlError } from '../../core/errors.ts'
import { parseJson, parsePage, type RecordPage } from '../../extract/http-answer.ts'
import type { HttpAnswer, HttpClient, HttpRequest } from '../../extract/http-types.ts'
import { addressSetting } from './settings.ts'
import { dialectOf, type EndpointName } from './service-dialect.ts'

/** Throws BAD_RESPONSE naming the endpoint and what came instead. */
export const jsonOf = (answer: HttpAnswer, endpoint: string): unknown => parseJson(answer, endpoint, addressSetting)

/**
 * The same for a page with its records in `list`; null: it is whole and no JSON, and may have been paid for. Throws for the page of a proxy, and, with a
 * fault, for half a page or nothing.
 */
export const pageOf = (answer: HttpAnswer, endpoint: string, list: string): RecordPage | null => {
  try {
    return parsePage(answer, endpoint, addressSetting, list)
  } catch (error) {
    const begin = answer.bytes.toString('utf8', 0, 100).trim()
    if (!isEtlError(error) || begin.startsWith('<')) throw error
    if (begin !== '' && error.code === 'BAD_RESPONSE') return null
    throw error.with(error.message, { fault: begin === '' ? 'nothing came' : 'half a page came' })
  }
}

const version = z.union([z.string(), z.number()]).transform(String).pipe(z.string().trim().min(1).max(100)).nullish().catch(null)
/** No fact names a field for it: these names cannot mean the version of the API. */
const versions = z.object({
  data_version: version,
  method_version: version,
  methodology_version: version,
  algorithm_version: version,
})

/** The version of the data or of their method, in `meta` or beside it; null: none is named. */
export const dataVersionIn = (body: Readonly<Record<string, unknown>>): string | null =>
  [body['meta'], body].flatMap((part) => Object.values(versions.safeParse(part).data ?? {})).find((one) => one != null) ?? null

/** A number, also written as text; null: it is none, or beyond what a column or a sum of them holds. */
export const numberOrNull = (value: unknown): number | null => {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof number === 'number' && Math.abs(number) <= Number.MAX_SAFE_INTEGER ? number : null
}

/** Credits as the service writes them; null: none are named; NaN: it is no number, which tells nothing. */
export const creditsIn = (value: unknown): number | null =>
  value === undefined || value === null ? null : (numberOrNull(value) ?? Number.NaN)

const absent = new Set<string>()

const missing = new Set([404, 405, 410, 501])

type Asked = Partial<Pick<HttpRequest, 'method' | 'url' | 'body' | 'unrecorded' | 'idempotent'>>

/** A 404 may speak of the id in the path, or of a page behind the first: these are asked each time. */
const isAboutOne = (name: EndpointName, { url }: Asked): boolean =>
  name === 'retry' || Number(url?.searchParams.get('offset')) > 0

/** The answer of an optional endpoint, or null where the service does not have it. Default: a GET of its own address. */
export const askOptional = async (http: HttpClient, name: EndpointName, asked: Asked = {}): Promise<HttpAnswer | null> => {
  const endpoint = dialectOf(http).paths[name]
  const key = `${http.origin} ${endpoint}`
  if (endpoint === null || absent.has(key)) return null
  const method = asked.body === undefined ? 'GET' : 'POST'
  const answer = await http.read({ method, endpoint, url: http.url(name, endpoint), idempotent: true, optional: true, ...asked })
  // HTML with status 200 is a web server's own page, not an endpoint.
  if (!missing.has(answer.status) && !(answer.status === 200 && /html/i.test(answer.contentType))) return answer
  if (!isAboutOne(name, asked)) absent.add(key)
  return null
}
