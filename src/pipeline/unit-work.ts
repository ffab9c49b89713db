// What the steps of one unit share while a process holds it.
import type { Definition } from '../core/types.ts'
import type { RequestRecord } from '../ledger/requests.ts'
import type { ClaimedUnit } from '../ledger/units.ts'
import type { Source } from '../extract/source.ts'
import type { UnitJob } from './queue.ts'
import type { Runtime } from './runtime.ts'

export interface UnitWork {
  readonly runtime: Runtime
  readonly job: UnitJob
  readonly claim: ClaimedUnit
  readonly definition: Definition
  readonly source: Source
  /** Requests made for the unit so far; written to the ledger in one statement when the work ends. */
  readonly requests: RequestRecord[]
  readonly signal: AbortSignal
}
