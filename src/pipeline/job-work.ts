// What the steps of one job share while a process holds it.
import type { Definition } from '../core/types.ts'
import type { Source } from '../extract/source.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import type { RequestRecord } from '../ledger/requests.ts'
import type { Runtime } from './runtime.ts'

export interface JobWork {
  readonly runtime: Runtime
  readonly claim: ClaimedJob
  /** The definition travels with the job from its claim to its settlement. */
  readonly definition: Definition
  readonly source: Source
  /** False where only what fetching needs of the definition is known: the answer is landed and waits for the definition. */
  readonly mayLoad: boolean
  /** HTTP requests made for the job so far and not on record yet; taken out once the transaction that records them has committed. */
  readonly requests: RequestRecord[]
  readonly signal: AbortSignal
}
