// `millrace describe` and `millrace capabilities`: the datasets, and the values and dates, that each service offers this key.
import { counted } from '../core/counted.ts'
import type { Capabilities } from '../extract/api.ts'
import { type Answer, discover } from './check/discover.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { fields, type Output } from './output.ts'

/** Asks each API that has its settings. */
export const describe: Handler = async (invocation) => {
  const answers = await discover(invocation, 'describe')
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

type Family = Capabilities['families'][number]

/** Asks each API that has its settings. */
export const capabilities: Handler = async (invocation) => {
  const answers = await discover(invocation, 'capabilities')
  return showAnswers(invocation, { command: 'capabilities', what: 'what this key may ask' }, answers, (found, output) => {
    const kinds = [...new Set(found.families.flatMap(({ values }) => Object.keys(values)))]
    output.table(found.families, {
      family: ({ name }) => name,
      ...fields('from', 'to'),
      ...Object.fromEntries(kinds.map((kind) => [kind, ({ values }: Family) => values[kind]?.join(' ') ?? null])),
    })
    if (found.remainingHits !== null) output.line(`${counted(found.remainingHits, 'request')} left.`)
    return {
      remaining_hits: found.remainingHits,
      families: found.families.map(({ values, ...family }) => ({ ...family, ...values })),
    }
  })
}

/** Shows what each API says, under its name where there are several. `show` prints one and returns what the summary says of it. */
const showAnswers = <T>(
  { output }: Invocation,
  { command, what }: { readonly command: string; readonly what: string },
  answers: readonly Answer<T>[],
  show: (said: T, output: Output) => Readonly<Record<string, unknown>>,
): number => {
  if (answers.length === 0) {
    output.summary(command, { offered: false })
    output.line(`No source here has a way to tell ${what}.`)
  }
  for (const { api, said } of answers) {
    const name = answers.length > 1 ? { api } : {}
    if (answers.length > 1) output.line(`${api}:`)
    const offered = said !== null
    // Absence is no failure: not every version of a service has the endpoint.
    if (!offered) output.line(`The service does not tell ${what} (no such endpoint). Nothing depends on it.`)
    output.summary(command, { ...name, offered, ...(offered ? show(said, output) : {}) })
  }
  return 0
}
