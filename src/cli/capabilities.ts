// `millrace capabilities`: the countries and dates each service offers this key.
import { discoverCapabilities } from '../check/discover.ts'
import type { Handler } from './command-spec.ts'
import { discoverRequest, showAnswers } from './discovery.ts'

export const handle: Handler = async (invocation) => {
  const answers = await discoverCapabilities(discoverRequest(invocation))
  return showAnswers(invocation, { command: 'capabilities', what: 'what this key may ask' }, answers, (found, output) => {
    output.table(
      ['family', 'from', 'to', 'countries'],
      found.families.map((family) => [family.name, family.from ?? '-', family.to ?? '-', family.countries.join(' ')]),
    )
    if (found.remainingHits !== null) output.line(`${found.remainingHits} requests left.`)
    return { remaining_hits: found.remainingHits, families: found.families }
  })
}
