// What happened, for those who want to prove something about a client: submissions, requests, and keys that went astray.
import type { Endpoint } from './fault-kinds.ts'
import type { TableQuery } from './report-query.ts'

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

export interface Submission {
  readonly id: string
  readonly kind: 'report' | 'shopper'
  readonly body: unknown
  /** What was sold, whatever the form of the body: of each table its domains x places (countries or categories) x dates. */
  readonly asked: readonly TableQuery[]
  readonly caller: string | null
  readonly at: string
  readonly key: KeyFlag
  readonly estimatedQuota: number
  /** What it cost: null before it was charged, 0 after a refund. */
  chargedQuota: number | null
  /** The word the next status would say, as of now. */
  status: string
  statusRequests: number
  /** Downloads that were sent whole. */
  downloads: number
  /** Free retries asked for. */
  retries: number
}

/** A message that was sent by itself. */
export interface SentMessage {
  readonly event: 'Monthly' | 'Daily' | 'report' | 'test'
  readonly body: unknown
  readonly at: string
  /** What the receiver answered; null: nothing within five seconds. */
  readonly status: number | null
}

export interface Books {
  /** Messages to webhooks, oldest first. */
  readonly messages: readonly SentMessage[]
  readonly submissions: readonly Submission[]
  /** The newest 100,000. */
  readonly requests: readonly RequestRecord[]
  /** Requests by endpoint, of all time. */
  readonly counts: Readonly<Record<string, number>>
  /** Requests that carried the key to where it does not belong. */
  readonly keysAstray: number
  /** Credits spent, refunds taken off. */
  readonly quotaUsed: number
  readonly quotaRemaining: number | null
  /** How often each declared fault has acted, in the order of the list. */
  readonly faultsActed: readonly number[]
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
    read: () => ({ requests: requests.slice(-keptRequests), counts: { ...counts }, keysAstray }),
    clear: (): void => {
      requests = []
      counts = {}
      keysAstray = 0
    },
  }
}
