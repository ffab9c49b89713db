// The seam between the program and an API as a whole: what its folder under `sources` exports beside its datasets.
import type { Environment } from '../core/read-setting.ts'
import type { Budget } from '../core/budget-scope.ts'
import type { NamedPrice } from '../core/learned-price.ts'
import type { Secret } from '../core/redact.ts'
import type { ReleasedData } from '../core/release-month.ts'
import type { Dataset } from '../core/source-spec.ts'
import type { Definition, IsoDate } from '../core/types.ts'
import type { Connection, HttpClient } from './http-types.ts'

/** What one account of an API may use, over all pipelines that ask in its name. */
export interface Allowance {
  readonly requestsPerSecond: number
  readonly budget: Budget
  /** What a setting says of prices, by the dataset's own name. Default: nothing; what is charged is learned. */
  readonly prices?: ReadonlyMap<string, NamedPrice>
}

/** What a key may ask for. */
export interface Capabilities {
  /** Requests left; null where the service does not say. */
  readonly remainingHits: number | null
  /** By family of data (`web_desktop_data`). */
  readonly families: readonly {
    readonly name: string
    /** The values on offer, by what they are of (`countries`). */
    readonly values: Readonly<Record<string, readonly string[]>>
    readonly from: string | null
    readonly to: string | null
  }[]
}

/** null wherever the service does not say. */
export interface Credits {
  /** Credits left for reports; null where the service does not say. */
  readonly remaining: number | null
  /** Credits left for requests: the same number where both are one balance. */
  readonly requests: number | null
  /** What an administrator lets this user spend on reports, and what is left of it. */
  readonly userAllowance: number | null
  readonly userRemaining: number | null
}

/** What a definition wants and the key may not ask for; or what was proved, or not asked and why. */
export interface ServiceFinding {
  readonly level: 'error' | 'warning' | 'proved' | 'not asked'
  readonly message: string
}

/** A message that has the form of the service's own; its sender is not known yet. */
export interface ReleaseMessage {
  readonly every: ReleasedData
  readonly subscriptionId: string
  readonly availableTo: IsoDate
}

/** `genuine`: the service sent it. `unknown`: it does not answer, or has no way to say. */
export type Sender = 'genuine' | 'forged' | 'unknown'

/** How a service tells that there are new data, and that a report has changed its state. All of it is free. */
export interface ReleaseApi {
  /** Longest address it takes, in characters. */
  readonly longestAddress: number
  /** Header of its messages that proves the sender to the service itself. */
  readonly proofHeader: string
  /** Whether it was sent because a person asked for a test: then it is accepted without effect. */
  isTest(body: unknown): boolean
  /** null: not a message of this service. */
  read(body: unknown): ReleaseMessage | null
  /** Asks the service whether it sent a message with that proof. */
  sender(http: HttpClient, proof: Secret): Promise<Sender>
  /** The newest day there are data for; null: it does not say. @param latest a later day is a mistake of the service, and ignored */
  newest(http: HttpClient, latest: IsoDate): Promise<IsoDate | null>
  /** Has messages sent to that address from now on; returns the service's name of the subscription. null: it has no such way. */
  subscribe(http: HttpClient, every: ReleasedData, address: Secret): Promise<string | null>
  /** Ends the messages; false: the service has no such way, or does not know the subscription. */
  unsubscribe(http: HttpClient, every: ReleasedData, subscriptionId: string): Promise<boolean>
  /** Has the service send a message to that address; null: it was taken, else why not. */
  test(http: HttpClient, address: Secret): Promise<string | null>
  /** Whether a message about a report says that it is still being made: then a poll would gain nothing. */
  isStillMaking(body: unknown): boolean
}

/**
 * One API, named as its folder is, and so is everything of it: its datasets (`<folder>.<dataset>`), its settings, its rate, its HTTP
 * service. Nothing of it is ever used for another. The optional methods cost nothing, and return null where the service has no such way.
 */
export interface Api {
  /**
   * Settings that are secrets, without an account's suffix: each may also come from a file (NAME_FILE) or from a command (NAME_COMMAND),
   * and is taken out of everything that is printed.
   */
  readonly secrets: readonly string[]
  /** What it reads of the environment, for `check`. Absent: unknown. */
  readonly settings?: { readonly names: readonly string[]; isRead(name: string): boolean }
  /** Throws CONFIGURATION naming each setting that is missing or wrong. */
  connection(environment: Environment, account: string): Connection
  /** Called also where the account has no key. Throws CONFIGURATION. */
  allowance(environment: Environment, account: string): Allowance
  /** For `millrace describe`. */
  describe?(http: HttpClient): Promise<readonly Dataset[] | null>
  /** For `millrace capabilities`. */
  capabilities?(http: HttpClient): Promise<Capabilities | null>
  /** For `millrace quota`. @param failed takes the error of one of several requests: the others still count */
  credits?(http: HttpClient, failed: (error: unknown) => null): Promise<Credits | null>
  /** For nights that begin with the release of data. */
  readonly releases?: ReleaseApi
  /** For `millrace check`: compares the definitions of this account with what its key may request. */
  check?(http: HttpClient, definitions: readonly Definition[]): Promise<readonly ServiceFinding[]>
}
