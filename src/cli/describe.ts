// `millrace describe`: the datasets each service offers this key.
import { discoverDatasets } from './check/discover.ts'
import type { Handler } from './command-spec.ts'
import { discoverRequest, showAnswers } from './offered.ts'

/** Asks each API that has its settings. */
export const handle: Handler = async (invocation) => {
  const answers = await discoverDatasets(discoverRequest(invocation))
  return showAnswers(invocation, { command: 'describe', what: 'its datasets' }, answers, (datasets, output) => {
    for (const dataset of datasets) {
      output.event({ event: 'dataset', ...dataset })
      output.line(dataset.table)
      for (const [param, values] of Object.entries(dataset.choices))
        output.line(`  ${`${param}:`.padEnd(14)} ${values.join(', ') || '-'}`)
      output.line(`  filters:       ${dataset.filters?.join(', ') || '-'}`)
      if (dataset.dimensions !== null) output.line(`  dimensions:    ${dataset.dimensions.join(', ') || '-'}`)
      output.line(`  metrics:       ${dataset.metrics.join(', ') || '-'}`)
    }
    output.line()
    output.line('Next: `millrace new dataset NAME` writes the definition of one of them.')
    return { datasets: datasets.length }
  })
}
