// One request as the endpoints see it.
import type { KeyFlag } from './books.ts'
import type { Fault, FaultKind } from './fault-kinds.ts'

export interface Exchange {
  readonly url: URL
  /** The part of the path in the route's braces, if it has one. */
  readonly id: string
  /** Parsed JSON of the body; undefined where it is not JSON. */
  readonly body: unknown
  readonly isJson: boolean
  readonly acceptsGzip: boolean
  readonly key: KeyFlag
  /** The fault of this kind that acts on this request, or null; asking counts as reaching its place. */
  readonly fault: (kind: FaultKind) => Fault | null
}
