// Identifies what an answer was requested for: an answer can serve every pipeline and version that requests the same.
import { createHash } from 'node:crypto'
import type { Definition, JobKind } from './types.ts'

/** Digest of what decides a cell's content, apart from values, window and metrics. The account is no part: the service gives every account the same. */
export const requestDigest = ({ source, params, window }: Pick<Definition, 'source' | 'params' | 'window'>): string => {
  const sorted = Object.fromEntries(Object.entries(params).sort(([left], [right]) => (left < right ? -1 : 1)))
  return createHash('sha256')
    .update(JSON.stringify({ source, params: sorted, every: window.every }))
    .digest('hex')
}

/** The digest of an answer that was requested with other parameters than its definition has now: it serves no other definition. */
export const noReuseDigest = 'other'

/** Metrics that a definition requests, by the service's names. */
export const metricsOf = ({ columns }: Pick<Definition, 'columns'>): string[] =>
  columns.filter((column) => !column.isKey && column.origin === 'response').map((column) => column.from[0] ?? column.name)

/** Among definitions that request the same, the one with most metrics comes first, so that its answer serves the others; the rest keep their places. */
export const widestFirst = (definitions: readonly Definition[]): Definition[] => {
  const alike = Map.groupBy(definitions, requestDigest)
  for (const [asks, those] of alike)
    alike.set(
      asks,
      those.toSorted((left, right) => metricsOf(right).length - metricsOf(left).length),
    )
  return definitions.flatMap((definition) => alike.get(requestDigest(definition))?.shift() ?? [])
}

/** What a pipeline asks for. */
export interface RequestedData {
  readonly asks: string
  readonly metrics: readonly string[]
}

/** Pages always hold all fields, so a walk names no metrics. */
export const requestedBy = (definition: Definition, kind: JobKind): RequestedData => ({
  asks: requestDigest(definition),
  metrics: kind === 'walk' ? [] : metricsOf(definition).sort(),
})

/** An approval's digest begins with this: a definition that requests more since then needs a new approval. */
export const approvalDigestPrefix = ({ asks, metrics }: RequestedData): string => [asks, JSON.stringify(metrics)].join('\n')
