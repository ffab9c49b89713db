// Extension endpoints a service does not have are asked for once per process and then left alone.
import type { HttpAnswer, HttpClient, HttpRequest } from '../../extract/http-types.ts'
import { dialectOf } from './service-dialect.ts'
import type { EndpointName } from './endpoints.ts'

const absent = new Set<string>()

const missing = new Set([404, 405, 410, 501])

/** Their 404 may speak of the id in the path: they are asked each time. */
const aboutAnId = new Set<EndpointName>(['retry'])

type Asked = Partial<Pick<HttpRequest, 'method' | 'url' | 'body' | 'unrecorded' | 'idempotent'>>

/** The answer of an optional endpoint, or null where the service does not have it. Default: a GET of its own address. */
export const askOptional = async (http: HttpClient, name: EndpointName, asked: Asked = {}): Promise<HttpAnswer | null> => {
  const endpoint = dialectOf(http).paths[name]
  const key = `${http.origin} ${endpoint}`
  if (endpoint === null || absent.has(key)) return null
  const method = asked.body === undefined ? 'GET' : 'POST'
  const answer = await http.read({ method, endpoint, url: http.url(name, endpoint), idempotent: true, optional: true, ...asked })
  // HTML with status 200 is a web server's own page, not an endpoint.
  if (!missing.has(answer.status) && !(answer.status === 200 && /html/i.test(answer.contentType))) return answer
  if (!aboutAnId.has(name)) absent.add(key)
  return null
}
