// One request as the endpoints see it.
import type { KeyFlag } from './books.ts'
import type { TakeFault } from './faults.ts'

export interface Exchange {
  readonly url: URL
  /** The part of the path in the route's braces, if it has one. */
  readonly id: string
  /** Parsed JSON of the body; undefined where it is not JSON. */
  readonly body: unknown
  readonly isJson: boolean
  readonly acceptsGzip: boolean
  readonly key: KeyFlag
  readonly caller: string | null
  /** Header X-sw-authorization; empty: it has none. */
  readonly proof: string
  readonly fault: TakeFault
}
