// Records for tests of a client: requests, messages, and keys sent to the wrong place.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Endpoint } from './fault-kinds.ts'
import type { Settings } from './sandbox-options.ts'

export type KeyFlag = 'right' | 'wrong' | 'none'

export interface Incoming {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly url: URL
  /** NAME where the address began with /as/NAME: tells several clients of one sandbox apart. */
  readonly caller: string | null
}

type RequestRecord = ReturnType<typeof recordOf>

/** @param route null: no endpoint has this path @param isOurs whether the service listens at this address, also for paths that it does not have */
export const recordOf = (
  { apiKey, batchApiKey }: Settings,
  { request, url, caller }: Incoming,
  route: { readonly endpoint: Endpoint; readonly key: 'query' | 'header' | 'none' } | null,
  isOurs: boolean,
) => {
  const keys = [apiKey, batchApiKey ?? apiKey]
  const hide = (text: string): string => keys.reduce((shown, key) => shown.replaceAll(key, '[key]'), text)
  const place = route?.key ?? 'none'
  const header = request.headers['api-key']
  const given = place === 'query' ? url.searchParams.get('api_key') : place === 'header' ? (header ?? null) : null
  const wanted = place === 'query' ? apiKey : keys[1]
  const key: KeyFlag = given === null ? 'none' : given === wanted ? 'right' : 'wrong'
  const query = [...url.searchParams].map(([name, value]) => [name, name === 'api_key' ? '[key]' : hide(value)])
  const otherHeaders = Object.entries(request.headers).filter(([name]) => name !== 'api-key' || place !== 'header')
  const otherQuery = [...url.searchParams].filter(([name]) => name !== 'api_key' || place !== 'query')
  const elsewhere = [url.pathname, ...otherHeaders.flat(2).map(String), ...otherQuery.flat()].join('\n')
  return {
    method: request.method ?? '',
    path: hide(url.pathname),
    /** Names and values; the key's value is left out. */
    query: Object.fromEntries(query) as Readonly<Record<string, string>>,
    endpoint: route?.endpoint ?? null,
    /** The key where the endpoint wants it. */
    key,
    /** The key was somewhere it does not belong: a download, the query of a batch endpoint, the header of the keyword endpoint. */
    keyAstray: (route !== null || !isOurs) && keys.some((text) => elsewhere.includes(text)),
    at: new Date().toISOString(),
    caller,
    /** HTTP status sent, or null where the connection was dropped or never answered. */
    status: null as number | null,
    /** Name of the fault that acted, if one did. */
    fault: null as string | null,
  }
}

export interface SentMessage {
  readonly event: 'Monthly' | 'Daily' | 'report' | 'test'
  readonly body: unknown
  readonly at: string
  /** HTTP status of the receiver; null: no answer within five seconds. */
  readonly status: number | null
}

const keptRequests = 100_000

export const createBookkeeper = () => {
  let requests: RequestRecord[] = []
  let counts: Record<string, number> = {}
  let keysAstray = 0
  return {
    request: (record: RequestRecord): void => {
      requests.push(record)
      if (requests.length > 2 * keptRequests) requests = requests.slice(-keptRequests)
      const name = record.endpoint ?? 'unknown'
      counts[name] = (counts[name] ?? 0) + 1
      if (record.keyAstray) keysAstray += 1
    },
    /** The newest 100,000 requests; `counts` by endpoint, of all time; `keysAstray`: requests that carried the key to where it does not belong. */
    read: () => ({
      requests: requests.slice(-keptRequests),
      counts: { ...counts } as Readonly<Record<string, number>>,
      keysAstray,
    }),
    clear: (): void => {
      requests = []
      counts = {}
      keysAstray = 0
    },
  }
}
