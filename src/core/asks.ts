// What an answer answers: answers to equal questions serve every pipeline and version that asks them.
import { createHash } from 'node:crypto'
import type { Definition, JobKind } from './types.ts'

/** Digest of all that decides what a cell holds but for its values, its window and the metrics asked for. The account is no part of it: the service gives each the same. */
export const asksOf = ({ source, params, window }: Pick<Definition, 'source' | 'params' | 'window'>): string => {
  const sorted = Object.fromEntries(Object.entries(params).sort(([left], [right]) => (left < right ? -1 : 1)))
  return createHash('sha256')
    .update(JSON.stringify({ source, params: sorted, every: window.every }))
    .digest('hex')
}

/** In place of it for an answer that was asked for with other parameters than its definition has by now: it serves no other definition. */
export const asksOther = 'other'

/** Metrics a definition asks for: its measures' names at the service. */
export const metricsOf = ({ columns }: Pick<Definition, 'columns'>): string[] =>
  columns.filter((column) => !column.isKey && column.origin === 'response').map((column) => column.from[0] ?? column.name)

/** In this order an answer that holds more serves those that ask for less of it; others keep their places. */
export const widestFirst = (definitions: readonly Definition[]): Definition[] => {
  const alike = Map.groupBy(definitions, asksOf)
  for (const [asks, those] of alike)
    alike.set(
      asks,
      those.toSorted((left, right) => metricsOf(right).length - metricsOf(left).length),
    )
  return definitions.flatMap((definition) => alike.get(asksOf(definition))?.shift() ?? [])
}

/** What a pipeline asks for. */
export interface Asked {
  readonly asks: string
  readonly metrics: readonly string[]
}

/** Every answer of a walk holds all its fields, whichever a definition takes. */
export const askedBy = (definition: Definition, kind: JobKind): Asked => ({
  asks: asksOf(definition),
  metrics: kind === 'walk' ? [] : metricsOf(definition).sort(),
})

/** With what a word was given begins so: what asks for more by now waits for another. */
export const askedDigest = ({ asks, metrics }: Asked): string => [asks, JSON.stringify(metrics)].join('\n')
