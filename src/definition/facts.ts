// What loading and publishing know of a definition's rows from its source: the span each is for, and the dimension tables they join to.
import type { DimensionTable } from '../core/dimension-table.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Definition, RowPeriod } from '../core/types.ts'

type Needed = Pick<Definition, 'params' | 'window' | 'key' | 'dimensions'>

/** Without a parameter of that name a row is for the whole window. */
export const rowPeriodOf = ({ params, window, key }: Needed, { period }: SourceSpec): RowPeriod => {
  const value = period === undefined ? undefined : params[period.param]
  const every = period?.every[String(value)] ?? window.every
  return { every, isInKey: period !== undefined && key.includes(period.param) }
}

/** In the order of their names, which is the same for every pipeline: two loads never wait for each other in a circle. */
export const dimensionTablesOf = ({ key, dimensions }: Needed, source: SourceSpec): readonly DimensionTable[] =>
  Object.entries(source.dimensionTables ?? {})
    .filter(([column]) => key.includes(column))
    .map(([column, spec]) => ({ ...spec, column, isAskedFor: dimensions.some(({ name }) => name === column) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
