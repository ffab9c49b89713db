// Decides which declared fault acts on a request. Counting is all the memory there is, so a list acts the same in every run.
import { type Endpoint, type Fault, type FaultKind, faultKinds } from './fault-kinds.ts'
import { combine, hashText, unit } from './hash.ts'

export interface FaultPoint {
  readonly endpoint: Endpoint
  /** Domains the request is about; a fault with a `domain` acts on those alone. */
  readonly domains: readonly string[]
}

export interface Faults {
  /** The fault of this kind that acts here and now, or null. Each call counts as one request for faults of the kind. */
  take(kind: FaultKind, point: FaultPoint): Fault | null
  /** How often each declared fault has acted, in the order of the list. */
  acted(): readonly number[]
}

interface Counted {
  readonly fault: Fault
  readonly index: number
  seen: number
  acted: number
}

export const createFaults = (list: readonly Fault[], seed: number): Faults => {
  const counted: Counted[] = list.map((fault, index) => ({ fault, index, seen: 0, acted: 0 }))
  return {
    take: (kind, point) => {
      let found: Counted | null = null
      for (const entry of counted) {
        if (entry.fault.kind !== kind || !isAt(entry.fault, point)) continue
        entry.seen += 1
        if (found === null && isDue(entry, seed)) found = entry
      }
      if (found !== null) found.acted += 1
      return found?.fault ?? null
    },
    acted: () => counted.map(({ acted }) => acted),
  }
}

const isAt = (fault: Fault, { endpoint, domains }: FaultPoint): boolean => {
  const place = fault.on ?? faultKinds[fault.kind].on
  const here = place === 'any' || place === endpoint || (place === 'submit' && endpoint.startsWith('submit-'))
  return here && (fault.domain === undefined || domains.includes(fault.domain))
}

const isDue = ({ fault, index, seen, acted }: Counted, seed: number): boolean => {
  if (fault.times !== undefined && acted >= fault.times) return false
  if (fault.nth !== undefined) return [fault.nth].flat().includes(seen)
  if (fault.every !== undefined) return seen % fault.every === 0
  if (fault.probability !== undefined) return unit(combine(hashText(`fault ${index}`, seed), seen)) < fault.probability
  return true
}
