// What happened, for those who want to prove something about a client: requests, messages, and keys that went astray.
import type { Endpoint } from './fault-kinds.ts'

export type KeyFlag = 'right' | 'wrong' | 'none'

export interface RequestRecord {
  readonly method: string
  readonly path: string
  /** Names and values of the query; the key's value is left out. */
  readonly query: Readonly<Record<string, string>>
  readonly endpoint: Endpoint | null
  /** NAME where the address began with /as/NAME: tells several clients of one sandbox apart. */
  readonly caller: string | null
  /** The key where the endpoint wants it. */
  readonly key: KeyFlag
  /** The key was somewhere it does not belong: a download, the query of a batch endpoint, the header of the keyword endpoint. */
  readonly keyAstray: boolean
  /** ISO time. */
  readonly at: string
  /** HTTP status sent, or null where the connection was dropped or never answered. */
  status: number | null
  /** Name of the fault that acted, if one did. */
  fault: string | null
}

export interface SentMessage {
  readonly event: 'Monthly' | 'Daily' | 'report' | 'test'
  readonly body: unknown
  readonly at: string
  /** What the receiver answered; null: nothing within five seconds. */
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
