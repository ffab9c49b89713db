// What the files of the HTTP client share: requests, answers, and how a client is bound to an account and a job.
import type { PurchaseSize } from '../core/learned-price.ts'
import type { SentRequest } from '../core/sent-request.ts'
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { Secret } from '../core/redact.ts'
import type { Breaker, Patience, Trouble } from './breaker.ts'
import type { RateBudget } from './rate.ts'

/** The credentials of a request: added where it goes to the service's own origin, never recorded, dropped at a redirect. */
export interface Authentication {
  readonly headers?: Readonly<Record<string, string | Secret>>
  /** Parameters of the query. */
  readonly query?: Readonly<Record<string, string | Secret>>
}

/** How one account of an API is reached. */
export interface Connection {
  /** The service's own origin, where its keys go and nowhere else, and the path its endpoints lie below. */
  readonly baseUrl: URL
  /** Name of the setting that holds the address, for messages. */
  readonly addressSetting: string
  /** Asked for each request, before it leaves. */
  readonly authenticate: (request: HttpRequest) => Authentication
  /** The dialect of the account, where its service has several; only the source knows what it means. */
  readonly dialect?: string
  /** Paths set in place of an endpoint's own, by the endpoint's name. Default: none. */
  readonly paths?: ReadonlyMap<string, string>
  /** Hosts downloads may come from, besides the service's own; these may lie in a private network. Default: any public host. */
  readonly allowedDownloadHosts?: readonly string[] | null
}

/** One question to the service, before it is authenticated. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST'
  /** Path as the interface writes it, for the ledger: `/v1/reports/{report_id}`. */
  readonly endpoint: string
  /** Without what `authenticate` adds. */
  readonly url: URL
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent with it and never recorded: fields of the body, and headers. */
  readonly unrecorded?: {
    readonly body?: Readonly<Record<string, Secret>>
    readonly headers?: Readonly<Record<string, Secret>>
  }
  /** Whether sending it twice is harmless; a submission is not. */
  readonly idempotent: boolean
  /** Number of the page, from 1. From the second page on it waits out any pause, so that the pages before are not lost. */
  readonly part?: number
  /** The caller can do without the answer: the request does not wait while its path is in trouble. */
  readonly optional?: boolean
  /** Awaited before each retry. Default: nothing is. */
  readonly letOthers?: () => Promise<void>
  /** Awaited each time the turn of the request at the rate has come, right before it leaves: if this throws, nothing is sent. Default: nothing is. */
  readonly onTurn?: () => Promise<void>
  /** The place of the breaker that its failures count for. Default: its path, and the account as a whole. */
  readonly place?: string
  /** What its answer is paid for, as far as it is known before; `billed` of the answer tells the rest. Default: it is free. */
  readonly paidFor?: PurchaseSize
  /** A 429 means that too much work is open at the service, whatever its text says, and not too many requests a second. Default: false. */
  readonly isAboutOpenWork?: boolean
}

/** An answer of any status, read to its end. */
export interface HttpAnswer {
  readonly status: number
  readonly contentType: string
  readonly bytes: Buffer
  /**
   * Call with how many rows came (null: unknown), with what the answer says that it cost (null: it does not say), and then with what the balance says. Also
   * for an answer that could not be read: other requests wait for it. Only the first call counts. Absent where the answer is free.
   */
  readonly billed?: (rows: number | null, credits: number | null, byBalance?: number | null) => Promise<void>
}

/** An answer whose body is read as it comes. */
export interface HttpStream {
  readonly status: number
  readonly contentType: string
  /** Decoded from its content encoding; throws TRUNCATED, TOO_LARGE or SERVICE_TIMEOUT while it is read. */
  readonly body: AsyncIterable<Uint8Array>
}

/** Bound to one job and account. */
export interface HttpClient {
  /** Address of an endpoint: its path, or the one set in its place, below the service's base. */
  url(name: string, path: string): URL
  /** Of the account's connection. */
  readonly dialect?: string
  /** Origin of the service, the name under which facts about it are remembered. */
  readonly origin: string
  /**
   * Reads the whole answer, of whatever status but 429; 5xx and 429 are tried again first where that is harmless, for as long as `patience` says
   * while the service is in trouble for all. A request that may not be sent twice throws with `sent` saying whether it can have reached
   * the service. Throws RATE_LIMITED on 429.
   */
  read(request: HttpRequest): Promise<HttpAnswer>
  /** The body of a finished report, from whatever host the service names; never authenticated. Empty where the status is not 200. */
  download(url: string): Promise<HttpStream>
}

/** All that the requests of one account share. */
export interface ServiceOptions extends Connection {
  readonly rate: RateBudget
  readonly log: Log
  readonly clock: Clock
  /** Called when a service is away or refuses everything: at first, after each further failed probe, and with null when that is over. */
  readonly tellTrouble?: (place: string, trouble: Trouble | null) => void
}

/** A service with what all its clients share. */
export interface OpenService extends ServiceOptions {
  readonly breaker: Breaker
  /** By run and endpoint: since when it refuses each request of the run although others of the account are answered. The breaker would let these pass for ever. */
  readonly refusedSince: Map<string, number>
}

/** All that the requests of one job share. */
export interface UnitHttpOptions {
  readonly account: string
  readonly signal: AbortSignal
  /** The lane of a request in the account's rate: requests of different lanes leave in turn. Default: a lane of all that name none. */
  readonly lane?: string
  /** For connecting, for the first byte of an answer, and between two bytes of a body. */
  readonly timeoutMs: number
  readonly attempts: number
  /** How long it waits for a service that is away or refuses everything. Default: a few seconds, for requests beside the jobs. */
  readonly patience?: Patience
  readonly maxBodyBytes: number
  readonly record: (request: SentRequest) => void
  /** Told of each download whose body has another checksum than its answer names, in words that are the same for the same bytes. Default: it is TRUNCATED. */
  readonly otherSum?: (said: string) => void
  /** Called for each request that is paid for, in place of sending it. Default: it is sent. */
  readonly paying?: (
    request: HttpRequest & { readonly paidFor: PurchaseSize },
    send: (waits: Required<Pick<HttpRequest, 'letOthers' | 'onTurn'>>) => Promise<HttpAnswer>,
  ) => Promise<HttpAnswer>
}
