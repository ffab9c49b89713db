// Everything the work on units needs, opened once per process.
import type { Clock } from '../core/clock.ts'
import type { Settings } from '../config/env.ts'
import type { Log } from '../core/log.ts'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import type { Service } from '../extract/http.ts'
import type { LandingStore } from '../extract/landing.ts'
import type { Source } from '../extract/source.ts'
import type { Progress } from './progress.ts'
import type { Queue } from './queue.ts'

/** Choices of the person who started the command. */
export interface RunConsent {
  /** Submissions whose answer was lost may be sent again. */
  readonly resubmitUncertain: boolean
}

export interface Runtime {
  readonly settings: Settings
  readonly database: Database
  readonly queue: Queue
  readonly landing: LandingStore
  readonly sources: ReadonlyMap<string, Source>
  readonly definitions: readonly Definition[]
  readonly marts: readonly Mart[]
  /** The service as seen with one account's key; throws CONFIGURATION where the key is missing. */
  service(account: string): Service
  readonly progress: Progress
  readonly log: Log
  readonly clock: Clock
  /** `host:pid:start`, the name under which this process holds leases. */
  readonly owner: string
  readonly consent: RunConsent
}

/** The definition a unit was planned from, or null when it is no longer there. */
export const definitionOf = (runtime: Pick<Runtime, 'definitions'>, pipeline: string, version: number): Definition | null =>
  runtime.definitions.find((definition) => definition.pipeline === pipeline && definition.version === version) ?? null
