// What is compiled once for a unit: its staged columns, their casts, and where the key stands among them.
import type { Column, Definition, Unit } from '../core/types.ts'
import { type Cast, CellError, compileCast } from './cast.ts'

export interface PlannedColumn {
  readonly column: Column
  readonly cast: Cast
  /** Names of the field in the answer, lower case, best first. */
  readonly names: readonly string[]
}

export interface ParsePlan {
  /** Columns that come with the answer, in the order of the COPY. */
  readonly columns: readonly PlannedColumn[]
  /** Places of the key's columns among them, in the key's order. */
  readonly keyPlaces: readonly number[]
  /** Columns of the definition that a response may also carry without it being news, lower case. */
  readonly knownElsewhere: ReadonlySet<string>
  readonly maxBytes: number
}

export const compileParsePlan = (definition: Definition, unit: Unit): ParsePlan => {
  const staged = definition.columns.filter((column) => column.origin === 'response')
  return {
    columns: staged.map((column) => ({
      column,
      cast: compileCast(column, definition, unit),
      names: [...new Set([...column.from, column.name].map((name) => name.toLowerCase()))],
    })),
    keyPlaces: definition.key.flatMap((name) => {
      const place = staged.findIndex((column) => column.name === name)
      return place < 0 ? [] : [place]
    }),
    knownElsewhere: new Set(
      definition.columns.filter((column) => column.origin !== 'response').map((column) => column.name.toLowerCase()),
    ),
    maxBytes: definition.limits.maxBodyBytes,
  }
}

/** A btree entry holds about 2,700 bytes; the key's other columns and its header need some. */
export const maxKeyBytes = 2_000

/** Reads one row into `values` (COPY text or null). Throws CellError naming the column it could not read. */
export const castRow = (plan: ParsePlan, cellOf: (place: number) => string | null, values: (string | null)[]): void => {
  for (let place = 0; place < plan.columns.length; place += 1) {
    const planned = plan.columns[place]
    if (planned === undefined) continue
    values[place] = castCell(planned, cellOf(place))
  }
  let keyBytes = 0
  for (const place of plan.keyPlaces) keyBytes += (values[place]?.length ?? 0) * 3
  if (keyBytes > maxKeyBytes) checkKeyBytes(plan, values)
}

export const castCell = ({ column, cast }: PlannedColumn, cell: string | null): string | null => {
  try {
    const value = cell === null ? null : cast(cell)
    if (value === null && !column.nullable)
      throw new CellError(`${column.isKey ? 'part of the key' : 'the column'} is empty, a value is needed`)
    return value
  } catch (error) {
    if (error instanceof CellError) throw new ColumnError(column.name, error.message)
    throw error
  }
}

const checkKeyBytes = (plan: ParsePlan, values: readonly (string | null)[]): void => {
  const bytes = plan.keyPlaces.reduce((sum, place) => sum + Buffer.byteLength(values[place] ?? ''), 0)
  const widest = plan.columns[plan.keyPlaces.at(-1) ?? 0]?.column.name ?? 'key'
  if (bytes > maxKeyBytes) throw new ColumnError(widest, `the key has ${bytes} bytes, at most ${maxKeyBytes} can be indexed`)
}

/** A cell that does not fit, with its column. */
export class ColumnError extends Error {
  override readonly name = 'ColumnError'
  readonly column: string | null

  constructor(column: string | null, message: string) {
    super(message)
    this.column = column
  }
}

/** The key of a row some of whose cells were rejected, or null where the key itself cannot be read. */
export const keyOf = (plan: ParsePlan, cellOf: (place: number) => string | null): (string | null)[] | null => {
  const key: (string | null)[] = []
  for (const place of plan.keyPlaces) {
    const planned = plan.columns[place]
    if (planned === undefined) return null
    try {
      key.push(castCell(planned, cellOf(place)))
    } catch {
      return null
    }
  }
  return key
}
