// What planning needs of the process it works in. A run's runtime is one (src/run/runtime.ts).
import type { IsoDate } from '../core/types.ts'
import type { Clock } from '../core/clock.ts'
import type { Settings } from '../core/env.ts'
import type { Log } from '../core/log.ts'
import type { AccountOf } from '../core/source-spec.ts'
import type { Database } from '../db/connect.ts'
import type { Allowance } from '../extract/api.ts'
import type { Service } from '../extract/http.ts'
import type { Source } from '../extract/source.ts'
import type { OwnProcess } from '../ledger/processes.ts'

/** Choices of the person who started the command. */
export interface RunConsent {
  readonly resubmitUncertain: boolean
  /** Who approves, for this run, what would else wait for approval; null: no person. */
  readonly approvedBy: string | null
}

/** Tells a person something that is no unit's state. */
interface Notice {
  readonly event: 'notice'
  readonly code: string
  readonly message: string
}

export interface PlanRuntime {
  readonly settings: Settings
  readonly database: Database
  /** The row of this process in the ledger, which holds its jobs. */
  readonly process: OwnProcess
  readonly sources: ReadonlyMap<string, Source>
  /** The definition's API as its account sees it, one for each; throws CONFIGURATION where the key is missing. */
  service(of: AccountOf): Service
  /** What that account may use over all its pipelines; throws CONFIGURATION. */
  allowance(of: AccountOf): Allowance
  readonly progress: { readonly counters: { requests: number }; emit(event: Notice): void }
  readonly log: Log
  /** The database's time (see db/database-clock.ts). */
  readonly clock: Clock
  readonly consent: RunConsent
}

/** Units in scope of a run. */
export interface PlanCounts {
  readonly units: number
  /** Jobs that cover them. */
  readonly jobs: number
  readonly done: number
  readonly held: number
  readonly notPublished: number
  /** The windows of those units as people read them, in order: `2026-11`, `2026-12`. */
  readonly unpublishedWindows?: readonly string[]
  /** The day on which the service publishes the first of them, by the calendar; null: there are none. */
  readonly expectedOn?: IsoDate | null
  /** Lists that are held for a person, whose query failed, or whose file cannot be taken in. */
  readonly listsNotObeyed?: number
}
