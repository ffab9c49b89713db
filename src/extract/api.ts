// The seam between the program and an API as a whole: what its folder under `sources` exports beside its datasets.
import type { Environment } from '../config/read-setting.ts'
import type { Budget } from '../core/budget.ts'
import type { Definition } from '../core/types.ts'
import type { Connection, HttpClient } from './http-types.ts'

/** What one account of an API may use, over all pipelines that ask in its name. */
export interface Allowance {
  readonly requestsPerSecond: number
  /** Credits for reports. */
  readonly budget: Budget
}

/** One dataset that a service offers. */
export interface Dataset {
  readonly table: string
  readonly metrics: readonly string[]
  readonly filters: readonly string[]
  /** By the parameter of a definition: what the dataset can be asked with. */
  readonly choices: Readonly<Record<string, readonly string[]>>
}

/** What a key may ask for. */
export interface Capabilities {
  /** Requests left; null where the service does not say. */
  readonly remainingHits: number | null
  /** By family of data (`web_desktop_data`). */
  readonly families: readonly {
    readonly name: string
    /** By what it can be asked for (`countries`): the values on offer. */
    readonly values: Readonly<Record<string, readonly string[]>>
    readonly from: string | null
    readonly to: string | null
  }[]
}

export interface Credits {
  /** Credits left for reports; null where the service does not say. */
  readonly remaining: number | null
  readonly userAllowance: number | null
  readonly userRemaining: number | null
}

/** What a definition wants and the key may not ask for; or what was proved, or not asked and why. */
export interface ServiceFinding {
  readonly level: 'error' | 'warning' | 'proved' | 'not asked'
  readonly message: string
}

/**
 * One API. It is named as its folder is, and so is everything of it: its datasets (`<folder>.<dataset>`), its settings, its rate, its HTTP
 * service. Nothing of it is ever used for another. The optional questions cost nothing; they answer null where the service has no such way.
 */
export interface Api {
  /**
   * Settings that are secrets, without an account's suffix: each may also stand in a file (NAME_FILE) or come from a command (NAME_COMMAND),
   * and is taken out of everything that is printed.
   */
  readonly secrets: readonly string[]
  /** Throws CONFIGURATION naming each setting that is missing or wrong. */
  connection(environment: Environment, account: string): Connection
  /** Asked also where the account has no key. Throws CONFIGURATION. */
  allowance(environment: Environment, account: string): Allowance
  /** For `millrace describe`. */
  describe?(http: HttpClient): Promise<readonly Dataset[] | null>
  /** For `millrace capabilities`. */
  capabilities?(http: HttpClient): Promise<Capabilities | null>
  /** For `millrace quota`. */
  credits?(http: HttpClient): Promise<Credits | null>
  /** For `millrace check`: the definitions that ask in this account's name, against what its key may ask. */
  check?(http: HttpClient, definitions: readonly Definition[]): Promise<readonly ServiceFinding[]>
}
