// `millrace capabilities`: the countries and dates the service offers this key.
import { discoverCapabilities } from '../check/discover.ts'
import type { Handler } from './command-spec.ts'
import { discoverRequest, notOffered } from './discovery.ts'

export const handle: Handler = async (invocation) => {
  const { output } = invocation
  const found = await discoverCapabilities(discoverRequest(invocation))
  if (found === null) return notOffered(invocation, 'capabilities', 'what this key may ask')
  output.table(
    ['family', 'from', 'to', 'countries'],
    found.families.map((family) => [family.name, family.from ?? '-', family.to ?? '-', family.countries.join(' ')]),
  )
  if (found.remainingHits !== null) output.line(`${found.remainingHits} requests left.`)
  output.event({
    event: 'summary',
    command: 'capabilities',
    offered: true,
    remaining_hits: found.remainingHits,
    families: found.families,
  })
  return 0
}
