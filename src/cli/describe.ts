// `millrace describe`: the datasets the service offers this key.
import { discoverDatasets } from '../check/discover.ts'
import type { Handler } from './command-spec.ts'
import { discoverRequest, notOffered } from './discovery.ts'

export const handle: Handler = async (invocation) => {
  const { output } = invocation
  const datasets = await discoverDatasets(discoverRequest(invocation))
  if (datasets === null) return notOffered(invocation, 'describe', 'its datasets')
  for (const dataset of datasets) {
    output.event({ event: 'dataset', ...dataset })
    output.line(dataset.table)
    output.line(`  granularities: ${dataset.granularities.join(', ') || '-'}`)
    output.line(`  filters:       ${dataset.filters.join(', ') || '-'}`)
    output.line(`  metrics:       ${dataset.metrics.join(', ') || '-'}`)
  }
  output.event({ event: 'summary', command: 'describe', offered: true, datasets: datasets.length })
  output.line()
  output.line('Next: `millrace new dataset NAME` writes the two files for one of them.')
  return 0
}
