// Decides which declared fault acts on a request. Its only state is counters, so a list of faults acts the same in every run.
import { type Endpoint, type Fault, type FaultKind, faultKinds, isExchangeFault } from './fault-kinds.ts'
import { combine, hashText, unit } from './hash.ts'

/** `domains`: domains of the request; a fault with a `domain` acts only on requests with that domain. */
type FaultPoint = { readonly endpoint: Endpoint; readonly domains: readonly string[] }

/** The fault of this kind that acts on the request at hand, or null. */
export type TakeFault = (kind: FaultKind) => Fault | null

type Counted = ReturnType<typeof uncounted>
const uncounted = (fault: Fault, index: number) => ({ fault, index, seen: 0, acted: 0 })

export const createFaults = (list: readonly Fault[], seed: number) => {
  const counted = list.map(uncounted)
  const dueNow = (point: FaultPoint, belongs: (kind: FaultKind) => boolean): Counted[] =>
    counted.filter((entry) => {
      if (!belongs(entry.fault.kind) || !isAt(entry.fault, point)) return false
      entry.seen += 1
      return isDue(entry, seed)
    })
  return {
    /** Counts a request. Faults of the exchange are decided now, other faults when an endpoint asks for them. */
    begin: (point: FaultPoint): TakeFault => {
      const decided = dueNow(point, isExchangeFault)
      return (kind) => {
        const candidates = isExchangeFault(kind) ? decided : dueNow(point, (name) => name === kind)
        const found = candidates.find(
          ({ fault, acted }) => fault.kind === kind && acted < (fault.times ?? Number.POSITIVE_INFINITY),
        )
        if (found !== undefined) found.acted += 1
        return found?.fault ?? null
      }
    },
    /** How often each declared fault has acted, in the order of the list. */
    acted: () => counted.map(({ acted }) => acted),
  }
}

const isAt = (fault: Fault, { endpoint, domains }: FaultPoint): boolean => {
  const place = fault.on ?? faultKinds[fault.kind].on
  const here = place === 'any' || place === endpoint || (place === 'submit' && endpoint.startsWith('submit-'))
  return here && (fault.domain === undefined || domains.includes(fault.domain))
}

const isDue = ({ fault, index, seen }: Counted, seed: number): boolean => {
  if (fault.nth !== undefined) return [fault.nth].flat().includes(seen)
  if (fault.every !== undefined) return seen % fault.every === 0
  if (fault.probability !== undefined) return unit(combine(hashText(`fault ${index}`, seed), seen)) < fault.probability
  return true
}
