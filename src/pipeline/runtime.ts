// Everything the work on jobs needs, opened once per process.
import type { Settings } from '../config/env.ts'
import type { Hooks } from '../config/hooks-setting.ts'
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { AlarmRoutes } from '../core/routes.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import type { Db } from '../db/tables.ts'
import type { Allowance, ReleaseApi } from '../extract/api.ts'
import type { Service } from '../extract/http-types.ts'
import type { LandingStore } from '../extract/landing.ts'
import type { Source } from '../extract/source.ts'
import type { KnownMarts } from '../load/summaries.ts'
import type { Claimable } from '../ledger/run-list.ts'
import type { OwnProcess } from '../ledger/processes.ts'
import type { Warehouse } from '../ledger/warehouse.ts'
import type { AccountOf } from './apis.ts'
import type { AttributeFolder } from './attributes.ts'
import type { Progress } from './progress.ts'

/** Choices of the person who started the command. */
export interface RunConsent {
  /** Submissions whose answer was lost may be sent again. */
  readonly resubmitUncertain: boolean
  /** Who allows, for this run, what would else wait for approval; null: nobody. */
  readonly approvedBy: string | null
}

export interface Runtime {
  readonly settings: Settings
  readonly database: Database
  /** As it was found when the command or its last run began. */
  readonly warehouse: Warehouse
  /** Before a run plans or buys: finds out whether this database is still the warehouse, and notes the run beside the landings. */
  begin(runId: number): Promise<void>
  /** The row of this process in the ledger, which holds its jobs. */
  readonly process: OwnProcess
  /** A connection that no lock on the work keeps busy: for what has to be heard while all others wait. */
  ownLine(): Db
  readonly landing: LandingStore
  readonly sources: ReadonlyMap<string, Source>
  readonly definitions: readonly Definition[]
  /** Whether these are all there are; a command may be given some. */
  readonly hasAllPipelines: boolean
  readonly marts: KnownMarts
  /** The folder attributes/ as it is now, with every definition there is; null: there is none. Throws DEFINITION where definitions have mistakes. */
  attributes(): Promise<AttributeFolder | null>
  /** Who gets which alarms; null: there is no notify.yaml, and those that the environment names get all. */
  readonly routes: AlarmRoutes | null
  /** The definition's API as its account sees it, one for each; throws CONFIGURATION where the key is missing. */
  service(of: AccountOf): Service
  /** What that account may use over all its pipelines; throws CONFIGURATION. */
  allowance(of: AccountOf): Allowance
  /** How the definition's API tells of new data; null: it does not. */
  releaseApi(of: AccountOf): ReleaseApi | null
  /** Where services send messages to; null: nowhere. */
  readonly hooks: Hooks | null
  /** What this process has a definition or a source for, as the ledger numbers it; asked anew now and then, since pipelines come. */
  claimable(): Promise<Claimable>
  readonly progress: Progress
  readonly log: Log
  /** The database's time (see db/database-clock.ts). */
  readonly clock: Clock
  readonly consent: RunConsent
}

/** The definition of that version, or null when it is not here. */
export const definitionOf = (
  runtime: Pick<Runtime, 'definitions'>,
  { pipeline, version }: { readonly pipeline: string; readonly version: number },
): Definition | null =>
  runtime.definitions.find((definition) => definition.pipeline === pipeline && definition.version === version) ?? null
