// Everything the work on jobs needs, opened once per process.
import { isDeepStrictEqual } from 'node:util'
import type { AlarmRoutes } from '../core/alarm-routes.ts'
import type { Hooks } from '../core/hooks-setting.ts'
import type { AccountOf } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { ReleaseApi } from '../extract/api.ts'
import type { LandingStore } from '../extract/landing-store.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { keyParameters } from '../ledger/pipelines.ts'
import type { Claimable } from '../ledger/wait-list.ts'
import type { Warehouse } from '../ledger/warehouse.ts'
import type { KnownMarts } from '../load/summaries.ts'
import type { PlanRuntime } from '../plan/plan-runtime.ts'
import type { Progress } from './progress.ts'
import type { AttributeFolder } from './refresh-attributes.ts'

export interface Runtime extends PlanRuntime {
  /** As it was found when the command or its last run began. */
  readonly warehouse: Warehouse
  /** Before a run plans or buys: finds out whether this database is still the warehouse, and notes the run beside the landings. */
  begin(runId: number): Promise<void>
  /** Sets `clock` by the database's time. */
  hearClock(db: Db): Promise<void>
  /** A connection that is free even while all others wait for a lock: for what must be heard at once. */
  ownLine(): Db
  readonly landing: LandingStore
  readonly definitions: readonly Definition[]
  /** Whether these are all there are; a command may be given some. */
  readonly hasAllPipelines: boolean
  readonly marts: KnownMarts
  /** The folder attributes/ as it is now, with every definition there is; null: there is none. Throws DEFINITION where definitions have mistakes. */
  attributes(): Promise<AttributeFolder | null>
  /** Which receivers get which alarms; null: there is no notify.yaml, and the receivers that the environment names get all. */
  readonly routes: AlarmRoutes | null
  /** How the definition's API tells of new data; null: it does not. */
  releaseApi(of: AccountOf): ReleaseApi | null
  /** Where services send messages to; null: nowhere. */
  readonly hooks: Hooks | null
  /** Pipelines, as the ledger numbers them, for which this process has a definition or a source; read anew now and then, since pipelines come. */
  claimable(): Promise<Claimable>
  readonly progress: Progress
}

/** The definition of that version and those key parameters; null: not here. With other parameters an answer would be loaded as what it is not. */
export const definitionOf = (
  runtime: Pick<Runtime, 'definitions'>,
  { pipeline, version, parameters }: Pick<ClaimedJob, 'pipeline' | 'version' | 'parameters'>,
): Definition | null =>
  runtime.definitions.find(
    (one) => one.pipeline === pipeline && one.version === version && isDeepStrictEqual(keyParameters(one), parameters),
  ) ?? null
