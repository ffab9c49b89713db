// `millrace capabilities`: the values and dates each service offers this key.
import { discoverCapabilities } from './check/discover.ts'
import type { Handler } from './command-spec.ts'
import { discoverRequest, showAnswers } from './offered.ts'
import { some } from './output.ts'

/** Asks each API that has its settings. */
export const handle: Handler = async (invocation) => {
  const answers = await discoverCapabilities(discoverRequest(invocation))
  return showAnswers(invocation, { command: 'capabilities', what: 'what this key may ask' }, answers, (found, output) => {
    const kinds = [...new Set(found.families.flatMap(({ values }) => Object.keys(values)))]
    output.table(
      ['family', 'from', 'to', ...kinds],
      found.families.map(({ name, from, to, values }) => [
        name,
        from ?? '-',
        to ?? '-',
        ...kinds.map((kind) => values[kind]?.join(' ') ?? '-'),
      ]),
    )
    if (found.remainingHits !== null) output.line(`${some(found.remainingHits, 'request')} left.`)
    return {
      remaining_hits: found.remainingHits,
      families: found.families.map(({ values, ...family }) => ({ ...family, ...values })),
    }
  })
}
