// Which dimension table each key column of a definition's facts joins to.
import type { Definition } from '../core/types.ts'
import { calendar } from './comments.ts'

/** One way from facts to a dimension. */
export interface Join {
  /** Of the facts. */
  readonly column: string
  /** In bi, and the column that is its key. */
  readonly table: string
  readonly to: string
  /** Its values come from the calendar or the lists, not from the rows: a summary of few rows a unit can afford a foreign key. */
  readonly isOfUnits: boolean
}

/** Periods join to the calendar, whatever the source. */
export const joinsOf = ({ dimensionTables }: Pick<Definition, 'dimensionTables'>): readonly Join[] => [
  ...['month', 'date'].map((column) => ({ column, table: calendar.name, to: 'date', isOfUnits: true })),
  ...dimensionTables.map(({ column, name, isAskedFor }) => ({ column, table: name, to: column, isOfUnits: isAskedFor })),
]
