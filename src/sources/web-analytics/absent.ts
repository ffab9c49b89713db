// Extension endpoints a service does not have are asked for once per process and then left alone.
import type { HttpAnswer, HttpClient } from '../../extract/http-types.ts'
import { dialectOf } from './service-dialect.ts'
import type { EndpointName } from './endpoints.ts'

const absent = new Set<string>()

const missing = new Set([404, 405, 410, 501])

/** Their 404 may speak of the id in the path: they are asked each time. */
const aboutAnId = new Set<EndpointName>(['retry'])

/** The answer of an optional endpoint, or null where the service does not have it. */
export const askOptional = async (
  http: HttpClient,
  name: EndpointName,
  ask: () => Promise<HttpAnswer>,
): Promise<HttpAnswer | null> => {
  const path = dialectOf(http).paths[name]
  const key = `${http.origin} ${path}`
  if (path === null || absent.has(key)) return null
  const answer = await ask()
  // HTML with status 200 is a web server's own page, not an endpoint.
  if (!missing.has(answer.status) && !(answer.status === 200 && /html/i.test(answer.contentType))) return answer
  if (!aboutAnId.has(name)) absent.add(key)
  return null
}
